"""What the nodes' GPUs mean for the start: gang_health.c and story_health.c."""

from __future__ import annotations

import json

import pytest
from core.c import ffi, lib, new, text
from core.gangs import SECOND, T0, Gang, Story

OK, UNKNOWN, WARN, FAIL = range(lib.GS_VERDICTS)
RECORD, REQUIRE, STRICT = (
    lib.GS_GANG_HEALTH_RECORD,
    lib.GS_GANG_HEALTH_REQUIRE,
    lib.GS_GANG_HEALTH_STRICT,
)
WHY = "GPU 3 (0000:1a:00.0): 2 uncorrectable ECC errors [check ecc_unc]"
EXIT_UNFIT = 69


def gang(mode: int, nodes: int = 3) -> Gang:
    made = Gang(nodes=nodes)
    made.c.health = mode
    made.everybody()
    return made


def found(
    made: Gang, node: int, verdict: int = OK, now: int = T0, **more: object
) -> int:
    """Tell what was found on a node with eight GPUs."""
    counts = [8, 0, 0, 0]
    if verdict:
        counts[OK], counts[verdict] = 7, 1
    record = more.pop("record", b'{"gpus":[]}')
    assert isinstance(record, bytes)
    held = ffi.from_buffer(record)
    fields: dict[str, object] = {
        "node_index": node,
        "verdict": verdict,
        "counts": counts,
        "took_us": 20_000,
        "why": WHY if verdict else "",
        "record": held,
        "record_size": len(record),
    }
    code: int = lib.gs_gang_health(made.c, new("gs_healthmsg", **(fields | more)), now)
    return code


def test_the_start_waits_until_every_node_has_told() -> None:
    made = gang(RECORD)
    assert made.tick() == lib.GS_WAITING
    for node in range(3):
        assert made.tick() == lib.GS_WAITING
        found(made, node)
    assert made.tick() == lib.GS_RELEASED


def test_without_health_nothing_is_waited_for() -> None:
    assert gang(lib.GS_GANG_HEALTH_OFF).tick() == lib.GS_RELEASED


@pytest.mark.parametrize(
    ("mode", "verdict", "outcome"),
    [
        (RECORD, FAIL, lib.GS_RELEASED),
        (REQUIRE, OK, lib.GS_RELEASED),
        (REQUIRE, UNKNOWN, lib.GS_RELEASED),
        (REQUIRE, WARN, lib.GS_RELEASED),
        (REQUIRE, FAIL, lib.GS_REFUSED),
        (STRICT, WARN, lib.GS_RELEASED),
        (STRICT, UNKNOWN, lib.GS_REFUSED),
        (STRICT, FAIL, lib.GS_REFUSED),
    ],
)
def test_what_refuses_the_start(mode: int, verdict: int, outcome: int) -> None:
    made = gang(mode)
    for node in range(3):
        found(made, node, verdict if node == 1 else OK)
    assert made.tick() == outcome
    if outcome == lib.GS_REFUSED:
        assert (made.c.reason, made.c.code) == (lib.GS_REFUSAL_HEALTH, EXIT_UNFIT)


def test_all_bad_nodes_are_named_together() -> None:
    made = gang(REQUIRE)
    found(made, 0, FAIL)
    assert made.tick() == lib.GS_WAITING
    found(made, 2, FAIL, T0 + SECOND)
    assert made.tick(T0 + SECOND) == lib.GS_WAITING
    assert lib.gs_gang_next_us(made.c) == T0 + lib.GS_SETTLE_US
    assert made.tick(T0 + lib.GS_SETTLE_US) == lib.GS_REFUSED
    head, *lines = Story(made).refusal().splitlines()
    assert "2 of 3 nodes are not healthy (health=require)" in head
    assert "(1 node, 2 tasks were ready)" in head
    assert lines[0].split()[:3] == ["n[1,3]", "ranks", "0-1,4-5"]
    assert f"fail: {WHY}" in lines[0]
    assert "gangstart check" in lines[-1]


def test_a_bad_node_refuses_though_others_never_come() -> None:
    made = Gang(nodes=2)
    made.c.health = REQUIRE
    made.hello(0)
    found(made, 0, FAIL)
    assert made.tick(T0 + lib.GS_SETTLE_US) == lib.GS_REFUSED
    assert made.c.code == EXIT_UNFIT


@pytest.mark.parametrize(
    ("mode", "outcome"),
    [
        (RECORD, lib.GS_RELEASED),
        (REQUIRE, lib.GS_RELEASED),
        (STRICT, lib.GS_REFUSED),
    ],
)
def test_what_is_not_known_at_the_end_of_t(mode: int, outcome: int) -> None:
    made = gang(mode)
    found(made, 0)
    found(made, 1)
    assert made.tick(T0 + 59 * SECOND) == lib.GS_WAITING
    assert made.tick(T0 + 60 * SECOND) == outcome
    if outcome == lib.GS_REFUSED:
        assert made.c.code == EXIT_UNFIT
        assert "n3" in made.blamed()
        assert "said nothing about its GPUs in time" in Story(made).refusal()
    else:
        line = Story(made).start()
        assert " · 16 ok, 1 node unknown: n3 said nothing about its GPUs" in line


def test_missing_tasks_are_a_timeout_whatever_the_gpus_say() -> None:
    made = Gang(nodes=2)
    made.c.health = RECORD
    made.hello(0)
    assert made.tick(T0 + 60 * SECOND) == lib.GS_REFUSED
    assert (made.c.reason, made.c.code) == (lib.GS_REFUSAL_TIMEOUT, 75)


def test_two_tasks_on_one_gpu_warn_and_with_require_refuse() -> None:
    binding = "rank 3 (LOCAL_RANK 1) and rank 2 (LOCAL_RANK 0) would both use GPU G"
    for mode, outcome in ((RECORD, lib.GS_RELEASED), (REQUIRE, lib.GS_REFUSED)):
        made = gang(mode, nodes=2)
        found(made, 0)
        found(made, 1, shared_gpu=True, binding=binding)
        assert made.tick() == outcome
        told = Story(made)
        lines = told.start() if outcome == lib.GS_RELEASED else told.refusal()
        assert binding in lines
        assert "n2" in lines


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        ([OK, OK, OK], " · 24 GPUs ok"),
        ([OK, WARN, OK], f" · 23 ok, 1 warn: n2 {WHY}"),
        ([OK, FAIL, WARN], f" · 22 ok, 1 fail, 1 warn: n2 {WHY}"),
    ],
)
def test_the_one_line_sums_up_the_gpus(verdicts: list[int], words: str) -> None:
    made = gang(RECORD)
    for node, verdict in enumerate(verdicts):
        found(made, node, verdict)
    assert made.tick() == lib.GS_RELEASED
    assert words in Story(made).start().splitlines()[0]


def test_nodes_without_gpus_are_not_mentioned() -> None:
    made = gang(RECORD)
    for node in range(3):
        found(made, node, none=True, counts=[0, 0, 0, 0])
    assert made.tick() == lib.GS_RELEASED
    assert "GPU" not in Story(made).start()


@pytest.mark.parametrize(
    ("without", "words"),
    [
        ([2], " · 16 GPUs ok, none on n3 "),
        ([1, 2], " · 8 GPUs ok, none on 2 nodes (n2 first) "),
    ],
)
def test_a_node_without_gpus_beside_others_that_have_some_is_named(
    without: list[int], words: str
) -> None:
    made = gang(RECORD)
    for node in range(3):
        if node in without:
            found(made, node, none=True, counts=[0, 0, 0, 0])
        else:
            found(made, node)
    assert made.tick() == lib.GS_RELEASED
    assert words in Story(made).start().splitlines()[0] + " "


def test_the_report_has_every_node_and_what_the_wait_cost() -> None:
    made = gang(RECORD)
    made.tick()
    found(made, 0)
    found(made, 1, WARN, T0 + SECOND, record=b'{"gpus":[{"index":0}]}')
    made.tick(T0 + SECOND)
    found(made, 2, OK, T0 + 2 * SECOND, record=b'{"gpus":')
    assert made.tick(T0 + 2 * SECOND) == lib.GS_RELEASED
    report = made.report()
    assert report["health"] == {
        "mode": "record",
        "verdict": "warn",
        "nodes_told": 3,
        "gpus": {"ok": 23, "unknown": 0, "warn": 1, "fail": 0},
        "waited_s": 2.0,
        "odd": [],
    }
    node = report["nodes"][1]["health"]
    assert (node["verdict"], node["why"], node["took_s"]) == ("warn", WHY, 0.02)
    assert node["record"] == {"gpus": [{"index": 0}]}
    assert report["nodes"][2]["health"]["record"] is None, "what is no JSON is not kept"
    json.dumps(report)


def test_a_node_that_is_not_of_the_step_is_refused_and_the_first_word_counts() -> None:
    made = gang(REQUIRE)
    assert found(made, 3) < 0
    assert found(made, 0) == 0
    assert found(made, 0, FAIL) == 0
    assert made.c.nodes[0].health.verdict == OK
    assert made.c.health_count == 1


@pytest.mark.parametrize("record", [b"", b"{", b"[]", b'{"a":"\n"}', b"{}x"])
def test_a_frame_whose_record_is_no_object_is_refused(record: bytes) -> None:
    held = ffi.from_buffer(record) if record else ffi.new("uint8_t[1]")
    msg = new("gs_healthmsg", record=held, record_size=len(record))
    buffer, error = new("gs_buffer"), new("gs_error")
    lib.gs_healthmsg_encode(buffer, msg)
    into = new("gs_healthmsg")
    assert lib.gs_healthmsg_decode(buffer.data, buffer.size, into, error) < 0
    assert text(error.text)
    lib.gs_wire_free(buffer)


def sample(name: str, driver: str = "570", power: int = 700_000) -> bytes:
    """Give the record of two GPUs."""
    gpus = [
        {
            "index": i,
            "code": "NVML_SUCCESS",
            "uuid": f"GPU-{i}",
            "pci": f"0000:{i}a:00.0",
            "name": name,
            "vbios": "96.00",
            "readings": {"power_limit": power},
        }
        for i in range(2)
    ]
    return json.dumps({"gpus": gpus, "node": {"driver": driver}}).encode()


def compared(made: Gang) -> tuple[Story, list[str]]:
    policy, odd = new("gs_policy"), new("gs_gpuverdict")
    lib.gs_policy_init(policy)
    assert lib.gs_gangodd_compare(made.c, policy, odd) == 0
    reasons = [text(odd.findings[i].reason) for i in range(odd.count)]
    return Story(made, odd=ffi.gc(odd, lib.gs_gpuverdict_free)), reasons


def test_gpus_that_are_not_like_the_others_are_named() -> None:
    made = gang(RECORD, nodes=5)
    for node in range(4):
        found(made, node, alike=1, record=sample("NVIDIA H100"))
    found(made, 4, alike=2, record=sample("NVIDIA H100", power=500_000))
    made.tick()
    told, reasons = compared(made)
    assert len(reasons) == 2, "one for each GPU of the odd node"
    assert all("n5" in reason for reason in reasons)
    assert "power limit 500 W while 8 of 10 GPUs have 700 W" in reasons[0]
    lines = told.start().splitlines()
    assert lines[1] == f"gang-start: warning: {reasons[0]}"
    assert told.report()["health"]["odd"] == reasons


def test_many_nodes_of_another_kind_are_one_finding() -> None:
    made = gang(RECORD, nodes=10)
    for node in range(10):
        odd = node in (3, 4, 5)
        record = sample("NVIDIA H100", driver="550" if odd else "570")
        found(made, node, alike=int(odd), record=record)
    made.tick()
    _, reasons = compared(made)
    assert len(reasons) == 1
    assert "n4 and 2 more nodes" in reasons[0]
    assert "7 of 10 nodes" in reasons[0]


def test_nodes_alike_have_no_findings() -> None:
    made = gang(RECORD)
    for node in range(3):
        found(made, node, alike=7, record=sample("NVIDIA H100"))
    made.tick()
    told, reasons = compared(made)
    assert reasons == []
    assert len(told.start().splitlines()) == 1


def with_a_late_node() -> Gang:
    """All there, but the GPUs of the node that came 40 s late are not known."""
    made = Gang(nodes=2)
    made.c.health = REQUIRE
    made.hello(0)
    made.hello(1, T0 + 40 * SECOND)
    for rank in range(4):
        made.arrive(rank, T0 + 41 * SECOND)
    found(made, 0, now=T0 + SECOND)
    return made


def test_a_node_that_came_late_does_not_escape_what_is_required() -> None:
    made = with_a_late_node()
    assert made.tick(T0 + 60 * SECOND) == lib.GS_WAITING
    assert lib.gs_gang_next_us(made.c) == T0 + 100 * SECOND
    found(made, 1, FAIL, now=T0 + 70 * SECOND)
    assert made.tick(T0 + 70 * SECOND) == lib.GS_REFUSED
    assert made.c.code == EXIT_UNFIT


def test_a_late_node_that_never_tells_ends_the_wait() -> None:
    made = with_a_late_node()
    assert made.tick(T0 + 60 * SECOND) == lib.GS_WAITING
    assert made.tick(T0 + 100 * SECOND) == lib.GS_RELEASED


@pytest.mark.parametrize(
    "record",
    [
        b"{foo}",
        b"{[}}",
        b'{"a":nonsense,,,:::}',
        b'{"a":"\xff\xfe"}',
        b'{"a":01x}',
        b'{"a":"\\q"}',
        b'{"a" 1}',
        b'{"a":1,}',
        b'{"a":[1 2]}',
        b'{"a":' + b"[" * 20 + b"]" * 20 + b"}",
    ],
)
def test_what_only_looks_like_json_is_not_kept(record: bytes) -> None:
    made = gang(RECORD)
    assert found(made, 0, record=record) == 0
    assert made.c.nodes[0].health.record == ffi.NULL


@pytest.mark.parametrize(
    "record",
    [
        b"{}",
        b'{"a":-1.5e+3,"b":[true,false,null,{}],"c":"\\u00e4\\n\xc3\xa4"}',
        b'{ "a" : [ ] , "b" : { "c" : "d" } }',
    ],
)
def test_json_of_any_shape_is_kept(record: bytes) -> None:
    made = gang(RECORD)
    found(made, 0, record=record)
    assert text(made.c.nodes[0].health.record).encode() == record
