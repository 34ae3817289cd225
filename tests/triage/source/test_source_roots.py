"""The Slurm of other release lines, live: what this machine's own does not have.

They have no slurmdbd, so the accounting is told to be absent; the recordings hold it.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from cluster.conftest import why_not
from gangstart.cluster import Cluster, Spec
from gangstart.triage.model import Outcome
from gangstart.triage.source import ask
from gangstart.triage.source.commands import Commands, environment
from gangstart.triage.source.record import Exit, Wanted
from repo import ROOT
from triage.source.test_source_live import Inside, folder
from triage.source.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
USER = "games"
#: Without %05j: scontrol of 24.11 makes %00007 of it, where the file has 00007.
PATTERNS = ("b2-%A-%a-%b-%u-%x", "b3-%j-%J-%s-%t-%n-%N-%5j-%3t-%5x-%5A-%%-%q")


@pytest.fixture(scope="module", params=["24.11", "26.05"])
def work(request: pytest.FixtureRequest) -> Iterator[Workload]:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    found = subprocess.run(
        ["bash", str(ROOT / "scripts" / "roots.sh"), "--path", request.param],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if found.returncode != 0:
        pytest.skip(f"no Slurm {request.param} here (make roots)")
    name = f"src-{os.getpid()}-{request.param.replace('.', '-')}"
    root = found.stdout.strip()
    cluster = Cluster.up(Spec(name=name, nodes=2, root=root, binds=(str(ROOT),)))
    try:
        yield Workload(cluster, folder(cluster), user=USER)
    finally:
        cluster.down()


def commands(work: Workload) -> Commands:
    return Commands(Inside(work.cluster), 60.0, env=environment())


def told(work: Workload, name: str) -> ask.Told:
    return ask.slurm(commands(work), Wanted(work.ids[name]))


def test_a_job_that_only_the_controller_knows(work: Workload) -> None:
    work.submit("bad", "--wait", "-N2", "-n4", script="failing")
    found = told(work, "bad")

    assert found.job is not None
    assert (found.job.state, found.job.user) == ("FAILED", USER)
    assert found.job.nodes == ("n1", "n2")
    assert found.records[0].exit == Exit(139)
    assert found.states[0].outcome is Outcome.USED
    assert found.states[1].outcome is Outcome.UNREACHABLE
    assert found.states[1].detail == "this cluster keeps no accounting"
    assert set(found.nodes) == {"n1", "n2"}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_output_of_a_batch_script_is_found(work: Workload, pattern: str) -> None:
    before = {path for path in work.folder.rglob("*") if path.is_file()}
    work.submit("nm", "-N2", "-n4", "--wait", "-o", pattern, script="fine")
    made = {path for path in work.folder.rglob("*") if path.is_file()} - before
    found, state = ask.files(told(work, "nm"), commands(work))

    assert len(made) == 1
    assert {one.file.path for one in found} == {str(path) for path in made}, state
