"""What is installed from an sdist and a wheel, as a user has it: without a checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import slurmroot
from gangstart.cluster import Cluster, Spec, daemons, lifecycle
from gangstart.errors import GangstartError
from gangstart.mcp.tools import TOOLS
from gangstart.plugin import path, recipe
from repo import ROOT, kept

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A compilation of everything on a busy machine.
pytestmark = pytest.mark.timeout(600)
LINES = recipe.known(ROOT / "spank" / "plugin")
#: Slurms to load the plugin in: the machine's own, and the roots that were made.
SLURMS = ("", "24.11", "26.05")
SDIST = "from setuptools import build_meta; print(build_meta.build_sdist('dist'))"


def call(*argv: str | Path, cwd: Path | None = None) -> str:
    """Run a program that has to work; return what it prints."""
    done = subprocess.run(
        [*map(str, argv)],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that nodes with another root see too."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="gangstart-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="module")
def wheel(place: Path) -> Path:
    """The wheel that pip makes from the sdist of what git keeps."""
    if not path.lines():
        pytest.skip("the plugin is not built: GANGSTART_NO_PLUGIN=1, or no make build")
    tree = place / "tree"
    for file in kept():
        target = tree / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target)
    name = call(sys.executable, "-c", SDIST, cwd=tree).splitlines()[-1]
    options = ("--no-build-isolation", "--no-deps", "-q", "-w", place)
    call(sys.executable, "-m", "pip", "wheel", *options, tree / "dist" / name)
    (made,) = place.glob("gangstart-*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, place: Path) -> Path:
    """The command of a fresh environment that has nothing but the wheel."""
    call(sys.executable, "-m", "venv", "--without-pip", place / "venv")
    python = place / "venv" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python)
    call(*pip, "install", "-q", "--no-deps", "--no-index", wheel)
    return place / "venv" / "bin" / "gangstart"


def test_a_wheel_holds_the_templates_of_the_pages(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    folder = ROOT / "launcher" / "gangstart" / "page" / "templates"
    wanted = {f"gangstart/page/templates/{path.name}" for path in folder.iterdir()}
    assert len(wanted) > 3
    assert wanted - names == set()


def test_a_wheel_holds_a_plugin_for_every_line_and_their_sources(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {f"gangstart/plugins/{line.file_name}" for line in LINES}
    wanted |= {"gangstart/gangstart-probe", "gangstart/source/plugin/exports.map"}
    wanted |= {"gangstart/source/core/gang.c", "gangstart/source/plugin/slurmabi.h"}
    wanted |= {"gangstart/mcp/SKILL.md"}
    wanted |= {f"gangstart/mcp/schema/{tool.gives}.json" for tool in TOOLS}
    assert wanted - names == set()


def loads(slurm: str, plugin: str) -> None:
    """Bring a Slurm up with this plugin, and see that a step starts with it."""
    root = slurmroot.folder(slurm) if slurm else ""
    if root is None:
        pytest.skip(f"no folder with Slurm {slurm} here: make roots")
    name = f"inst-{os.getpid()}-{slurm.replace('.', '')}"
    spec = Spec(name=name, nodes=2, plugin=plugin, plugin_mode="required", root=root)
    made = Cluster.up(spec)
    try:
        assert "--gang-start" in made.run(["srun", "--help"]).stdout
        ran = made.run(["srun", "-N2", "--gang-start=30", "true"])
        assert ran.returncode == 0, ran.stderr
        assert "2/2 tasks on 2/2 nodes" in ran.stderr
    finally:
        made.down()


@pytest.fixture
def possible() -> None:
    """Skip where this machine cannot run a cluster."""
    if os.getuid() != 0:
        pytest.skip("needs root, for the clusters")
    try:
        daemons.find_tools(lifecycle.search_path())
    except GangstartError as error:
        pytest.skip(error.message)


@pytest.mark.cluster
@pytest.mark.usefixtures("possible")
@pytest.mark.parametrize("slurm", SLURMS)
def test_the_installed_plugin_loads_in_the_slurm_it_is_picked_for(
    installed: Path, slurm: str
) -> None:
    asked = ["--slurm", slurm] if slurm else []
    found = call(installed, "plugin", "path", *asked).strip()
    assert Path(found).is_relative_to(installed.parents[1])
    loads(slurm, found)


@pytest.mark.cluster
@pytest.mark.usefixtures("possible")
def test_one_that_is_built_from_the_wheels_sources_loads_too(
    installed: Path, place: Path
) -> None:
    slurm = next((line for line in SLURMS[::-1] if slurmroot.folder(line)), "")
    root = slurmroot.folder(slurm) if slurm else ""
    target = place / "spank_gangstart.so"
    words = ("--slurm-include", f"{root}/usr/include", "-o", target)
    said = call(installed, "plugin", "build", *words)
    assert said.startswith(f"{target}: the plugin for Slurm {slurm}")
    loads(slurm, str(target))
