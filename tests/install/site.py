"""A machine in a folder, on which the plugin is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import gangstart
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

PACKAGE = Path(gangstart.__file__).parent
LIB = "usr/lib/x86_64-linux-gnu/slurm-wlm"
PLUGIN = "spank_gangstart.so"
LINE = "22.05"
BUILT = PACKAGE / f"plugins/spank_gangstart-{LINE}.so"
PROBE = "gangstart-probe"
TWO_FILES = {f"{LIB}/{PLUGIN}", f"{LIB}/{PROBE}"}
CONF = "etc/slurm/plugstack.conf.d/gangstart.conf"
STACK = "etc/slurm/plugstack.conf"
MANIFEST = "var/lib/gangstart/plugin.json"


class Machine:
    """The folder, and the command on it."""

    def __init__(self, root: Path) -> None:
        if not BUILT.exists():
            pytest.skip("needs the SPANK plugin (apt-get install libslurm-dev)")
        self.root = root
        (root / "etc/slurm").mkdir(parents=True)
        (root / LIB).mkdir(parents=True)

    def plugin(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `gangstart plugin VERB` on it."""
        command = [sys.executable, "-m", "gangstart", "plugin", verb]
        release = ["--release", LINE] if verb == "install" else []
        return subprocess.run(
            [*command, "--root", str(self.root), *release, *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def install(self, *words: str) -> str:
        """Install; what was printed."""
        ran = self.plugin("install", *words)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def write(self, path: str, *lines: str) -> Path:
        """Make a file of it."""
        whole = self.root / path
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_text("".join(f"{line}\n" for line in lines))
        return whole

    def text(self, path: str) -> str:
        """Text of a file of it."""
        return (self.root / path).read_text()

    def files(self) -> set[str]:
        """Every file of it."""
        found: Iterable[Path] = self.root.rglob("*")
        return {str(p.relative_to(self.root)) for p in found if not p.is_dir()}

    def folders(self) -> set[str]:
        """Every folder of it."""
        found: Iterable[Path] = self.root.rglob("*")
        return {str(p.relative_to(self.root)) for p in found if p.is_dir()}

    def order(self) -> list[str]:
        """Plugins in the order in which Slurm would load them."""
        from gangstart import plugstack  # noqa: PLC0415

        found = plugstack.rows(self.root / STACK, root=self.root)
        return [row.name for row in found]
