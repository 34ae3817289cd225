"""Sources of one job joined: a made-up Slurm, files and servers that are real."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from gangstart.errors import GangstartError
from gangstart.report_find import Places
from gangstart.triage import byjob
from gangstart.triage.judge import judge
from gangstart.triage.model import Confidence, Job, NodeState, Outcome, PastJob
from gangstart.triage.source.archive import StartReport
from gangstart.triage.source.joined import attempt
from gangstart.triage.source.promhttp import Server
from gangstart.triage.source.record import (
    Answer,
    Exit,
    Record,
    StepRecord,
    answered,
    unreachable,
)
from history import historysite
from triage.source.fakeprometheus import response, serve

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from gangstart.triage.model import Verdict
    from gangstart.triage.source.record import Wanted

NOW = 1_780_000_000.0


@dataclass
class MadeUp:
    """A Slurm that knows these records; it takes its time to answer of accounting."""

    records: list[Record] = field(default_factory=list)
    alive: bool = True
    slow_s: float = 0.0
    name: str = "made up"
    boot: float | None = None  # of every node

    def _answer(self, name: str, wanted: Wanted) -> Answer[Record]:
        if not self.alive:
            return unreachable(name, "it does not answer")
        found = [one for one in self.records if wanted.means(one)]
        return answered(name, found, "no such job", 0.0)

    def controller(self, wanted: Wanted) -> Answer[Record]:
        return self._answer("scontrol", wanted)

    def accounting(self, wanted: Wanted) -> Answer[Record]:
        time.sleep(self.slow_s)
        return self._answer("sacct", wanted)

    def nodes(self, names: Sequence[str]) -> Answer[NodeState]:
        states = [NodeState(one, "IDLE", boot_time=self.boot) for one in names]
        return answered("nodes", states, "", 0.0)

    def script(self, _number: int) -> str:
        return ""

    def past(self, _n: Sequence[str], _s: float, _u: float) -> Answer[PastJob]:
        return answered("past", (), "none", 0.0)


def record(folder: Path, **changes: object) -> Record:
    told: dict[str, Any] = {
        "number": 7877,
        "user": "me",
        "uid": os.geteuid(),
        "state": "FAILED",
        "exit": Exit(1),
        "submit": NOW - 100,
        "start": NOW - 90,
        "end": NOW,
        "restarts": 0,
        "nodes": ("n1", "n2"),
        "work_dir": str(folder),
        "stdout": str(folder / "job.out"),
        "steps": (StepRecord("0", state="FAILED", exit=Exit(1), nodes=("n1", "n2")),),
    }
    return Record(**told | changes)


def asked(folder: Path, text: str = "7877") -> byjob.Asked:
    return byjob.Asked(text, Places(None, folder / "run", [], []))


def told(by: MadeUp, wanted: byjob.Asked) -> Verdict:
    return judge(byjob.gather(wanted, by))


def outcomes(verdict: Verdict) -> dict[str, Outcome]:
    return {one.name: one.outcome for one in verdict.sources}


def test_the_log_that_slurm_names_gives_the_cause(tmp_path: Path) -> None:
    out = tmp_path / "job.out"
    out.write_text(
        "[rank2]: Traceback (most recent call last):\n"
        '[rank2]:   File "/u/train.py", line 42, in step\n'
        "[rank2]: KeyError: 'x'\n"
        "srun: error: n2: task 2: Exited with exit code 1\n"
    )

    verdict = told(MadeUp([record(tmp_path)]), asked(tmp_path))

    assert (verdict.code, verdict.rank, verdict.node) == ("APP_EXCEPTION", 2, "n2")
    assert any(one.place.source == str(out) for one in verdict.evidence)
    found = outcomes(verdict)
    assert found["sacct"] is found["logs"] is found["job files"] is Outcome.USED
    assert (found["archive"], found["prometheus"]) == (Outcome.EMPTY, Outcome.ABSENT)


def test_a_kernel_log_of_a_node_is_read_with_the_job(tmp_path: Path) -> None:
    kernel = tmp_path / "dmesg.n2.txt"
    kernel.write_text(
        "[90.1] NVRM: Xid (PCI:0000:5d:00): 79, pid='<unknown>', name=<unknown>, GPU "
        "has fallen off the bus.\n"
    )
    wanted = replace(asked(tmp_path), kernel=(("n2", kernel),))

    verdict = told(MadeUp([record(tmp_path)], boot=NOW - 120), wanted)

    assert (verdict.code, verdict.node) == ("GPU_FELL_OFF_BUS", "n2")
    assert (verdict.drain, verdict.confidence) == (True, Confidence.PROVEN)


@pytest.mark.parametrize("boot", [None, NOW + 900])
def test_a_kernel_line_of_an_unknown_time_proves_nothing(
    tmp_path: Path, boot: float | None
) -> None:
    kernel = tmp_path / "dmesg.n2.txt"
    kernel.write_text(
        "[90.1] NVRM: Xid (PCI:0000:5d:00): 79, pid='<unknown>', name=<unknown>, GPU "
        "has fallen off the bus.\n"
    )
    wanted = replace(asked(tmp_path), kernel=(("n2", kernel),))
    by = MadeUp([record(tmp_path)], boot=boot)

    alone = told(by, wanted)

    assert (alone.code, alone.confidence) == ("GPU_FELL_OFF_BUS", Confidence.POSSIBLE)
    assert any("dmesg -T" in one.text for one in alone.evidence)

    (tmp_path / "job.out").write_text(
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/u/train.py", line 42, in step\n'
        "[rank0]: KeyError: 'x'\n"
    )

    assert told(by, wanted).code == "APP_EXCEPTION"


def test_what_the_epilog_found_and_how_the_node_did_before(tmp_path: Path) -> None:
    at = historysite.places(tmp_path)
    for job in range(1, 13):
        late = {"n1": 1.0, "n2": 9.0, "n3": 1.1, "n4": 1.0, "n5": 1.2}
        made = historysite.report(f"{job}.0", late, at=NOW - 86400 + job * 60)
        historysite.keep(at, made)
    found = {
        "reading": "gone",
        "kind": "gone",
        "verdict": "fail",
        "uuid": "GPU-1",
        "pci": "0000:5d:00.0",
        "reason": "GPU 1 (0000:5d:00.0): it is gone",
    }
    event = {
        "event": "check",
        "time": NOW + 3,
        "stage": "epilog",
        "drain": True,
        "reason": "GPU 1 is gone",
        "differences": {"compared": True, "note": "", "found": [found]},
    }
    path = historysite.keep_checks(at, 7877, "n2", [event])
    (tmp_path / "job.out").write_text(
        "srun: error: n2: task 1: Exited with exit code 1\n"
        "1: torch.AcceleratorError: CUDA error: unknown error\n"
    )
    wanted = replace(asked(tmp_path), places=at)

    verdict = told(MadeUp([record(tmp_path)]), wanted)

    assert (verdict.code, verdict.node) == ("GPU_FELL_OFF_BUS", "n2")
    assert (str(path), 1) in {
        (one.place.source, one.place.line) for one in verdict.evidence
    }
    assert any(
        "n2 in earlier jobs: late in 12 of 12" in e.text for e in verdict.evidence
    )
    used = outcomes(verdict)
    assert used["archive"] is used["history"] is Outcome.USED


def test_a_job_that_nobody_knows_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(GangstartError, match="nobody knows of a job 7877") as caught:
        told(MadeUp(), asked(tmp_path))
    assert "scontrol: no such job; sacct: no such job" in caught.value.message


def test_when_no_source_answers_it_is_unknown_with_what_was_tried(
    tmp_path: Path,
) -> None:
    verdict = told(MadeUp(alive=False), asked(tmp_path))

    assert verdict.code == "UNKNOWN"
    assert outcomes(verdict)["sacct"] is Outcome.UNREACHABLE
    assert any("Slurm's accounting" in one for one in verdict.missing)


def test_an_interface_that_hangs_costs_no_more_than_the_deadline(
    tmp_path: Path,
) -> None:
    log = tmp_path / "mine.log"
    log.write_text("[rank1]: KeyError: 'x'\n")
    begun = time.monotonic()

    verdict = told(
        MadeUp(slow_s=60), replace(asked(tmp_path), logs=(log,), deadline_s=2.0)
    )

    assert time.monotonic() - begun < 30
    assert verdict.code == "APP_EXCEPTION"
    assert outcomes(verdict)["slurm"] is Outcome.UNREACHABLE


def test_files_of_another_user_are_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text("[rank1]: KeyError: 'x'\n")
    mine = record(tmp_path, uid=None, user="nobody-known")

    verdict = told(MadeUp([mine]), asked(tmp_path))

    assert verdict.code != "APP_EXCEPTION"
    (state,) = [one for one in verdict.sources if one.name == "job files"]
    assert state.outcome is Outcome.UNREACHABLE
    assert "it is not known whose job it is" in state.detail


def test_a_job_that_runs_has_not_failed(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text("step 1\n")
    runs = record(tmp_path, state="RUNNING", end=None, exit=Exit(), steps=())

    verdict = told(MadeUp([runs]), asked(tmp_path))

    assert verdict.code == "NO_FAILURE"
    assert "the job has not ended (Slurm says RUNNING)" in verdict.sentence


def test_one_task_of_an_array(tmp_path: Path) -> None:
    for task in (2, 3):
        (tmp_path / f"{task}.out").write_text(f"[rank{task}]: KeyError: 'x'\n")
    tasks = [
        record(
            tmp_path,
            number=7877 + task,
            array=7877,
            task=task,
            stdout=str(tmp_path / f"{task}.out"),
        )
        for task in (2, 3)
    ]

    verdict = told(MadeUp(tasks), asked(tmp_path, "7877_3"))

    assert verdict.rank == 3
    assert verdict.job is not None
    assert verdict.job.job_id == "7877_3"


@pytest.mark.parametrize("answer", ["garbage", "silence"])
def test_a_prometheus_that_is_none_is_told(tmp_path: Path, answer: str) -> None:
    (tmp_path / "job.out").write_text("[rank1]: KeyError: 'x'\n")

    def reply(link: socket.socket, _raw: bytes) -> None:
        if answer == "garbage":
            link.sendall(response("<html>hello"))
        else:
            link.recv(1)  # until the other side gives up

    with serve(reply) as (url, requests):
        wanted = replace(asked(tmp_path), server=Server(url), deadline_s=3.0)
        verdict = told(MadeUp([record(tmp_path)]), wanted)

    assert requests
    assert verdict.code == "APP_EXCEPTION"
    assert outcomes(verdict)["prometheus"] is Outcome.UNREACHABLE


def report(step: int, run: int) -> StartReport:
    return StartReport(Path("r"), 7, step, {"step": {"restart_count": run}})


def test_the_report_is_of_the_last_run_and_of_the_step_that_failed() -> None:
    failed = StepRecord("0", state="FAILED", exit=Exit(1))
    fine = StepRecord("1", state="COMPLETED", exit=Exit())
    run = attempt([Record(7, state="FAILED", steps=(failed, fine))], 1)
    job = Job("7", attempts=(run,))
    reports = [report(0, 0), report(0, 1), report(1, 1)]

    assert byjob.chosen(reports, job, None) is reports[1]
    assert byjob.chosen(reports, job, 1) is reports[2]
    assert byjob.chosen(reports[:1], job, None) is None


def test_a_command_that_hung_is_not_started_again(tmp_path: Path) -> None:
    sacct = tmp_path / "sacct"
    sacct.write_text('#!/bin/sh\necho >> "$0.started"\nexec sleep 600\n')
    sacct.chmod(0o755)
    run = byjob.Thrifty(time.monotonic() + 60)

    first = run([str(sacct)], deadline_s=1.0, env={"PATH": os.defpath})
    second = run([str(sacct)], deadline_s=1.0, env={"PATH": os.defpath})

    assert first.why == "it did not answer within 1 s"
    assert second.why == "it did not answer when it was asked before"
    assert Path(f"{sacct}.started").read_text() == "\n"
