"""The real Slurm of this machine, with slurmdbd and MariaDB beside it.

One cluster for all tests here; the last test makes its controller forget the jobs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cluster.conftest import why_not
from gangstart.cluster import Cluster, Spec, daemons
from gangstart.triage.model import Outcome
from gangstart.triage.source import ask, bounded, jobfiles
from gangstart.triage.source.commands import Commands, environment
from gangstart.triage.source.joined import LIVE
from gangstart.triage.source.record import Wanted
from triage.source import accounting
from triage.source.accounting import Accounting
from triage.source.workload import Workload, ended

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
USER, UID = "games", 5
#: Patterns of steps, all with files that only this job makes.
STEPS = (
    "s1-%j-%J-%s-%t-%n-%N",
    "s2-%A-%a-%b-%u-%x",
    "s3-%5j-%3t-%4n-%5s-%5N",
    "s4-%j-%%-%q",
    "s5-%j-%3t",
    "s6-%j-%N",
    "s7-%j-%n",
    "%x/s8-%j-%t",
    "back\\slash-%j",
)
BATCH = (
    "b1-%j-%J-%s-%t-%n-%N",
    "b2-%A-%a-%b-%u-%x",
    "b3-%5j-%012j-%3t-%4u-%5x-%05A",
    "b4-%j-%%-%q%%",
    "%x/b5-%j",
)


@dataclass
class Inside:
    """Runs commands on the head of a cluster."""

    cluster: Cluster

    def __call__(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        env: Mapping[str, str],
        limit: int = bounded.OUTPUT_BYTES,
    ) -> bounded.Ran:
        """Run one."""
        return bounded.run(
            self.cluster.argv([Path(argv[0]).name, *argv[1:]]),
            deadline_s=deadline_s,
            env=dict(env) | daemons.environment(self.cluster.spec),
            limit=limit,
        )


@dataclass
class Site:
    """A cluster with accounting, and its jobs."""

    cluster: Cluster
    servers: Accounting
    work: Workload

    def commands(self, **env: str) -> Commands:
        """Ask this cluster."""
        return Commands(Inside(self.cluster), 60.0, env=environment() | env)

    def told(self, name: str) -> ask.Told:
        """Everything about a job of the workload."""
        return ask.slurm(self.commands(), Wanted(self.work.ids[name]))


def folder(cluster: Cluster) -> Path:
    made = cluster.directory / "shared" / "exp"
    made.mkdir(parents=True)
    (made / "nm").mkdir()
    for path in (made, made / "nm"):
        path.chmod(0o777)
    return made


def all_kept(site: Site) -> bool:
    """Whether slurmdbd, which is told later than slurmctld, knows of every end."""
    commands = site.commands()
    answers = [commands.accounting(Wanted(n)) for n in site.work.ids.values()]
    return all(a.found and a.found[-1].state not in LIVE for a in answers)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    reason = why_not() or accounting.missing()
    if reason:
        pytest.skip(reason)
    # Heterogeneous jobs are started by the backfill scheduler only.
    lines = ("MinJobAge=3600", "KillWait=2", "SchedulerParameters=bf_interval=1")
    cluster = Cluster.up(Spec(name=f"src-{os.getpid()}", slurm_lines=lines))
    servers = Accounting(cluster)
    try:
        made = Site(cluster, servers, Workload(cluster, folder(cluster), user=USER))
        without = made.commands().accounting(Wanted(1)).state
        assert without.outcome is Outcome.UNREACHABLE
        assert without.detail == "this cluster keeps no accounting"
        servers.start()
        ended(made.work)
        accounting.until(lambda: all_kept(made), "every end in the accounting")
        yield made
    finally:
        servers.stop()
        cluster.down()


def test_a_job_is_whole(site: Site) -> None:
    told = site.told("ok")

    assert told.job is not None
    assert (told.job.state, told.job.user, told.job.restarts) == ("COMPLETED", USER, 0)
    assert told.job.nodes == ("n1", "n2")
    assert [step.name for step in told.job.attempts[0].steps] == ["batch", "0"]
    assert set(told.nodes) == {"n1", "n2"}
    assert {state.outcome for state in told.states} == {Outcome.USED}
    assert any(one.state == "FAILED" for one in told.past), "the other jobs there"
    assert told.records[0].uid == UID


def test_the_runs_of_a_requeued_job(site: Site) -> None:
    job = site.told("again").job

    assert job is not None
    assert job.restarts == 1
    runs = [(one.restart, one.state, one.exit_code) for one in job.attempts]
    assert runs == [(0, "REQUEUED", 0), (1, "FAILED", 4)]


def test_who_cancelled_and_when_nothing_ran(site: Site) -> None:
    cancelled, held = site.told("canc").job, site.told("held").job

    assert cancelled is not None
    assert cancelled.attempts[-1].cancelled_by == 0
    assert held is not None
    assert (held.state, held.attempts[-1].start, held.nodes) == ("CANCELLED", None, ())


def test_an_array_is_its_task_that_failed_first(site: Site) -> None:
    told = site.told("array")

    assert told.job is not None
    assert told.job.job_id.startswith(f"{site.work.ids['array']}_")
    assert told.job.attempts[-1].exit_code in (1, 2)
    assert "2 of 3 tasks failed" in told.remark


def test_a_heterogeneous_job_is_one(site: Site) -> None:
    job = site.told("het").job

    assert job is not None
    assert len(job.nodes) == 3
    (step,) = [one for one in job.attempts[0].steps if one.name == "0"]
    assert (step.nodes, step.tasks) == (job.nodes, 3)


def test_a_shell_that_ended_by_a_signal(site: Site) -> None:
    job = site.told("seg").job

    assert job is not None
    assert (job.attempts[-1].exit_code, job.attempts[-1].derived_signal) == (139, 11)


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland", "America/St_Johns"])
def test_times_do_not_depend_on_the_time_zone(site: Site, zone: str) -> None:
    wanted = Wanted(site.work.ids["bad"])
    here, there = site.commands(), site.commands(TZ=zone)

    for ask_for in ("controller", "accounting"):
        (one,) = getattr(here, ask_for)(wanted).found
        (other,) = getattr(there, ask_for)(wanted).found
        assert (one.submit, one.start, one.end) == (
            other.submit,
            other.start,
            other.end,
        )


def submitted(site: Site, name: str, pattern: str, body: str) -> ask.Told:
    """Run a job with an output pattern, and ask for it."""
    (site.work.folder / f"{name}.sh").write_text(f"#!/bin/sh\n{body}\n")
    before = {path for path in site.work.folder.rglob("*") if path.is_file()}
    site.work.submit("nm", "-N2", "-n4", "--wait", "-o", pattern, script=name)
    told = site.told("nm")
    made = {path for path in site.work.folder.rglob("*") if path.is_file()} - before
    assert made, "Slurm wrote no file"
    found, state = ask.files(told, site.commands())
    assert {one.file.path for one in found} == {str(path) for path in made}, state
    return told


@pytest.mark.parametrize("pattern", BATCH)
def test_the_output_of_a_batch_script_is_found(site: Site, pattern: str) -> None:
    submitted(site, "one", pattern, "echo hello")


def test_the_outputs_of_steps_are_found_with_their_ranks_and_nodes(site: Site) -> None:
    lines = [f"srun -o '{pattern}' hostname" for pattern in STEPS]
    lines.append('export NCCL_DEBUG_FILE="nccl-$SLURM_JOB_ID.%h.%p"')
    lines.append("srun sh -c 'echo > nccl-$SLURM_JOB_ID.$(hostname).$$'")
    body = "\n".join(lines)
    told = submitted(site, "many", "steps-%j.out", body)
    found, _ = ask.files(told, site.commands())

    ranks = {one.file.rank for one in found if "s5-" in one.file.path}
    nodes = {one.file.node for one in found if "s6-" in one.file.path}
    nccl = {one.file.node for one in found if one.what == "NCCL's log"}
    assert nccl == {"n1", "n2"}
    assert ranks == {0, 1, 2, 3}
    assert nodes == {"n1", "n2"}


def test_another_user_is_told_that_it_is_not_his_job(site: Site) -> None:
    records = site.told("ok").records
    found, state = jobfiles.look(records[0], jobfiles.wishes(records), 65534)

    assert found == []
    assert state.detail.startswith("the job is of games, and you are user 65534")


def test_a_job_that_only_the_accounting_knows(site: Site) -> None:
    known = site.told("again").job
    assert known is not None
    site.servers.forget()

    told = site.told("again")

    assert told.job is not None
    assert told.job.purged
    assert told.states[0].outcome is Outcome.EMPTY
    assert told.states[0].detail == "slurmctld has no such job (any more)"
    assert [(a.restart, a.state) for a in told.job.attempts] == [
        (a.restart, a.state) for a in known.attempts
    ]
    found, _ = ask.files(told, site.commands())
    assert [Path(one.file.path).name for one in found] == [
        f"slurm-{site.work.ids['again']}.out"
    ]
