"""start.json: valid JSON for any text, and exactly what the schema describes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from core.c import NOBODY, lib
from core.gangs import SECOND, T0, Gang, Story, offer
from hypothesis import given
from hypothesis import strategies as st
from repo import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text())
CHECK = jsonschema.Draft202012Validator(SCHEMA)


def valid(story: Story, node: int = NOBODY) -> dict[str, Any]:
    """The report, which must be as the schema says."""
    report = story.report(node)
    CHECK.validate(report)
    return report


def released() -> Story:
    gang = Gang(nodes=3, wiring=True)
    gang.everybody(T0 + SECOND)
    for node in range(3):
        gang.reach(node)
    gang.c.nodes[1].clock_offset_us, gang.c.nodes[1].hello_rtt_us = -1_500_007, 80
    gang.c.tasks[5].visible = 1
    gang.tick(T0 + 2 * SECOND)
    return Story(gang, master=offer("10.0.0.1", "10.1.0.1"), candidate=1)


def timeout() -> Story:
    gang = Gang(nodes=3)
    gang.hello(0)
    gang.arrive(0)
    gang.tick(T0 + 60 * SECOND)
    return Story(gang)


def nobody_came() -> Story:
    gang = Gang(known=False)
    lib.gs_gang_end(gang.c, False, T0)  # noqa: FBT003 - a C argument
    return Story(gang)


def cancelled() -> Story:
    gang = Gang()
    gang.hello(1)
    lib.gs_gang_end(gang.c, True, T0 + 1)  # noqa: FBT003 - a C argument
    return Story(gang)


def task_ended() -> Story:
    gang = Gang()
    gang.everybody()
    gang.end(3, lib.GS_FAIL_SIGNAL, 11, T0 + 5)
    gang.end(2, lib.GS_FAIL_EXIT, 1, T0 + 6)
    return Story(gang)


def misfit() -> Story:
    gang = Gang()
    gang.hello(0, node_count=5)
    return Story(gang)


def lost() -> Story:
    gang = Gang()
    gang.everybody()
    lib.gs_gang_lost(gang.c, 0, b"reset", T0)
    return Story(gang)


def configuration() -> Story:
    gang = Gang()
    gang.hello(0)
    gang.fail_node(0, lib.GS_FAIL_CONFIG, "no")
    return Story(gang)


def launch() -> Story:
    gang = Gang()
    gang.hello(0)
    gang.fail_node(0, lib.GS_FAIL_LAUNCH, "no")
    return Story(gang)


def unreachable() -> Story:
    gang = Gang(wiring=True)
    gang.everybody()
    gang.reach(0)
    gang.reach(1, lib.GS_REACH_CONNECT, 113)
    lib.gs_gang_unreachable(gang.c, T0)
    return Story(gang, master=offer("10.0.0.1", user_address=True, user_port=True))


def contradiction() -> Story:
    gang = Gang()
    gang.everybody()
    gang.c.tasks[0].claim, gang.c.tasks[1].claim = 1, 2
    gang.tick()
    return Story(gang)


def undecided() -> Story:
    return Story(Gang())


STORIES: dict[Callable[[], Story], tuple[str, str]] = {
    released: ("released", "none"),
    timeout: ("refused", "timeout"),
    nobody_came: ("refused", "ended_by_slurm"),
    cancelled: ("cancelled", "none"),
    task_ended: ("refused", "task_ended"),
    misfit: ("refused", "mismatch"),
    lost: ("refused", "node_lost"),
    configuration: ("refused", "configuration"),
    launch: ("refused", "launch_failed"),
    unreachable: ("refused", "master_unreachable"),
    contradiction: ("refused", "mismatch"),
    undecided: ("waiting", "none"),
}


def test_the_schema_itself_is_a_schema_and_describes_every_field() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)

    def walk(part: object, path: str) -> list[str]:
        if isinstance(part, list):
            return [p for one in part for p in walk(one, path)]
        if not isinstance(part, dict):
            return []
        bad = []
        if (
            part.get("type") == "object"
            and part.get("additionalProperties") is not False
        ):
            bad.append(f"{path}: takes unknown fields")
        for name, field in part.get("properties", {}).items():
            if "description" not in field:
                bad.append(f"{path}.{name}: says nothing")
        return bad + [
            p for key, one in part.items() for p in walk(one, f"{path}.{key}")
        ]

    assert walk(SCHEMA, "") == []


def test_the_schemas_version_is_the_cores() -> None:
    assert SCHEMA["properties"]["version"]["const"] == lib.GS_REPORT_VERSION


@pytest.mark.parametrize("make", STORIES, ids=lambda make: make.__name__)
def test_every_kind_of_start_is_as_the_schema_says(make: Callable[[], Story]) -> None:
    story = make()
    report = valid(story)
    assert (report["outcome"], report["reason"]) == STORIES[make]
    assert report["complete"] is True
    assert len(report["nodes"]) == report["expected"]["nodes"]
    for node in range(story.gang.nodes):
        own = valid(story, node)
        assert own["complete"] is False
        assert own["nodes"] == [report["nodes"][node]]
        same = {"complete", "nodes"}
        assert {k: v for k, v in own.items() if k not in same} == {
            k: v for k, v in report.items() if k not in same
        }


def test_the_report_says_what_srun_said() -> None:
    story = timeout()
    assert valid(story)["message"] == story.refusal().splitlines()
    story = released()
    assert valid(story)["message"] == story.start().splitlines()
    assert valid(cancelled())["message"] == []


def test_the_good_start_in_numbers() -> None:
    report = valid(released())
    assert report["elapsed_s"] == 2
    assert report["first_connected_s"] == 1
    assert report["decided_at"] == 1_700_000_000.123456
    assert report["timeout_s"] == 120
    assert report["last"] == {"rank": 0, "node": "n1"}
    assert report["skew_s"] == 0
    assert [one["address"] for one in report["master"]["tried"]] == [
        "10.0.0.1",
        "10.1.0.1",
    ]
    assert report["nodes"][1]["clock_offset_s"] == -1.500007
    assert report["nodes"][2]["tasks"][1] == {
        "rank": 5,
        "arrived_s": 1,
        "gpus_visible": 1,
    }


def test_how_tasks_ended_is_kept_for_each() -> None:
    tasks = valid(task_ended())["nodes"][1]["tasks"]
    assert [task["ended"] for task in tasks] == [
        "exit code 1",
        "signal 11 (Segmentation fault)",
    ]


@pytest.mark.parametrize(
    ("offset", "number"), [(0, 0), (-1, -1e-6), (999_999, 0.999999), (-(10**13), -1e7)]
)
def test_a_clock_that_is_ahead_or_behind_is_exact(offset: int, number: float) -> None:
    story = released()
    story.gang.c.nodes[1].clock_offset_us = offset
    assert valid(story)["nodes"][1]["clock_offset_s"] == number


def test_uneven_nodes_are_a_warning() -> None:
    gang = Gang(nodes=2, per_node=2, known=False)
    gang.expect(0, [0, 1, 2])
    gang.expect(1, [3])
    assert valid(Story(gang))["warnings"] == ["UNEVEN_TASKS"]


HOSTILE = [
    b'"quotes" and \\backslashes\\ \\u0000 \\',
    b"\xff\xfe\x80",
    b"\xc3",  # the beginning of a character
    b"\xed\xa0\x80",  # a surrogate
    b"\xc0\xaf",  # too long a form
    b"\xf5\x80\x80\x80",  # beyond Unicode
    "ä€😀".encode(),
    b"\x01\x1b[31m\x7f\x9b",
    b"%s%n%1000d",
    b"</script>",
    b"x" * 200,
]


@pytest.mark.parametrize("text", HOSTILE, ids=repr)
def test_hostile_text_leaves_the_report_valid(text: bytes) -> None:
    gang = Gang(wiring=True)
    gang.c.nodes[0].name = text
    gang.everybody()
    gang.c.nodes[1].address = text[:60]
    gang.c.nodes[1].text = text
    lib.gs_gang_lost(gang.c, 1, text, T0)
    master = offer("10.0.0.1", export_as=text)
    master.candidates[0].interface = text[:60]
    story = Story(gang, master=master, master_addr=text, cluster=text, version=text)
    report = valid(story)
    got = report["step"]["cluster"]
    if text.isascii():
        assert got == text.decode()
    assert "\x1b" not in story.raw_report(), "a terminal would obey it"


@given(st.binary(max_size=80).filter(lambda raw: b"\0" not in raw))
def test_any_bytes_make_a_valid_report_and_text_comes_back(raw: bytes) -> None:
    gang = Gang(nodes=1)
    raw_report = Story(gang, cluster=raw).raw_report()
    report = json.loads(raw_report.encode(errors="strict").decode("utf-8"))
    CHECK.validate(report)
    try:
        wanted = raw.decode()
    except UnicodeDecodeError:
        return
    assert report["step"]["cluster"] == wanted
