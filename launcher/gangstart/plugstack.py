"""plugstack.conf as Slurm reads it: one line per plugin, included files in place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gangstart import job

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PLUGIN = "spank_gangstart.so"
NAME = "plugstack.conf"
CONF = "slurm.conf"
#: Where a Slurm keeps its configuration: by hand, and as a client of a configless one.
FOLDERS = (Path("/etc/slurm"), Path("/run/slurm/conf"))
INCLUDE_DEPTH = 8
INCLUDE = "include"
ELSEWHERE = re.compile(r"^\s*PlugStackConfig\s*=\s*(/[^\s#]+)", re.IGNORECASE | re.M)
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


ROOT = Path("/")


def rows(path: Path, depth: int = INCLUDE_DEPTH, *, root: Path = ROOT) -> Iterator[Row]:
    """Every plugin's line in Slurm's order; a file that cannot be read has none.

    `root` stands for / in include lines.
    """
    for number, line in enumerate(text_of(path).splitlines(), 1):
        words = tuple(line.partition("#")[0].split())
        if len(words) > 1 and words[0] == INCLUDE:
            for included in included_by(path, words[1], root=root) if depth else ():
                yield from rows(included, depth - 1, root=root)
        elif words:
            yield Row(path, number, words)


def included_by(path: Path, pattern: str, *, root: Path = ROOT) -> list[Path]:
    """Files that an include line of a file stands for, in order."""
    if not pattern.startswith("/"):
        pattern = str((path.parent / pattern).absolute().relative_to(root))
    wanted = pattern.lstrip("/")
    return sorted(root.glob(wanted)) if wanted else []


def ours(found: Iterable[Row]) -> list[Row]:
    """Only the lines of this plugin."""
    return [row for row in found if row.name == PLUGIN]


def containers(found: Iterable[Row]) -> list[Row]:
    """Only the lines of plugins that start containers."""
    return [row for row in found if CONTAINERS.fullmatch(row.name)]


def candidates(env: Mapping[str, str] | None = None) -> list[Path]:
    """Where plugstack.conf would be on this machine, without asking Slurm.

    Beside slurm.conf, unless that says where.
    """
    conf = (job.environ() if env is None else env).get("SLURM_CONF", "")
    files = [Path(conf)] if conf.startswith("/") else [one / CONF for one in FOLDERS]
    elsewhere = [ELSEWHERE.search(text_of(path)) for path in files]
    return [
        Path(told[1]) if told else path.parent / NAME
        for path, told in zip(files, elsewhere, strict=True)
    ]


def words(env: Mapping[str, str] | None = None) -> list[str]:
    """Arguments of our line in plugstack.conf; empty if it cannot be found here."""
    for path in candidates(env):
        for row in ours(rows(path)):
            return list(row.arguments)
    return []


def arguments() -> dict[str, str]:
    """The same as key and value; the last one counts."""
    return as_pairs(words())


def text_of(path: Path) -> str:
    """A file's text; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def pairs(row: Row) -> dict[str, str]:
    """The arguments of a line as key and value."""
    return as_pairs(row.arguments)


def as_pairs(found: Iterable[str]) -> dict[str, str]:
    """Words such as key=value as key and value."""
    split = (word.partition("=") for word in found)
    return {key: value for key, _, value in split}
