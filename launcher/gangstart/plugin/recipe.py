"""How the plugin is compiled: one list for setup.py and for `gangstart plugin build`.

Imports nothing beyond the standard library: setup.py reads it before anything is built.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

#: The one file that depends on Slurm's release, and the table of the known ones.
RELEASE_FILE = "release.c"
LINES_FILE = "slurmlines.h"
VERSION = re.compile(r"(\d\d)\.(\d\d)(?:\.\d\S*)?", re.ASCII)
ROW = re.compile(r"^#define GS_SLURM_(\d+)_(\d+) ", re.MULTILINE)

COMPILE = ("-std=gnu11", "-fPIC", "-fstack-protector-strong")
FORTIFY = "-D_FORTIFY_SOURCE=2"
LINK = ("-Wl,-z,relro,-z,noexecstack", "-pthread")
#: srun and slurmstepd unload plugins, and a thread of ours may still end in it.
LINK_PLUGIN = (*LINK, "-Wl,-z,nodelete,--strip-debug")


class Line(NamedTuple):
    """A release line of Slurm, such as 24.11: plugins of another are not loaded."""

    major: int
    minor: int

    def __str__(self) -> str:
        """Write it as Slurm does."""
        return f"{self.major}.{self.minor:02}"

    @property
    def file_name(self) -> str:
        """What the plugin for this line is called in the package."""
        return f"spank_gangstart-{self}.so"

    @property
    def defines(self) -> list[tuple[str, str]]:
        """What release.c is compiled with for this line, whatever the headers are."""
        word = f"{self.major}_{self.minor:02}"
        return [
            ("GS_SLURM_MAJOR", str(self.major)),
            ("GS_SLURM_MINOR", str(self.minor)),
            ("GS_SLURM_LINE", word),
        ]


def parse(version: str) -> Line | None:
    """Release line of a version such as 24.11 or 24.11.5; None if it is no version."""
    found = VERSION.fullmatch(version)
    return Line(int(found[1]), int(found[2])) if found else None


def known(plugin_folder: Path) -> list[Line]:
    """Release lines that the sources in a folder have a row for, oldest first."""
    text = (plugin_folder / LINES_FILE).read_text(encoding="utf-8")
    return sorted(Line(int(a), int(b)) for a, b in ROW.findall(text))


def version_script(plugin_folder: str) -> str:
    """Linker flag that keeps everything but Slurm's symbols to ourselves."""
    return f"-Wl,--version-script={plugin_folder}/exports.map"
