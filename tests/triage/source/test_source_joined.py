"""What slurmctld and slurmdbd say of a job becomes one story."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gangstart.triage.source import joined
from gangstart.triage.source.record import Exit, Record, StepRecord, Wanted

RUN = Record(
    7,
    state="FAILED",
    exit=Exit(11, exact=False),
    derived=Exit(0, 11),
    submit=10.0,
    start=20.0,
    end=30.0,
    nodes=("n1",),
    steps=(StepRecord("batch", state="FAILED"),),
)
NOW = replace(
    RUN, exit=Exit(139), stdout="/w/out", restarts=0, steps=(), command="/w/job.sh"
)


def test_each_source_gives_what_it_knows_best() -> None:
    (one,) = joined.merge([NOW], [replace(RUN, cancelled_by=1000)])

    assert one.exit == Exit(139)
    assert one.stdout == "/w/out"
    assert one.cancelled_by == 1000
    assert [step.name for step in one.steps] == ["batch"]


def test_a_node_that_died_is_known_to_the_controller_first() -> None:
    """slurmdbd may still think that the job runs."""
    behind = replace(RUN, state="RUNNING", end=None, exit=Exit())
    (one,) = joined.merge([replace(NOW, state="NODE_FAIL")], [behind])

    assert (one.state, one.end) == ("NODE_FAIL", 30.0)


def test_a_requeued_job_that_waits_again_is_a_run_of_its_own() -> None:
    old = replace(RUN, state="REQUEUED")
    waits = replace(
        NOW, state="PENDING", start=None, end=None, submit=30.0, restarts=1, nodes=()
    )
    runs = joined.merge([waits], [old])
    job = joined.job_of(runs, Wanted(7))

    assert [one.state for one in runs] == ["REQUEUED", "PENDING"]
    assert (job.state, job.restarts) == ("PENDING", 1)
    assert [one.restart for one in job.attempts] == [0, 1]


def test_restarts_are_counted_though_earlier_runs_are_not_known() -> None:
    job = joined.job_of([replace(NOW, restarts=3)], Wanted(7))

    assert job.restarts == 3
    assert [one.restart for one in job.attempts] == [3]


def test_an_inexact_code_after_a_signal_in_a_step() -> None:
    job = joined.job_of([RUN], Wanted(7))

    assert job.attempts[0].exit_code == 139


@pytest.mark.parametrize("derived", [None, Exit(3), Exit(0, 9)])
def test_an_inexact_code_is_left_where_nothing_settles_it(derived: Exit | None) -> None:
    assert joined.settle(RUN.exit, derived) == RUN.exit


def test_the_task_that_failed_first_stands_for_an_array() -> None:
    tasks = [
        replace(RUN, number=7 + n, array=7, task=n, state=state, end=end)
        for n, state, end in ((0, "COMPLETED", 25.0), (1, "FAILED", 40.0))
    ]
    tasks.append(replace(RUN, number=9, array=7, task=2, end=35.0))
    found, remark = joined.chosen(tasks, Wanted(7))
    own, without = joined.chosen(tasks[1:2], Wanted(7, task=1))

    assert [one.task for one in found] == [2]
    assert remark == (
        "7 is an array: 2 of 3 tasks failed; this is 7_2, name another one to look at "
        "it"
    )
    assert ([one.task for one in own], without) == ([1], "")


def test_an_array_without_a_failure() -> None:
    tasks = [
        replace(RUN, number=7 + n, array=7, task=n, state="COMPLETED") for n in range(2)
    ]
    found, remark = joined.chosen(tasks, Wanted(7))

    assert [one.task for one in found] == [0]
    assert "0 of 2 tasks failed" in remark


def test_components_are_one_job_with_the_state_of_the_one_that_failed() -> None:
    step = StepRecord("0", state="COMPLETED", tasks=2, nodes=("n1",), start=5, end=9)
    parts = [
        replace(RUN, het=7, het_offset=0, state="COMPLETED", steps=(step,)),
        replace(
            RUN,
            number=8,
            het=7,
            het_offset=1,
            nodes=("n2", "n3"),
            steps=(
                replace(step, state="FAILED", nodes=("n2", "n3"), exit=Exit(1), end=8),
            ),
        ),
    ]
    job = joined.job_of(parts, Wanted(7))
    (made,) = job.attempts[0].steps

    assert (job.state, job.nodes) == ("FAILED", ("n1", "n2", "n3"))
    assert (made.state, made.exit_code, made.tasks) == ("FAILED", 1, 4)
    assert (made.nodes, made.start, made.end) == (("n1", "n2", "n3"), 5, 9)


def test_a_job_that_never_ran_has_no_start() -> None:
    ended = replace(NOW, state="CANCELLED", nodes=())
    (one,) = joined.merge([ended], [])

    assert one.start is None


def test_a_pattern_that_the_accounting_kept_counts_more_than_a_wrong_path() -> None:
    """As of scontrol 24.11, which makes %00007 of %05j."""
    now = replace(NOW, stdout="/w/%00007.out")
    (one,) = joined.merge([now], [replace(RUN, stdout="/w/%05j.out")])

    assert one.stdout == "/w/%05j.out"
