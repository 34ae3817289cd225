"""``gangstart plugin path``: the plugin's file for a release line of Slurm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import gangstart
from gangstart import job
from gangstart.errors import GangstartError
from gangstart.plugin import recipe
from gangstart.usage import Parser

if TYPE_CHECKING:
    from gangstart.plugin.recipe import Line

FOLDER = Path(gangstart.__file__).parent / "plugins"
#: Who says which Slurm this is. slurmd first: it needs no slurm.conf for that.
ASKED = ("slurmd", "scontrol", "srun", "sinfo")
#: Ordinary users rarely have these in PATH.
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ASK_SECONDS = 10.0
EXIT_USAGE = 2


def parser() -> Parser:
    """Build the command line of this verb."""
    made = Parser(
        prog="gangstart plugin path",
        description="Print the file of the SPANK plugin for this machine's Slurm. "
        "Slurm loads a plugin of its own release line (such as 24.11) and no other.",
    )
    made.add_argument(
        "--slurm", metavar="VERSION", help="for this release, such as 24.11 or 24.11.5"
    )
    return made


def main(argv: list[str]) -> int:
    """Print the path."""
    options = parser().parse_args(argv)
    line = read(options.slurm) if options.slurm is not None else local()
    sys.stdout.write(f"{find(line)}\n")
    return 0


def read(version: str) -> Line:
    """Release line of a version that somebody typed."""
    line = recipe.parse(version)
    if line is None:
        raise GangstartError(
            f"plugin: --slurm {version[:40]!r} is no Slurm version: two numbers or "
            "three, such as 24.11 or 24.11.5",
            exit_code=EXIT_USAGE,
        )
    return line


def local() -> Line:
    """Ask the programs of this machine's Slurm for their release line.

    Raises GangstartError when none of them is there and answers within 10 s.
    """
    path = os.pathsep.join([job.environ().get("PATH", ""), SYSTEM_PATH])
    for program in (shutil.which(name, path=path) for name in ASKED):
        line = asked(program) if program is not None else None
        if line is not None:
            return line
    raise GangstartError(
        f"plugin: none of {', '.join(ASKED)} in PATH tells which Slurm this is: name "
        "it with --slurm VERSION, such as --slurm 24.11"
    )


def asked(program: str) -> Line | None:
    """Release line as one program tells it, None where it does not."""
    try:
        done = subprocess.run(
            [program, "-V"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ASK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = done.stdout.split()
    return recipe.parse(words[-1]) if done.returncode == 0 and words else None


def lines() -> list[Line]:
    """Release lines that this package has a plugin for, oldest first; maybe none."""
    names = (path.stem.rpartition("-")[2] for path in FOLDER.glob("*.so"))
    return sorted(line for line in map(recipe.parse, names) if line is not None)


def find(line: Line) -> Path:
    """File of the plugin for a release line; a sentence where there is none."""
    have = lines()
    if not have:
        raise GangstartError(
            "plugin: this package was built without the plugin (no Slurm headers, or "
            "GANGSTART_NO_PLUGIN=1): gangstart plugin build compiles one"
        )
    if line in have:
        return FOLDER / line.file_name
    if line < have[0]:
        raise GangstartError(
            f"plugin: Slurm {line} is older than {have[0]}, the oldest that gangstart "
            "works with"
        )
    raise GangstartError(
        f"plugin: this gangstart {gangstart.__version__} has no plugin for Slurm "
        f"{line} (it has {', '.join(map(str, have))}): compile one with gangstart "
        "plugin build on a machine with that Slurm's headers, or install a newer "
        "gangstart"
    )
