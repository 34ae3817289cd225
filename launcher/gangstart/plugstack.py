"""plugstack.conf as Slurm reads it: one line per plugin, included files in place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gangstart import job, stackfile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path("/")
#: SPANK plugins that start containers or change a step's root, by their file's name.
#: pyxis and enroot (NVIDIA), shifter (NERSC), singularity and apptainer, sarus (CSCS),
#: charliecloud, chroot (soperator).
CONTAINERS = re.compile(
    r"(?:spank_)?(?:pyxis|enroot|shifter|singularity|apptainer|sarus|charliecloud|"
    r"chroot)\w*(?:[-_]\w+)*\.so|(?:slurm[-_])?(?:singularity|shifter)[-_]?\w*\.so"
)


class Row(NamedTuple):
    """One line that names a plugin."""

    path: Path
    number: int
    words: tuple[str, ...]

    @property
    def mode(self) -> str:
        """Return "optional" or "required", as it is written."""
        return self.words[0]

    @property
    def file(self) -> str:
        """The plugin, a path or a name in PluginDir."""
        return self.words[1] if len(self.words) > 1 else ""

    @property
    def name(self) -> str:
        """The plugin's file name."""
        return Path(self.file).name

    @property
    def arguments(self) -> tuple[str, ...]:
        """What follows the plugin."""
        return self.words[2:]

    def __str__(self) -> str:
        """Say where it is."""
        return f"{self.path} line {self.number}"


def rows(path: Path, *, root: Path = ROOT) -> Iterator[Row]:
    """Every plugin's line in Slurm's order; a file that cannot be read has none.

    `root` stands for / in include lines.
    """
    for file, number, words in stackfile.lines(str(path), root=str(root)):
        yield Row(Path(file), number, words)


def included_by(path: Path, pattern: str, *, root: Path = ROOT) -> list[Path]:
    """Files that an include line of a file stands for, in order."""
    found = stackfile.included_by(str(path), pattern, root=str(root))
    return [Path(one) for one in found]


def ours(found: Iterable[Row]) -> list[Row]:
    """Only the lines of this plugin."""
    return [row for row in found if row.name == stackfile.PLUGIN]


def containers(found: Iterable[Row]) -> list[Row]:
    """Only the lines of plugins that start containers."""
    return [row for row in found if CONTAINERS.fullmatch(row.name)]


def candidates() -> list[Path]:
    """Where plugstack.conf would be on this machine, without asking Slurm."""
    return [Path(one) for one in stackfile.candidates(job.environ())]


def arguments() -> dict[str, str]:
    """The same as key and value; the last one counts."""
    return as_pairs(stackfile.words(job.environ()))


def pairs(row: Row) -> dict[str, str]:
    """The arguments of a line as key and value."""
    return as_pairs(row.arguments)


def as_pairs(found: Iterable[str]) -> dict[str, str]:
    """Words such as key=value as key and value."""
    split = (word.partition("=") for word in found)
    return {key: value for key, _, value in split}
