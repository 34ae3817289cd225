"""History is read from what is on disk: hostile, doubled, unreadable or too much."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from gangstart import history
from gangstart.history.model import JOBS_MOST
from history.historysite import (
    T0,
    check,
    finding,
    health,
    keep,
    keep_checks,
    places,
    put,
    report,
)

if TYPE_CHECKING:
    from gangstart.report_find import Places

NOBODY = 65534
FOUR: dict[str, float | None] = {"n1": 1.0, "n2": 1.1, "n3": 0.9, "n4": 1.0}
LATE = FOUR | {"n4": 6.0}


@pytest.fixture(name="at")
def folders(tmp_path: Path) -> Places:
    return places(tmp_path)


def node(told: history.History, name: str) -> history.Node:
    found = told.node(name)
    assert found is not None
    return found


def test_a_node_that_is_always_late_comes_first_with_its_evidence(at: Places) -> None:
    for job in range(1, 13):
        keep(at, report(f"{job}.0", LATE, user=1000 + job % 2))
    told = history.collect(at)
    first = told.nodes[0]
    assert (first.name, first.verdict, first.jobs) == ("n4", "fail", 12)
    assert (first.late.hits, first.late.jobs, first.late.users) == (12, 12, 2)
    assert first.late.chance == pytest.approx(0.25**12)
    # Eight tests: lateness and refusals of four nodes.
    assert told.tests == 8
    assert first.late.adjusted == pytest.approx(8 * 0.25**12)
    assert first.late.late_median_s == pytest.approx(5.0)
    assert first.sentences[0].startswith(
        "late in 12 of 12 jobs, by 5.0 s in the median"
    )
    assert first.next == (
        "gangstart report 12.0 --all · scontrol show node n4 · sbatch --exclude=n4 …"
    )
    assert [one.verdict for one in told.nodes[1:]] == ["ok", "ok", "ok"]


def test_refusals_count_against_the_cause_only(at: Places) -> None:
    for job in range(1, 11):
        keep(at, report(f"{job}.0", FOUR | {"n2": None}))
    for job in range(11, 21):
        keep(at, report(f"{job}.0", FOUR | {"n3": None}, reason="configuration"))
    told = history.collect(at)
    assert told.reading.refused == 20
    bad = told.nodes[0]
    assert (bad.name, bad.refused.hits, bad.refused.jobs) == ("n2", 10, 10)
    assert bad.refused.reasons == {"timeout": 10}
    assert (
        "cause of a refused start in 10 of 10 jobs: not ready in time 10 times"
        in (bad.sentences[0])
    )
    assert node(told, "n3").refused.hits == 0
    assert told.refusal_rate == 0.25


def test_copies_steps_and_requeues_of_a_job_are_one_job(at: Places) -> None:
    told = report("7.0", LATE)
    keep(at, told)
    put(at.spool / "7.0" / "sys" / "start.json", told)
    put(at.states[0] / "c" / "7.0.json", told)
    keep(at, report("7.1", LATE))
    put(at.states[0] / "c" / "7.2.json", report("7.2", LATE, restart=1, at=T0 + 9999))
    made = history.collect(at)
    reading = made.reading
    assert (reading.jobs, reading.starts, reading.copies) == (1, 3, 2)
    one = node(made, "n4")
    assert (one.jobs, one.late.jobs, one.late.hits) == (1, 1, 1)
    assert one.verdict == "unknown"


def test_a_start_of_which_only_the_nodes_kept_something_is_put_together(
    at: Places,
) -> None:
    assert at.archive is not None
    for name in LATE:
        part = report("7.0", LATE, complete=False)
        part["nodes"] = [one for one in part["nodes"] if one["name"] == name]
        put(at.archive / "7.0" / name / "sys" / "start.json", part)
    told = history.collect(at)
    assert (told.reading.starts, node(told, "n4").late.hits) == (1, 1)


def test_findings_of_starts_and_checks_are_counted_once_a_job(at: Places) -> None:
    xid = finding("xid", value="79")
    for job in range(1, 7):
        sick = {"n1": health("fail", xid) if job < 4 else health("ok")}
        keep(at, report(f"{job}.0", FOUR, health=sick))
        when = T0 + job * 600.0
        found = [xid] if job < 4 else []
        keep_checks(
            at,
            job,
            "n1",
            [
                check("prolog", when - 5, *found, finding("leftover_shm", "warn")),
                check("epilog", when + 50, *found),
            ],
        )
    told = node(history.collect(at), "n1")
    assert told.looks == 6
    faults, left = told.findings
    assert (faults.check, faults.verdict, faults.jobs) == ("xid 79", "fail", 3)
    assert (faults.last_job, faults.since, faults.mended) == (3, 3, True)
    assert (left.check, left.jobs, left.of_jobs) == ("leftover_shm", 6, True)
    assert told.verdict == "warn", "mended, and what jobs leave is not the node's"
    (sentence,) = told.sentences
    assert sentence.startswith("fail: xid 79 in 3 of 6 jobs that looked, last 2026-")
    assert sentence.endswith(", job 3, not in the 3 looks since: GPU 0: xid 79")


def test_an_open_fault_is_a_fact_and_needs_no_test(at: Places) -> None:
    keep_checks(at, 5, "n9", [check("node", T0, finding("ecc_unc"))])
    told = node(history.collect(at), "n9")
    assert (told.verdict, told.late.standing) == ("fail", "unknown")
    assert told.next.startswith(
        "gangstart check --explain ecc_unc · scontrol show node"
    )


def test_what_changed_during_a_job_counts_and_a_look_in_vain_does_not(
    at: Places,
) -> None:
    came = {"reading": "xid", "after": 48, "verdict": "fail", "reason": "Xid 48"}
    differences = {"compared": True, "note": "", "found": [came]}
    found = check("epilog", T0, verdict="fail", differences=differences)
    vain = check("prolog", T0 + 50, verdict="unknown")
    keep_checks(at, 5, "n1", [found])
    keep_checks(at, 6, "n1", [vain])
    told = node(history.collect(at), "n1")
    assert [(one.check, one.since) for one in told.findings] == [("xid 48", 0)]
    assert told.looks == 1


def test_the_window_is_by_the_moment_of_the_start(at: Places) -> None:
    for job in range(1, 11):
        keep(at, report(f"{job}.0", FOUR))
    told = history.collect(at, since=T0 + 3 * 600, until=T0 + 6 * 600)
    assert (told.reading.jobs, told.reading.oldest) == (3, T0 + 1800)


def test_files_that_are_older_than_the_window_are_not_opened(at: Places) -> None:
    path = keep(at, report("1.0", FOUR))
    path.write_text("broken")
    os.utime(path, (T0, T0))
    assert history.collect(at).reading.broken == 1
    assert history.collect(at, since=T0 + 3 * 86400).reading.broken == 0


def test_nodes_of_another_cluster_are_other_nodes(at: Places) -> None:
    for job in range(1, 5):
        keep(at, report(f"{job}.0", FOUR))
        put(at.states[0] / "d" / f"{job}.1.json", report(f"{job}.1", LATE, cluster="d"))
    told = history.collect(at)
    assert (told.reading.cluster, told.reading.starts) == ("c", 4)
    assert told.reading.other_clusters == 4
    other = history.collect(at._replace(cluster="d"))
    assert (other.reading.starts, node(other, "n4").late.hits) == (4, 4)


def nested(depth: int) -> str:
    return "[" * depth


HOSTILE = {
    "empty": "",
    "cut": '{"schema":"gangstart.start","version":1,',
    "deep": nested(100_000),
    "other": '{"schema":"x"}',
    "list": "[]",
    "nul": "\x00" * 100,
    "version": json.dumps(report("1.0", FOUR) | {"version": 2}),
    "infinite": json.dumps(report("1.0", FOUR)).replace("5.0", "1e999"),
    "name": json.dumps(report("1.0", {"n\x1b[31m": 1.0, "n2": 2.0})),
    "blame": json.dumps(report("1.0", FOUR) | {"blamed_nodes": "n[1-99999999]"}),
    "twice": json.dumps(report("1.0", FOUR)).replace('"n2"', '"n1"'),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_broken_report_is_counted_told_and_passed_over(at: Places, kind: str) -> None:
    keep(at, report("2.0", FOUR))
    assert at.archive is not None
    path = keep(at, report("1.0", FOUR))
    path.write_text(HOSTILE[kind])
    told = history.collect(at)
    assert (told.reading.starts, told.reading.broken) == (1, 1)
    assert str(path) in told.reading.examples[0]
    assert "\x1b" not in told.reading.examples[0]


def test_a_user_who_names_nodes_without_end_keeps_no_real_one_out(at: Places) -> None:
    for job in range(1, 8):
        keep(at, report(f"{job}.0", LATE))
    names: dict[str, float | None] = {f"x{number}": 1.0 for number in range(5000)}
    forged = report("99.0", FOUR | names)
    forged["nodes"] = forged["nodes"][:4]
    path = keep(at, forged)
    put(path, report("99.0", FOUR | names))
    told = history.collect(at)
    assert [one.name for one in told.nodes] == ["n4", "n1", "n2", "n3"]
    assert [one.jobs for one in told.nodes] == [8] * 4
    assert [one.late.jobs for one in told.nodes] == [7] * 4, "nor does it vote"


def test_what_is_no_file_is_not_waited_for(at: Places) -> None:
    keep(at, report("2.0", FOUR))
    assert at.archive is not None
    (at.archive / "1.0").mkdir()
    os.mkfifo(at.archive / "1.0" / "start.json")
    (at.archive / "3.0" / "start.json").mkdir(parents=True)
    (at.archive / "4.0").symlink_to("/proc/self")
    (at.archive / "5.0").symlink_to("/dev/zero")
    folder = at.archive / "6.node" / "n1" / "sys"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "events.jsonl")
    assert history.collect(at).reading.starts == 1


@pytest.mark.parametrize(
    "event",
    [
        [],
        {"event": "check"},
        {"event": "check", "time": "x"},
        {"event": "check", "time": 1e300},
        {"event": "check", "time": T0, "verdict": ["fail"]},
        {"event": "check", "time": T0, "verdict": "fail", "gpu": [], "findings": 7},
        {"event": "check", "time": T0, "verdict": "fail", "findings": [7, {}, []]},
        {"event": "check", "time": T0, "verdict": "fail", "differences": {"found": 7}},
        {
            "event": "check",
            "time": T0,
            "verdict": "warn",
            "gpu": {"event": {"findings": "x"}},
        },
        {"event": "check", "time": T0, "job": "7", "verdict": "ok"},
    ],
)
def test_an_event_of_any_form_breaks_nothing(at: Places, event: Any) -> None:  # noqa: ANN401
    keep_checks(at, 5, "n1", [event])
    keep_checks(at, 5, "n 1", [check("node", T0)])
    put(at.spool / "5.node" / "sys" / "events.jsonl", event)
    told = history.collect(at)
    assert {one.name for one in told.nodes} <= {"n1"}
    assert all(one.findings == () for one in told.nodes)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_a_user_reads_what_that_user_may_and_is_told_of_the_rest() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        root = Path(folder)
        root.chmod(0o755)
        at = places(root)
        for job in range(1, 6):
            keep(at, report(f"{job}.0", FOUR))
        events = keep_checks(at, 3, "n1", [check("node", T0)])
        assert at.archive is not None
        shut = {
            at.archive / "1.0" / "start.json": 0o600,
            at.archive / "2.0": 0o700,
            events: 0o600,
            at.spool: 0o700,
        }
        for path, mode in shut.items():
            path.chmod(mode)
        os.seteuid(NOBODY)
        try:
            told = history.collect(at).reading
        finally:
            os.seteuid(0)
        assert (told.starts, told.checks) == (3, 0)
        assert (told.unreadable, told.broken) == (4, 0)
        for path in shut:
            assert any(str(path) in one for one in told.examples)
        assert history.collect(at._replace(denied=[])).reading.unreadable == 0


def test_a_deadline_leaves_out_the_oldest_and_says_so(at: Places) -> None:
    for job in range(1, 9):
        keep(at, report(f"{job}.0", FOUR))
    seen: list[int] = []
    clock = history.Options(progress=lambda done, _jobs: seen.append(done))
    told = history.collect(at, deadline_s=0.0, options=clock)
    assert not told.reading.complete
    assert told.reading.note == "0 s were over: 0 of 8 jobs were read, the newest"
    assert seen == []
    whole = history.collect(at, deadline_s=100.0, options=clock)
    assert whole.reading.complete
    assert seen == list(range(1, 9))


def test_of_a_node_in_very_many_jobs_the_newest_are_weighed(at: Places) -> None:
    pair: dict[str, float | None] = {"n1": 1.0, "n2": 1.0}
    for job in range(1, JOBS_MOST + 21):
        late = pair | ({"n2": 9.0} if job <= 20 else {})
        keep(at, report(f"{job}.0", late))
    one = node(history.collect(at), "n2")
    assert (one.jobs, one.late.jobs, one.late.hits) == (JOBS_MOST + 20, JOBS_MOST, 0)


def test_an_empty_machine_has_no_history(at: Places) -> None:
    told = history.collect(at, ["n1"])
    assert (told.nodes, told.never_seen, told.reading.jobs) == ((), ("n1",), 0)
