"""What gangstart left of a job is read from the archive and the spool."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from gangstart.report_find import Places
from gangstart.triage import startreport
from gangstart.triage.model import Outcome
from gangstart.triage.source import archive

if TYPE_CHECKING:
    from pathlib import Path


def told(**changed: Any) -> dict[str, Any]:  # noqa: ANN401  JSON
    """A start report with what readers look at."""
    node = {
        "name": "n1",
        "ranks": "0-1",
        "phase": "ready",
        "detail": "",
        "address": "10.0.0.1",
        "connected_s": 0.1,
        "clock_offset_s": 0.25,
        "tasks": [
            {"rank": 0, "arrived_s": 0.5},
            {"rank": 1, "arrived_s": 0.9},
        ],
    }
    late = node | {"name": "n2", "ranks": "2,3", "clock_offset_s": None, "tasks": []}
    report: dict[str, Any] = {
        "schema": "gangstart.start",
        "version": 1,
        "complete": True,
        "step": {
            "name": "7.0",
            "cluster": "c",
            "user_id": 5,
            "submit_host": "head",
            "restart_count": 1,
        },
        "outcome": "refused",
        "reason": "timeout",
        "message": ["gang-start: step 7.0 refused", "  n2 never connected"],
        "decided_at": 1000.5,
        "elapsed_s": 60.0,
        "spec": "timeout=60",
        "expected": {"nodes": 2, "tasks": 4},
        "arrived": {"nodes": 1, "tasks": 2},
        "stale_arrivals": 0,
        "blamed_nodes": "n2",
        "missing_ranks": "2-3",
        "master": {
            "node": "n1",
            "address": "10.1.0.1",
            "port": 21873,
            "address_from": "",
            "port_from": "",
            "tried": [],
        },
        "kept_from_user": [],
        "warnings": [],
        "versions": {"plugin": "0.1.0", "slurm": "22.05.8", "wire": 1},
        "nodes": [node, late],
    }
    return report | changed


@pytest.fixture
def places(tmp_path: Path) -> Places:
    for name in ("archive", "spool", "state"):
        (tmp_path / name).mkdir()
    return Places(tmp_path / "archive", tmp_path / "spool", [tmp_path / "state"], [])


def write(path: Path, report: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = report if isinstance(report, str) else json.dumps(report)
    path.write_text(text, encoding="utf-8")
    return path


def base(places: Places) -> Path:
    assert places.archive is not None
    return places.archive


def test_who_ran_where(places: Places) -> None:
    write(base(places) / "7.0" / "start.json", told())
    kept, state = archive.read(7, places)
    layout = startreport.layout(kept.reports[0].told)

    assert state.outcome is Outcome.USED
    assert layout.rank_node == {0: "n1", 1: "n1", 2: "n2", 3: "n2"}
    assert layout.master == "n1:21873"
    assert (layout.outcome, layout.reason) == ("refused", "timeout")
    assert layout.missing_ranks == (2, 3)
    assert layout.blamed_nodes == ("n2",)
    assert layout.offset_s == {"n1": 0.25}
    assert layout.lateness_s == {"n1": 0.9}
    assert layout.address_node == {"10.1.0.1": "n1", "10.0.0.1": "n2"}
    assert "n2 never connected" in layout.message
    assert kept.reports[0].attempt == 1


def test_each_run_and_step_once_and_the_fullest_copy(places: Places) -> None:
    part = told(complete=False)
    write(base(places) / "7.0" / "n1" / "sys" / "start.json", part)
    write(places.spool / "7.0" / "sys" / "start.json", part)
    full = write(places.states[0] / "c" / "7.0.json", told())
    second = write(places.spool / "7.1" / "sys" / "start.json", told(decided_at=2000.0))
    write(base(places) / "77.0" / "start.json", told())
    kept, _ = archive.read(7, places)

    assert [one.path for one in kept.reports] == [full, second]
    assert [one.step for one in kept.reports] == [0, 1]


def of_cluster(name: str, **changed: Any) -> dict[str, Any]:  # noqa: ANN401  JSON
    report = told(**changed)
    report["step"]["cluster"] = name
    return report


def test_a_report_of_another_cluster_with_that_number_is_left_out(
    places: Places,
) -> None:
    mine = write(base(places) / "7.0" / "start.json", of_cluster("a"))
    other = of_cluster("b", decided_at=2000.0)
    write(places.states[0] / "b" / "7.0.json", other)
    kept, state = archive.read(7, places)

    assert [one.path for one in kept.reports] == [mine]
    assert "1 left out: of other jobs of this number on b" in state.detail
    assert "--cluster NAME chooses" in state.detail


def test_own_copies_of_several_clusters_decide_nothing(places: Places) -> None:
    for name in ("a", "b"):
        write(places.states[0] / name / "7.0.json", of_cluster(name))
    kept, state = archive.read(7, places)

    assert kept.reports == []
    assert state.outcome is Outcome.EMPTY
    assert "2 left out: of other jobs of this number on a, b" in state.detail


def test_a_report_from_before_or_after_the_job_is_of_another_one(
    places: Places,
) -> None:
    mine = write(
        places.states[0] / "a" / "7.0.json", of_cluster("a", decided_at=100_000.0)
    )
    write(places.states[0] / "b" / "7.0.json", of_cluster("b", decided_at=90_000.0))
    write(places.states[0] / "c" / "7.0.json", of_cluster("c", decided_at=110_000.0))
    kept, _ = archive.read(7, places, span=(99_000.0, 101_000.0))
    running, _ = archive.read(7, places, span=(105_000.0, None))

    assert [one.path for one in kept.reports] == [mine]
    assert [one.cluster for one in running.reports] == ["c"]


def test_events_of_checks_with_their_nodes(places: Places) -> None:
    line = json.dumps({"event": "check", "stage": "epilog"}) + "\n"
    write(base(places) / "7.node" / "n1" / "sys" / "events.jsonl", line + "{broken\n")
    write(places.spool / "7.node" / "sys" / "events.jsonl", line * 2)
    kept, state = archive.read(7, places, own_node="n9")

    assert [(one.node, one.line) for one in kept.events] == [
        ("n1", 1),
        ("n9", 1),
        ("n9", 2),
    ]
    assert state.detail == "0 start reports, 3 events of checks"


@pytest.mark.parametrize(
    "report", ["", "{", "[]", '{"schema":"x"}', "[" * 100_000, "\x00"]
)
def test_a_broken_report_is_told_and_the_others_are_read(
    places: Places, report: str
) -> None:
    path = write(base(places) / "7.0" / "start.json", report)
    alone, without = archive.read(7, places)
    write(base(places) / "7.1" / "start.json", told())
    kept, with_it = archive.read(7, places)

    assert alone.reports == []
    assert without.outcome is Outcome.UNREACHABLE
    assert str(path) in without.detail
    assert len(kept.reports) == 1
    assert with_it.outcome is Outcome.USED
    assert str(path) in with_it.detail


def test_nothing_of_a_job(places: Places) -> None:
    kept, state = archive.read(7, places)

    assert (kept.reports, kept.events) == ([], [])
    assert state.outcome is Outcome.EMPTY


def test_what_the_user_wrote_is_not_read(places: Places) -> None:
    line = json.dumps({"event": "check"}) + "\n"
    write(base(places) / "7.node" / "n1" / "user" / "events.jsonl", line)
    write(places.spool / "7.0" / "user" / "start.json", told())
    kept, _ = archive.read(7, places)

    assert (kept.reports, kept.events) == ([], [])
