"""A real Slurm of four nodes on this machine, shared by every test that asks for it."""

from __future__ import annotations

import os
import subprocess
from itertools import count
from typing import TYPE_CHECKING

import pytest
from gangstart import job
from gangstart.cluster import Cluster, Spec, daemons, lifecycle
from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Factory = Callable[[Spec], Cluster]

_numbers = count(1)


def why_not() -> str | None:
    """Why no cluster can be brought up here; None if one can."""
    path = os.pathsep.join([job.environ().get("PATH", ""), daemons.SYSTEM_PATH])
    try:
        daemons.find_tools(path)
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
    return f"test-{os.getpid()}-{next(_numbers)}"


@pytest.fixture(scope="session")
def cluster(possible: None) -> Iterator[Cluster]:  # noqa: ARG001  it skips
    """Four nodes, with the plugin if it was built. Leave them as they were."""
    made = Cluster.up(Spec(name=unused_name(), plugin=lifecycle.built_plugin()))
    yield made
    made.down()


@pytest.fixture
def make_cluster(possible: None) -> Iterator[Factory]:  # noqa: ARG001  it skips
    """Bring up clusters of the test's own, which end with it."""
    made: list[Cluster] = []

    def make(spec: Spec) -> Cluster:
        made.append(Cluster.up(spec))
        return made[-1]

    yield make
    for one in made:
        one.down()


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
