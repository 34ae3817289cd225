"""Compiles the fake Slurm once and gives every test one of its own."""

from __future__ import annotations

import ast
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gangstart.plugin import build, path
from plugin.fakeslurm import Slurm
from repo import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent


def strict() -> list[str]:
    """The warnings that the plugin itself is compiled with."""
    for node in ast.parse((ROOT / "setup.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "STRICT":
            return list(ast.literal_eval(node.value))
    raise AssertionError("setup.py has no STRICT")


@pytest.fixture(scope="session")
def plugin() -> Path:
    """The plugin of the build that these tests run with."""
    if not path.lines():
        pytest.skip("the plugin is not built: GANGSTART_NO_PLUGIN=1, or no make build")
    given = os.environ.get("GANGSTART_SLURM_INCLUDE")
    return path.find(build.line_of(build.find_include(given)))


def compiled(target: Path, sources: list[Path], *flags: str) -> Path:
    """Compile a program or library for the tests."""
    compiler = shlex.split(os.environ.get("CC", "gcc"))
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"{compiler[0]} is not installed")
    include = os.environ.get("GANGSTART_SLURM_INCLUDE", "/usr/include")
    command = [*compiler, "-D_GNU_SOURCE", *map(str, sources), *flags, f"-I{include}"]
    built = subprocess.run(
        [*command, "-o", str(target)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return target


@pytest.fixture(scope="session")
def host(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001  without it there is nothing to host
    """Compile the fake Slurm, with the flags of a sanitized build if there are any."""
    own = [shlex.split(os.environ.get(name, "")) for name in ("CFLAGS", "LDFLAGS")]
    flags = [*strict(), "-g", "-O1", *own[0], "-rdynamic", "-ldl", *own[1]]
    target = tmp_path_factory.mktemp("host") / "host"
    return compiled(target, sorted(HERE.glob("*.c")), *flags)


@pytest.fixture(scope="session")
def old_plugin(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001  as above
    """Compile the plugin as version 0.0.9."""
    folders = [ROOT / "spank" / "core", ROOT / "spank" / "plugin"]
    sources = sorted(path for folder in folders for path in folder.glob("*.c"))
    target = tmp_path_factory.mktemp("old") / "spank_gangstart.so"
    flags = ["-shared", "-fPIC", "-O0", '-DGS_VERSION="0.0.9"']
    return compiled(target, sources, *flags, *(f"-I{folder}" for folder in folders))


@pytest.fixture
def slurm(host: Path, plugin: Path, tmp_path: Path) -> Iterator[Slurm]:
    """A Slurm of the test's own; whatever still runs at the end is ended."""
    made = Slurm(host, plugin, tmp_path)
    yield made
    for run in made.runs:
        run.end()
