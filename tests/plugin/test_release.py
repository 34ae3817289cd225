"""A plugin per release line: the number that Slurm checks, and what its headers say."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import slurmroot
from gangstart.plugin import build, path, recipe
from plugin.conftest import compiled
from repo import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from gangstart.plugin.recipe import Line

FOLDER = ROOT / "spank" / "plugin"
LINES = recipe.known(FOLDER)
MACHINE = "of this machine"
#: Whose headers are compared: the machine's, and those of the roots that were made.
HEADERS = (MACHINE, "24.11", "26.05")
#: Constants of Slurm's headers in our sources.
CONSTANT = re.compile(
    r"\b(?:S_(?:JOB|TASK|STEP|CTX|SLURM)_[A-Z_]+|ESPANK_[A-Z_]+|NODE_STATE_[A-Z_]+|PROLOG_FLAG_[A-Z_]+|SHOW_ALL"
    r"|NO_VAL|SLURM_SUCCESS|SLURM_MAX_NORMAL_STEP_ID)\b"
)
OPTION = ("name", "arginfo", "usage", "has_arg", "val", "cb")


@pytest.fixture
def headers(tmp_path: Path) -> Callable[[str], Path]:
    """Folder with nothing but the headers of a Slurm; skips where they are not."""

    def find(which: str) -> Path:
        root = "" if which == MACHINE else slurmroot.folder(which)
        if root is None:
            pytest.skip(f"no folder with Slurm {which} here: make roots")
        real = Path(f"{root}/usr/include/slurm")
        if not (real / "spank.h").exists():
            pytest.skip("no slurm/spank.h here (apt-get install libslurm-dev)")
        made = tmp_path / f"include-{which.replace(' ', '-')}"
        made.mkdir()
        (made / "slurm").symlink_to(real)
        return made

    return find


def offsets(library: Path) -> list[int]:
    """What release.c says of Slurm's structures, as numbers."""
    fields = len(re.findall(r"\bF\(", (FOLDER / "slurmabi.h").read_text())) - 1
    array = ctypes.c_uint16 * (fields + 1)
    return list(array.in_dll(ctypes.CDLL(str(library)), "gs_slurm_abi"))


def release(target: Path, include: Path, line: Line | None) -> Path:
    """Compile release.c alone, by the table for a line or by the headers."""
    defines = [f"-D{name}={value}" for name, value in line.defines] if line else []
    flags = ["-shared", "-fPIC", f"-I{include}", f"-I{FOLDER}", *defines]
    return compiled(target, [FOLDER / recipe.RELEASE_FILE], *flags)


@pytest.mark.parametrize("line", LINES, ids=str)
def test_each_plugin_carries_the_number_of_its_line(line: Line) -> None:
    if not path.lines():
        pytest.skip("the plugin is not built: GANGSTART_NO_PLUGIN=1, or no make build")
    library = ctypes.CDLL(str(path.find(line)), mode=os.RTLD_LAZY)
    number = ctypes.c_uint.in_dll(library, "plugin_version").value
    assert number == (line.major << 16) + (line.minor << 8)


def test_there_is_a_plugin_for_every_line_from_22_05_to_26_05() -> None:
    wanted = "22.05 23.02 23.11 24.05 24.11 25.05 25.11 26.05"
    assert " ".join(map(str, LINES)) == wanted
    if path.lines():
        assert path.lines() == LINES


@pytest.mark.parametrize("which", HEADERS)
def test_the_table_says_what_the_headers_say(
    which: str, headers: Callable[[str], Path], tmp_path: Path
) -> None:
    include = headers(which)
    line = build.line_of(include)
    assert line in LINES
    by_table = release(tmp_path / "table.so", include, line)
    by_headers = release(tmp_path / "headers.so", include, None)
    assert offsets(by_table) == offsets(by_headers)


def values(include: Path, work: Path) -> str:
    """The constants that the plugin uses, and the shape of its options, as text."""
    text = "".join(p.read_text() for p in sorted(FOLDER.glob("*.c")))
    text += (ROOT / "spank" / "plugin" / "plugin.h").read_text()
    names = sorted(set(CONSTANT.findall(text)))
    assert {"S_JOB_ID", "S_CTX_LOCAL", "NODE_STATE_DRAIN"} <= set(names)
    rows = [f'printf("{n} %llu\\n", (unsigned long long)({n}));' for n in names]
    rows += [
        f'printf("option.{n} %zu\\n", offsetof(struct spank_option, {n}));'
        for n in OPTION
    ]
    source = work / "values.c"
    source.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n#include <slurm/slurm.h>\n"
        "#include <slurm/spank.h>\nint main(void)\n{\n" + "\n".join(rows) + "\n}\n"
    )
    # Its own folder first: the machine's would come from the compiler's list.
    program = compiled(work / "values", [source], f"-I{include}")
    return subprocess.run(
        [program], capture_output=True, text=True, timeout=30, check=True
    ).stdout


@pytest.mark.parametrize("which", HEADERS[1:])
def test_constants_of_other_lines_are_those_that_it_was_compiled_with(
    which: str, headers: Callable[[str], Path], tmp_path: Path
) -> None:
    assert values(headers(which), tmp_path) == values(headers(MACHINE), tmp_path)
