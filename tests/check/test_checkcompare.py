"""What earlier records of a job are good for: no second look, and a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from check.fakenode import BOOTED, FakeNode, FakeProcess, Known
from gangstart.check import record
from gangstart.check.leftover import Job
from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from pathlib import Path

JOB = Job(501, uid=1001)


@pytest.fixture(name="node")
def fake(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


def kept(node: FakeNode, stage: str, at: float, **gpu: Known) -> None:
    """A record as the hook of the plugin leaves it."""
    part = {"verdict": "fail", "drain": True, "none": False, "sentence": "kept"} | gpu
    part.setdefault("event", {"gpus": [], "findings": []})
    record.Spool(node.spool, 501).append(
        {"event": "check", "stage": stage, "time": at, "job_uid": 1001, "gpu": part}
    )


@pytest.mark.parametrize(
    ("stage", "age", "reused"),
    [("prolog", 59, True), ("prolog", 61, False), ("epilog", 5, False)],
)
def test_a_fresh_record_of_the_same_stage_is_used(
    node: FakeNode, stage: str, age: int, *, reused: bool
) -> None:
    kept(node, stage, 5000.0 - age)
    event = node.check("prolog", {"now": lambda: 5000.0}, job=JOB)
    assert event["gpu"]["reused"] is reused
    assert event["verdict"] == ("fail" if reused else "ok")


def test_a_requeued_job_is_looked_at_again(node: FakeNode) -> None:
    kept(node, "prolog", 4990.0)
    kept(node, "epilog", 4995.0)
    assert not node.check("prolog", {"now": lambda: 5000.0}, job=JOB)["gpu"]["reused"]


def test_an_own_look_is_not_used_again(node: FakeNode) -> None:
    kept(node, "prolog", 4990.0)
    now = {"now": lambda: 5000.0}
    record.Spool(node.spool, 501).append(node.check("prolog", now, job=JOB))
    assert not node.check("prolog", now, job=JOB)["gpu"]["reused"]


@pytest.mark.parametrize(
    "gpu", [{"verdict": "splendid"}, {"event": {"gpus": 7}}, {"event": []}]
)
def test_a_record_that_is_none_is_not_used(node: FakeNode, gpu: Known) -> None:
    kept(node, "prolog", 5000.0, **gpu)
    assert not node.check("prolog", {"now": lambda: 5000.0}, job=JOB)["gpu"]["reused"]


def test_the_future_is_not_fresh(node: FakeNode) -> None:
    kept(node, "prolog", 5001.0)
    assert not node.check("prolog", {"now": lambda: 5000.0}, job=JOB)["gpu"]["reused"]


def test_the_prologs_record_tells_user_and_begin_of_the_job(node: FakeNode) -> None:
    kept(node, "prolog", BOOTED + 40.0)
    node.add(7, FakeProcess(started=50))
    node.add(8, FakeProcess(started=30))
    event = node.check("epilog", {"now": lambda: BOOTED + 60.0}, job=Job(501))
    assert [p["pid"] for p in event["leftovers"]["processes"]] == [7]
    assert event["job_uid"] == 1001


def test_a_job_without_an_earlier_sample_says_so(node: FakeNode) -> None:
    differences = node.check("epilog", job=JOB)["differences"]
    assert differences["compared"] is False
    assert differences["note"] == "no earlier sample of this job"
    assert node.check("node")["differences"] is None


def test_an_earlier_sample_that_is_broken_is_not_taken_for_the_same(
    node: FakeNode,
) -> None:
    kept(node, "prolog", 1.0)

    def broken(_before: Known, _after: Known, _conf: Known) -> list[Known]:
        raise GangstartError("'{}' is no record of GPUs, or one cut short")

    event = node.check("epilog", {"differences": broken}, job=JOB)
    assert event["differences"]["compared"] is False
    assert "no record of GPUs" in event["differences"]["note"]


def test_what_differs_from_the_first_sample_counts(node: FakeNode) -> None:
    kept(node, "prolog", 1.0, event={"gpus": [{"index": 0}], "findings": []})
    samples: list[Known] = []

    def differences(
        before: Known, after: Known, _conf: Known
    ) -> list[dict[str, Known]]:
        samples.append((before, after))
        return [{"gpu": 0, "verdict": "warn", "reason": "GPU 0 has 7 more errors"}]

    event = node.check("epilog", {"differences": differences}, job=JOB)
    assert (event["verdict"], event["reason"]) == ("warn", "GPU 0 has 7 more errors")
    assert event["differences"]["compared"] is True
    ((before, after),) = samples
    assert (before["gpus"], after["gpus"]) == ([{"index": 0}], [])


def test_a_difference_may_be_a_dataclass_and_fine(node: FakeNode) -> None:
    kept(node, "prolog", 1.0)
    one = Changed("ecc_cor", "ok", "GPU 0 has 7 more corrected errors")
    event = node.check("epilog", {"differences": lambda *_: [one]}, job=JOB)
    assert (event["verdict"], event["reason"]) == ("ok", "ok it is")
    assert event["differences"]["found"] == [vars(one)]


@dataclass
class Changed:
    """As gangstart.gpudiff has it."""

    id: str
    verdict: str
    reason: str
