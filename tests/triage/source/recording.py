"""Answers of real commands, kept in a file and played again.

`python -m triage.source.recording CLUSTER FOLDER FILE` (with tests/ and launcher/ in
PYTHONPATH, on the head of a cluster whose jobs `workload.ended` submitted there) asks
for every one of its jobs and writes what was answered.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gangstart.triage.source import bounded
from gangstart.triage.source.bounded import OUTPUT_BYTES, Ran
from gangstart.triage.source.commands import Commands
from gangstart.triage.source.record import Wanted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DELIMITER = "--delimiter="
KEPT_DELIMITER = "<|>"
HERE = Path(__file__).with_name("recorded")
#: What takes most of the room and is not read.
DROPPED = ("job_resources", "statistics", "requested", "consumed", "association")


def key(argv: Sequence[str]) -> str:
    """A command line without what differs from call to call."""
    words = [Path(argv[0]).name, *argv[1:]]
    return " ".join(DELIMITER if w.startswith(DELIMITER) else w for w in words)


def delimiter(argv: Sequence[str]) -> str:
    """The delimiter of this call."""
    found = (w.removeprefix(DELIMITER) for w in argv if w.startswith(DELIMITER))
    return next(found, "")


@dataclass
class Recorder:
    """Runs commands and remembers what they answered."""

    hidden: Mapping[str, str]
    calls: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __call__(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        env: Mapping[str, str],
        limit: int = OUTPUT_BYTES,
    ) -> Ran:
        """Run and remember."""
        ran = bounded.run(argv, deadline_s=deadline_s, env=env, limit=limit)
        out, mark = ran.out.decode(), delimiter(argv)
        if mark:
            out = out.replace(mark, KEPT_DELIMITER)
        if "--json" in argv and ran.code == 0:
            out = json.dumps(slim(json.loads(out)), separators=(",", ":"))
        for real, shown in self.hidden.items():
            out = out.replace(real, shown)
        self.calls[key(argv)] = {"code": ran.code, "out": out, "err": ran.err}
        return ran


def slim(told: Any) -> Any:  # noqa: ANN401  JSON
    """JSON without the parts that nobody reads."""
    if isinstance(told, list):
        return [slim(one) for one in told]
    if isinstance(told, dict):
        return {k: slim(v) for k, v in told.items() if k not in DROPPED}
    return told


@dataclass
class Player:
    """Answers as was recorded; a command that was not has no answer."""

    calls: Mapping[str, Mapping[str, Any]]
    asked: list[str] = field(default_factory=list)

    def __call__(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,  # noqa: ARG002
        env: Mapping[str, str],  # noqa: ARG002
        limit: int = OUTPUT_BYTES,  # noqa: ARG002
    ) -> Ran:
        """Play one answer."""
        self.asked.append(key(argv))
        call = self.calls.get(key(argv))
        if call is None:
            return Ran(None, why=f"{key(argv)} was not recorded")
        out = str(call["out"]).replace(
            KEPT_DELIMITER, delimiter(argv) or KEPT_DELIMITER
        )
        return Ran(call["code"], out.encode(), str(call["err"]))


def main(argv: Sequence[str]) -> None:
    """Record one cluster."""
    numbers, hidden, target = json.loads(argv[0]), json.loads(argv[1]), argv[2]
    recorder = Recorder(hidden)
    commands = Commands(run=recorder)
    for number in numbers.values():
        commands.controller(Wanted(number))
        commands.accounting(Wanted(number))
    commands.controller(Wanted(999999))
    commands.accounting(Wanted(999999))
    commands.nodes([f"n{i}" for i in range(1, 5)])
    made = {"jobs": numbers, "calls": recorder.calls}
    Path(target).write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
