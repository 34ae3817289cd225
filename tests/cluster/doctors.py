"""gangstart doctor on a cluster of a test's own, and what faults are put there with."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import jsonschema
from repo import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.gang import Gang

SCHEMA = json.loads((ROOT / "docs" / "doctor.schema.json").read_text())
VALID = jsonschema.Draft202012Validator(SCHEMA)
COMMAND = (sys.executable, "-m", "gangstart", "doctor")


class Doctor:
    """The command on a cluster of its own."""

    def __init__(self, gang: Gang) -> None:
        self.gang = gang
        self.library = gang.cluster.directory / "plugin"

    def look(
        self, *words: str, code: int, seconds: float = 100
    ) -> dict[str, list[tuple[str, str, tuple[str, ...]]]]:
        """Check -> (verdict, reason, nodes) of what is not ok."""
        told = self.told(*words, code=code, seconds=seconds)
        found: dict[str, list[tuple[str, str, tuple[str, ...]]]] = {}
        for one in told["findings"]:
            assert bool(one["action"]) == (one["verdict"] != "ok")
            if one["verdict"] != "ok":
                row = (one["verdict"], one["reason"], tuple(one["nodes"]))
                found.setdefault(one["check"], []).append(row)
        return found

    def told(self, *words: str, code: int, seconds: float = 100) -> dict[str, Any]:
        """Everything that --json prints."""
        ran = self.gang.run([*COMMAND, "--json", *words], seconds=seconds)
        assert ran.code == code, f"{ran.out}\n{ran.err}"
        assert ran.err == "", "progress in a pipe"
        told: dict[str, Any] = json.loads(ran.out)
        VALID.validate(told)
        return told

    def on(self, node: str, *command: str | Path) -> None:
        """Run a command on a node; what it mounts stays there."""
        ran = self.gang.cluster.run([str(word) for word in command], node=node)
        assert ran.returncode == 0, ran.stderr

    def bind(self, node: str, source: str | Path, target: str | Path) -> None:
        """Let a node see something else at a path; it need not have mount(8)."""
        code = "import sys; from gangstart.cluster import kernel as k"
        code += "; k.bind(*sys.argv[1:])"
        self.on(node, sys.executable, "-c", code, source, target)

    def fresh(self, name: str) -> Path:
        """A new folder that every node sees."""
        made = self.gang.folder / name
        made.mkdir()
        return made
