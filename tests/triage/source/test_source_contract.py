"""Every way to ask Slurm tells the same of the same jobs.

Recorded: the commands of 22.05, 24.11, 25.11 and 26.05, pyslurm of 24.11 and 25.11,
each about the jobs of `workload.ended` (25.11: the like of them, without accounting).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from gangstart.triage.model import Outcome
from gangstart.triage.source import joined, pattern
from gangstart.triage.source.bounded import Ran
from gangstart.triage.source.bypyslurm import PySlurm
from gangstart.triage.source.commands import Commands
from gangstart.triage.source.record import Answer, Exit, Record, Wanted
from triage.source.recording import HERE, Player

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gangstart.triage.source.record import Slurm

NOBODY = 999999


@dataclass
class Asked:
    """Plays what pyslurm's helper printed."""

    asked: Mapping[str, str]

    def __call__(self, argv: Sequence[str], **_: object) -> Ran:
        """Answer one request."""
        told = self.asked.get(argv[-1])
        return Ran(1, err="not recorded") if told is None else Ran(0, told.encode())


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text("utf-8"))
    return found


def commands(release: str) -> tuple[Slurm, dict[str, int]]:
    told = recorded(release)
    return Commands(run=Player(told["calls"])), told["jobs"]


def by_pyslurm(release: str) -> tuple[Slurm, dict[str, int]]:
    told = recorded(f"pyslurm-{release}")
    player = Player(recorded(release)["calls"])
    return PySlurm(Commands(run=player), run=Asked(told["asked"])), told["jobs"]


WAYS = {
    "commands 22.05": lambda: commands("22.05"),
    "commands 24.11": lambda: commands("24.11"),
    "commands 25.11": lambda: commands("25.11"),
    "commands 26.05": lambda: commands("26.05"),
    "pyslurm 24.11": lambda: by_pyslurm("24.11"),
    "pyslurm 25.11": lambda: by_pyslurm("25.11"),
}
WITHOUT_ACCOUNTING = "25.11"


@dataclass
class Way:
    """One way to ask, and the jobs it knows."""

    name: str
    slurm: Slurm
    jobs: dict[str, int]

    def now(self, job: str) -> tuple[Record, ...]:
        """What slurmctld has of a job."""
        return told(self.slurm.controller(self.wanted(job)))

    def kept(self, job: str) -> tuple[Record, ...]:
        """What slurmdbd has of a job."""
        if WITHOUT_ACCOUNTING in self.name:
            pytest.skip("no accounting was recorded for 25.11")
        return told(self.slurm.accounting(self.wanted(job)))

    def wanted(self, job: str) -> Wanted:
        if job not in self.jobs:
            pytest.skip(f"no job {job} was recorded for {self.name}")
        return Wanted(self.jobs[job])

    def ids(self, *numbers: int) -> list[str]:
        """Names of nodes: they are called n1 or, in 25.11, c1."""
        letter = "c" if WITHOUT_ACCOUNTING in self.name else "n"
        return [f"{letter}{number}" for number in numbers]


def told(answer: Answer[Record]) -> tuple[Record, ...]:
    assert answer.state.outcome is Outcome.USED, answer.state
    return answer.found


def ended_with(left: Exit, code: int) -> bool:
    """Whether an exit code is the one that was, as exactly as the source tells it."""
    assert left.signal == 0
    return left.code == code if left.exact else left.code in (code, code - 128)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    return Way(request.param, *WAYS[request.param]())


def test_a_job_that_ended_well(way: Way) -> None:
    (job,) = way.now("ok")

    assert (job.name, job.state, job.exit) == ("ok", "COMPLETED", Exit(0, 0))
    assert list(job.nodes) == way.ids(1, 2)
    assert job.submit is not None
    assert job.start is not None
    assert job.end is not None
    assert job.submit <= job.start <= job.end
    assert job.work_dir == "/users/alice/exp"
    assert (job.array, job.task, job.het, job.het_offset) == (None,) * 4
    assert job.limit_s is None
    assert (job.tasks, job.restarts) == (4, 0)


def test_whose_job_it_is(way: Way) -> None:
    (job,) = way.now("ok")

    root = WITHOUT_ACCOUNTING in way.name
    assert (job.user, job.uid) == (("root", 0) if root else ("alice", 5))


@pytest.mark.parametrize(("job", "code"), [("bad", 3), ("seg", 139)])
def test_exit_codes(way: Way, job: str, code: int) -> None:
    (now,) = way.now(job)

    assert now.state == "FAILED"
    assert ended_with(now.exit, code)
    assert now.reason == "NonZeroExitCode"


def test_a_code_of_128_and_more_is_told_by_the_steps(way: Way) -> None:
    (kept,) = way.kept("seg")

    assert joined.settle(kept.exit, kept.derived) in (Exit(139), Exit(139, exact=True))
    assert kept.steps[-1].exit == Exit(0, 11)
    assert kept.steps[-1].state == "CANCELLED"


def test_array_tasks(way: Way) -> None:
    tasks = sorted(way.now("array"), key=lambda one: one.task or 0)

    assert [one.task for one in tasks] == [0, 1, 2]
    assert {one.array for one in tasks} == {way.jobs["array"]}
    assert tasks[1].shown == f"{way.jobs['array']}_1"
    if WITHOUT_ACCOUNTING not in way.name:
        assert [one.exit.code for one in tasks] == [0, 1, 2]


def test_one_array_task(way: Way) -> None:
    if "24.11" not in way.name:
        number = way.wanted("array").number
        all_of_it = way.slurm.controller(Wanted(number)).found
        wanted = Wanted(number, task=2)
        assert [one.task for one in all_of_it if wanted.means(one)] == [2]


def test_components_of_a_heterogeneous_job(way: Way) -> None:
    parts = sorted(way.now("het"), key=lambda one: one.number)

    assert [one.het_offset for one in parts] == [0, 1]
    assert {one.het for one in parts} == {way.jobs["het"]}
    assert [list(one.nodes) for one in parts] == [way.ids(1), way.ids(2, 3)]


def test_a_waiting_job_has_not_started(way: Way) -> None:
    (job,) = way.now("pend")

    assert (job.state, job.reason) == ("PENDING", "BeginTime")
    assert (job.start, job.end, job.nodes) == (None, None, ())


def test_the_time_limit_is_in_seconds(way: Way) -> None:
    (job,) = way.now("limit")

    assert job.limit_s == 60


def test_a_job_that_nobody_has(way: Way) -> None:
    answer = way.slurm.controller(Wanted(NOBODY))

    assert answer.state.outcome is Outcome.EMPTY
    assert "no such job" in answer.state.detail


def test_who_cancelled(way: Way) -> None:
    (job,) = way.kept("canc")

    assert job.state == "CANCELLED"
    assert job.cancelled_by == 0 or job.cancelled_name == "root"
    assert job.steps[0].exit == Exit(0, 15)


def test_a_job_cancelled_before_it_began(way: Way) -> None:
    (job,) = way.kept("held")

    assert (job.state, job.start, job.nodes, job.steps) == ("CANCELLED", None, (), ())


def test_each_run_of_a_requeued_job(way: Way) -> None:
    (now,) = way.now("again")
    runs = way.kept("again")
    job = joined.job_of(joined.merge([now], runs), way.wanted("again"))

    assert [one.state for one in runs] == ["REQUEUED", "FAILED"]
    assert now.restarts == 1
    assert job.restarts == 1
    assert [(one.restart, one.state, one.exit_code) for one in job.attempts] == [
        (0, "REQUEUED", 0),
        (1, "FAILED", 4),
    ]
    assert job.attempts[0].end is not None
    assert job.attempts[1].start is not None
    assert job.attempts[0].end <= job.attempts[1].start


def test_steps(way: Way) -> None:
    (job,) = way.kept("ok")

    assert [step.name for step in job.steps] == ["batch", "0"]
    step = job.steps[1]
    assert (step.program, step.state, step.tasks) == ("hostname", "COMPLETED", 4)
    assert list(step.nodes) == way.ids(1, 2)
    assert step.submit_line.startswith("srun -n4 -o /users/alice/exp/ok-%j-%t.log")


def test_a_time_out(way: Way) -> None:
    (job,) = way.kept("limit")

    assert job.state == "TIMEOUT"


def test_nodes(way: Way) -> None:
    answer = way.slurm.nodes(way.ids(1, 2, 3, 4))

    assert [one.name for one in answer.found] == way.ids(1, 2, 3, 4)
    assert all(one.boot_time for one in answer.found)
    assert {"IDLE", "MIXED", "MIXED+PLANNED", "IDLE+PLANNED"} >= {
        one.state for one in answer.found
    }


@pytest.mark.parametrize("job", ["ok", "bad", "seg", "array", "het", "canc"])
def test_output_files_are_those_of_slurm(way: Way, job: str) -> None:
    for record in way.now(job):
        wild = pattern.expand(record.stdout, pattern.Names.of(record))
        number = record.number
        shown = {
            "ok": f"ok-{number}.out",
            "bad": f"bad-{number}.out",
            "seg": f"seg-alice-{number}.out",
            "array": f"arr-{record.array}_{record.task}.out",
            "het": f"slurm-{number}.out",
            "canc": f"slurm-{number}.out",
        }
        if WITHOUT_ACCOUNTING in way.name:
            shown |= {"seg": f"seg-{number}.out", "het": f"het-{number}.out"}
            shown |= {"canc": f"canc-{number}.out"}
        assert wild is not None
        assert wild.fixed == f"/users/alice/exp/{shown[job]}"


def test_a_pattern_that_slurm_leaves_in_the_record_is_filled_in(way: Way) -> None:
    if WITHOUT_ACCOUNTING in way.name:
        pytest.skip("no such pattern was recorded for 25.11")
    (job,) = way.now("bad")
    wild = pattern.expand(job.stderr, pattern.Names.of(job))

    assert wild is not None
    assert wild.fixed == f"/users/alice/exp/bad-bad-{job.number:05}.err"
