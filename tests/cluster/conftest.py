"""A real Slurm of four nodes on this machine, shared by every test that asks for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import slurmroot
from cluster.fakegpus import Gpus, equipped
from cluster.gang import Gang, Watch
from gangstart import job
from gangstart.cluster import Cluster, Spec, daemons, lifecycle
from gangstart.errors import GangstartError
from nvml.fakenvml import compiler_is_here, link, objects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Factory = Callable[[Spec], Cluster]

_numbers = count(1)


def why_not() -> str | None:
    """Why no cluster can be brought up here; None if one can."""
    reason = slurmroot.why_not()
    if reason is not None:
        return reason
    try:
        daemons.find_tools(lifecycle.search_path(), slurmroot.root())
    except GangstartError as error:
        return error.message
    flags = "-nmu" if os.getuid() == 0 else "-Urnmu"
    probe = subprocess.run(
        ["unshare", flags, "true"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return None if probe.returncode == 0 else probe.stderr.strip()


@pytest.fixture(scope="session")
def possible() -> None:
    """Skip where this machine cannot run a cluster, and say why."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)


def unused_name() -> str:
    """Return a name no other test run on this machine uses."""
    return f"ct-{os.getpid()}-{next(_numbers)}"


def plugin() -> str | None:
    """Return the built plugin for the Slurm of these tests, if there is one."""
    return lifecycle.built_plugin(slurmroot.root())


@pytest.fixture(scope="session")
def cluster(possible: None) -> Iterator[Cluster]:  # noqa: ARG001  it skips
    """Four nodes, with the plugin if it was built. Leave them as they were."""
    made = Cluster.up(slurmroot.placed(Spec(name=unused_name(), plugin=plugin())))
    yield made
    made.down()


@pytest.fixture
def make_cluster(possible: None) -> Iterator[Factory]:  # noqa: ARG001  it skips
    """Bring up clusters of the test's own, which end with it."""
    made: list[Cluster] = []

    def make(spec: Spec) -> Cluster:
        made.append(Cluster.up(slurmroot.placed(spec)))
        return made[-1]

    yield make
    for one in made:
        one.down()


@pytest.fixture(scope="module")
def module_gang(plugin_cluster: Cluster) -> Iterator[Callable[[Spec], Gang]]:
    """Run steps on a cluster that the tests of one file share: they leave it clean."""
    made: list[tuple[Cluster, Watch]] = []

    def make(spec: Spec) -> Gang:
        own = replace(spec, name=unused_name(), plugin=plugin())
        one = Cluster.up(slurmroot.placed(own))
        made.append((one, Watch(one)))
        return Gang(one, shared_folder(one), made[-1][1])

    assert plugin_cluster.spec.plugin is not None
    yield make
    for one, watch in made:
        watch.close()
        one.down()


@pytest.fixture
def afresh() -> Iterator[Callable[[Gang], Gang]]:
    """Another test's view of a shared cluster; after the test nothing is left on it."""
    made: list[Gang] = []

    def make(one: Gang) -> Gang:
        made.append(Gang(one.cluster, shared_folder(one.cluster), one.watch))
        return made[-1]

    yield make
    for one in made:
        one.clean(30)


@pytest.fixture
def name(possible: None) -> Iterator[str]:  # noqa: ARG001  it skips
    """Name for a cluster that a test brings up by the command line."""
    made = unused_name()
    yield made
    subprocess.run(
        job.module_argv("gangstart.cluster.command", "down", "--name", made),
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="session")
def plugin_cluster(cluster: Cluster) -> Cluster:
    """Skip where the plugin was not built: see GANGSTART_NO_PLUGIN in setup.py."""
    if cluster.spec.plugin is None:
        pytest.skip("needs the SPANK plugin (apt-get install libslurm-dev, make build)")
    return cluster


def shared_folder(cluster: Cluster) -> Path:
    """Make a new folder that every node sees and everybody may write to."""
    folder = cluster.directory / "shared" / str(next(_numbers))
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    return folder


@pytest.fixture(scope="session")
def watch(plugin_cluster: Cluster) -> Iterator[Watch]:
    """Keep a shell on the head for quick questions."""
    made = Watch(plugin_cluster)
    yield made
    made.close()


@pytest.fixture
def gang(plugin_cluster: Cluster, watch: Watch) -> Iterator[Gang]:
    """Run steps with the plugin; after the test nothing of them is left."""
    made = Gang(plugin_cluster, shared_folder(plugin_cluster), watch)
    yield made
    made.clean(30)


@pytest.fixture(scope="session")
def compiled(plugin_cluster: Cluster) -> Iterator[Callable[[str], str]]:
    """Compile a neighbour for plugstack.conf; its line there."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc (apt-get install gcc)")
    assert plugin_cluster.spec.plugin is not None
    # Not in that cluster's folder: nodes with another root see only their own.
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    folder.chmod(0o755)
    headers = slurmroot.include(folder)

    def make(name: str) -> str:
        built = folder / f"{name}.so"
        source = Path(__file__).with_name(f"{name}.c")
        command = [compiler, "-shared", "-fPIC", f"-I{headers}", "-o", str(built)]
        subprocess.run([*command, str(source)], check=True, timeout=60)
        return f"required {built}"

    yield make
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def saboteur(compiled: Callable[[str], str]) -> str:
    """Compile the neighbour that holds, ends or kills what it is told to."""
    return compiled("saboteur")


@pytest.fixture
def sabotaged(gang: Gang, saboteur: str) -> Iterator[Gang]:
    """Run steps with the saboteur before the plugin: see saboteur.c."""
    with gang.plugstack(saboteur, "{ours}"):
        yield gang


@pytest.fixture
def gang_on(
    plugin_cluster: Cluster, make_cluster: Factory
) -> Iterator[Callable[[Spec], Gang]]:
    """Run steps on a cluster of the test's own: it need not be left as it was."""
    watches = []

    def make(spec: Spec) -> Gang:
        one = make_cluster(replace(spec, name=unused_name(), plugin=plugin()))
        watches.append(Watch(one))
        return Gang(one, shared_folder(one), watches[-1])

    assert plugin_cluster.spec.plugin is not None
    yield make
    for watch in watches:
        watch.close()


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the fake NVML."""
    if not compiler_is_here():
        pytest.skip("no C compiler to build the fake NVML")
    folder = tmp_path_factory.mktemp("fake-nvml")
    return link(objects(folder), folder / "libnvidia-ml.so.1")


@pytest.fixture
def gpus(gang: Gang, fake_library: Path) -> Iterator[Gpus]:
    """Give every node two sound GPUs, and the plugin a probe that finds them."""
    with equipped(gang, fake_library) as made:
        yield made
