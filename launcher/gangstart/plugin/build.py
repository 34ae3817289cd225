"""``gangstart plugin build``: compiles the plugin for the Slurm headers of a folder."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import gangstart
from gangstart import job
from gangstart.errors import GangstartError
from gangstart.plugin import recipe
from gangstart.plugin.recipe import Line
from gangstart.usage import Parser

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKAGE = Path(gangstart.__file__).parent
#: The C sources: in an installed package, and in a checkout beside it.
SOURCES = (PACKAGE / "source", PACKAGE.parents[1] / "spank")
INCLUDES = ("/usr/include", "/usr/local/include")
HEADERS = ("spank.h", "slurm.h", "slurm_version.h")
VERSION = re.compile(
    r"^\s*#\s*define\s+SLURM_VERSION_NUMBER\s+\(?(0x[0-9a-fA-F]+)", re.MULTILINE
)
OUTPUT = "spank_gangstart.so"
COMPILE_SECONDS = 600.0
ERROR = re.compile(r"\b(?:error|undefined reference)\b")
EXIT_USAGE = 2


def parser() -> Parser:
    """Build the command line of this verb."""
    made = Parser(
        prog="gangstart plugin build",
        description="Compile the SPANK plugin for the Slurm whose headers are here. "
        "The compiler is gcc, or what CC names; it takes a minute.",
    )
    made.add_argument(
        "--slurm-include",
        metavar="DIR",
        help=f"the folder that holds slurm/spank.h [{' or '.join(INCLUDES)}]",
    )
    made.add_argument(
        "-o", dest="output", metavar="FILE", default=OUTPUT, help=f"[./{OUTPUT}]"
    )
    return made


def main(argv: list[str]) -> int:
    """Compile, and say what came of it."""
    options = parser().parse_args(argv)
    include = find_include(options.slurm_include)
    line = line_of(include)
    target = Path(options.output)
    sys.stderr.write(f"gangstart: plugin: compiling for Slurm {line} …\n")
    compile_plugin(include, target)
    sys.stdout.write(f"{target}: the plugin for Slurm {line}\n")
    return 0


def find_include(given: str | None) -> Path:
    """Folder with Slurm's headers, or a sentence that says what is missing."""
    folders = [given] if given is not None else INCLUDES
    for folder in folders:
        if all((Path(folder) / "slurm" / name).is_file() for name in HEADERS):
            return Path(folder)
    raise GangstartError(
        f"plugin: {' and '.join(f'slurm/{name}' for name in HEADERS)} are not all in "
        f"{' or '.join(folders)}: install Slurm's headers (Debian: libslurm-dev, "
        "Red Hat: slurm-devel) or name their folder with --slurm-include",
        exit_code=EXIT_USAGE,
    )


def line_of(include: Path) -> Line:
    """Release line of the Slurm that the headers belong to."""
    header = include / "slurm" / "slurm_version.h"
    found = VERSION.search(header.read_text(encoding="utf-8", errors="replace"))
    if found is None:
        raise GangstartError(
            f"plugin: {header} has no SLURM_VERSION_NUMBER: name the headers of an "
            "installed Slurm, not those of its sources"
        )
    number = int(found[1], 16)
    return Line(number >> 16 & 0xFF, number >> 8 & 0xFF)


def sources() -> Path:
    """Folder of the C sources, with core/ and plugin/ in it."""
    for folder in SOURCES:
        if (folder / "plugin" / recipe.RELEASE_FILE).is_file():
            return folder
    raise GangstartError(
        f"plugin: the C sources are not in {SOURCES[0]}: install gangstart again"
    )


def command(folder: Path, include: Path, output: Path) -> list[str]:
    """Argument vector of the compiler; without defines release.c asks the headers."""
    parts = [folder / "core", folder / "plugin"]
    files = sorted(str(path) for part in parts for path in part.glob("*.c"))
    return [
        *shlex.split(job.environ().get("CC", "") or "gcc"),
        "-shared",
        "-O2",
        *recipe.COMPILE,
        recipe.FORTIFY,
        "-D_GNU_SOURCE",
        f'-DGS_VERSION="{gangstart.__version__}"',
        *(f"-I{part}" for part in parts),
        f"-I{include}",
        *files,
        *recipe.LINK_PLUGIN,
        recipe.version_script(str(folder / "plugin")),
        "-o",
        str(output),
    ]


def compile_plugin(include: Path, target: Path) -> None:
    """Compile the plugin for the headers in `include`; `target` appears whole or not.

    Raises GangstartError with the compiler's first complaint, or after 600 s.
    """
    with tempfile.TemporaryDirectory(prefix="gangstart-build-") as work:
        # Only Slurm's: the C library's beside them may be of another system.
        only = Path(work, "include")
        only.mkdir()
        (only / "slurm").symlink_to((include / "slurm").resolve())
        made = Path(work, OUTPUT)
        run(command(sources(), only, made))
        place(made, target)


def place(made: Path, target: Path) -> None:
    """Move the result to where it was asked for, by rename: it may be in use."""
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        shutil.copyfile(made, fresh)
        fresh.chmod(0o755)
        fresh.replace(target)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise GangstartError(
            f"plugin: cannot write {target}: {error.strerror}: name another file "
            "with -o",
            exit_code=EXIT_USAGE,
        ) from None


def run(argv: Sequence[str]) -> None:
    """Run the compiler with a deadline."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMPILE_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise GangstartError(
            f"plugin: there is no compiler {argv[0]}: apt-get install gcc libc6-dev, "
            "or name one in CC"
        ) from None
    except OSError as error:
        raise GangstartError(
            f"plugin: {argv[0]} does not run: {error.strerror}"
        ) from None
    except subprocess.TimeoutExpired:
        raise GangstartError(
            f"plugin: {argv[0]} was not done after {COMPILE_SECONDS:.0f} s"
        ) from None
    if done.returncode != 0:
        rows = done.stderr.splitlines()
        first = next((row for row in rows if ERROR.search(row)), "it says nothing")
        raise GangstartError(
            f"plugin: {argv[0]} ended with code {done.returncode}: {first.strip()}"
        )
