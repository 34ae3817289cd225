"""Records of checks as typed events: what counts, whose it is, what is no record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cases.triagecase import triage
from gangstart.triage.model import Place
from gangstart.triage.source import checks
from gangstart.triage.source.archive import CheckEvent
from repo import ROOT

if TYPE_CHECKING:
    from gangstart.triage.model import Event

PLACE = Place("n1/sys/events.jsonl", 3)
CORPUS = ROOT / "tests" / "corpus"


def corpus(name: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((CORPUS / f"{name}.json").read_text())["input"]
    return told


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


def test_who_held_a_gpu_is_named_with_the_job_that_ended() -> None:
    told = corpus("c-leftover-of-named-job")["checks"]["gx11"][0]
    events, (use,) = checks.record("gx11", told, PLACE)
    assert kinds(events) == ["check_left"]
    assert "of job 70311" in events[0].text
    assert (use.gpu, use.pids, use.whose) == (
        1,
        {771: 41072.0},
        {771: "python3 of job 70311"},
    )
    assert str(use.place) == "n1/sys/events.jsonl:3"


def test_who_held_a_gpu_before_an_earlier_run_is_of_no_matter() -> None:
    told = corpus("c-leftover-of-named-job")["checks"]["gx11"][0]
    kept = [CheckEvent(Path("events.jsonl"), 1, "gx11", told)]
    assert checks.events(kept, told["time"] + 60)[1] == []
    assert len(checks.events(kept, told["time"] - 1)[1]) == 1
    assert len(checks.events(kept)[1]) == 1


def test_a_change_names_the_gpu_by_its_index() -> None:
    told = corpus("c-rows-lost-in-a-wait")["checks"]["gx12"][1]
    events, uses = checks.record("", told, PLACE)
    assert uses == []
    assert kinds(events) == ["check_change", "check_change", "check_drain"]
    assert {e.node for e in events} == {"gx12"}
    assert events[0].fields["index"] == "2"


def test_cleanup_says_what_it_did() -> None:
    told = {
        "event": "cleanup",
        "time": 5.0,
        "stage": "epilog",
        "action": "SIGKILL",
        "processes": [{"pid": 71, "uid": 1, "proof": "cgroup"}],
    }
    events, _ = checks.record("n1", told, PLACE)
    assert [e.text for e in events] == ["SIGKILL to pid 71"]


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"event": "check"},
        {"event": "check", "stage": "prolog", "gpu": 3, "leftovers": []},
        {"event": "check", "stage": 7, "time": True, "gpu": {"event": {"gpus": [{}]}}},
        {
            "event": "check",
            "stage": "prolog",
            "gpu": {
                "event": {
                    "gpus": [{"index": "x", "processes": [{"pid": None}]}],
                    "findings": [{"kind": "hit", "verdict": "fail", "gpu": []}],
                }
            },
            "leftovers": {"processes": [{"pid": "1", "job": {}, "ports": 3}]},
            "differences": {"compared": 1, "found": [{"verdict": "fail"}]},
        },
        {"event": "cleanup", "processes": {"pid": 1}, "files": 3},
    ],
)
def test_what_is_no_record_breaks_nothing(told: dict[str, Any]) -> None:
    events, uses = checks.record("n1", told, PLACE)
    assert uses == []
    assert all(isinstance(event.text, str) for event in events)


def test_text_of_a_record_stays_on_one_line() -> None:
    told = {
        "event": "check",
        "drain": True,
        "reason": "GPU 1\x1b[31m\nnext: rm -rf",
    }
    (event,), _ = checks.record("n1", told, PLACE)
    assert "\n" not in event.text
    assert "\x1b" not in event.text


def test_a_port_that_a_leftover_holds_names_it() -> None:
    case = corpus("port-in-use-old-torch")
    node = case["gang"]["rank_to_node"]["0"] if "gang" in case else "cn01"
    before = triage(case)["text"]
    port = before.split("port ")[1].split(" ")[0]
    left = {"pid": 88, "job": 70007, "program": "ray", "ports": [int(port)]}
    told = {
        "event": "check",
        "stage": "prolog",
        "leftovers": {"processes": [left]},
    }
    said = triage({**case, "checks": {node: [told]}})["text"]
    assert "pid 88 (ray) of job 70007" in said
