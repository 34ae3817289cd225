"""Which series come into the answer: the suspect's, few, and with their peaks."""

from __future__ import annotations

import json

import jsonschema
import pytest
from gangstart.triage.answer import answer
from gangstart.triage.model import Confidence, Evidence, Place, Sample, Series, Verdict
from gangstart.triage.suspect import POINTS_MOST, SERIES_MOST, pictured, thinned
from repo import ROOT

SCHEMA = json.loads((ROOT / "docs" / "triage.schema.json").read_text())


def verdict(node: str | None = "n1", gpu: str | None = None, *evidence: str) -> Verdict:
    made = Verdict("GPU_HW", "GPU_HW", Confidence.LIKELY, node, gpu=gpu)
    made.evidence = [Evidence("x", Place("log", 1), node=one) for one in evidence]
    return made


def series(
    quantity: str, node: str, device: str = "", *values: float, count: int = 3
) -> Series:
    told = values or (float(len(node)),) * count
    samples = tuple(Sample(1000.0 + 15 * n, value) for n, value in enumerate(told))
    return Series(quantity, node, device, samples, f"{quantity}{{}}")


def names(found: list[Series], about: Verdict) -> list[tuple[str, str, str]]:
    shown = [one.series for one in pictured(found, about)]
    return [(one.quantity, one.node, one.device) for one in shown]


def test_of_a_named_gpu_only_its_own_series_are_shown() -> None:
    found = [series("gpu_temp_c", n, str(g)) for n in ("n1", "n2") for g in range(4)]

    assert names(found, verdict(gpu="2")) == [("gpu_temp_c", "n1", "2")]
    assert pictured(found, verdict(gpu="2"))[0].others == 7


def test_without_a_gpu_those_of_the_node_are_shown_in_order() -> None:
    found = [series("gpu_temp_c", n, g) for n in ("n2", "n1") for g in ("10", "9", "0")]

    assert [device for _, _, device in names(found, verdict())] == ["0", "9", "10"]


def test_without_a_node_those_of_the_evidence_count_and_else_none() -> None:
    found = [series("gpu_util", n, "0") for n in ("n1", "n2", "n3", "n4")]

    nodes = names(found, verdict(None, None, "n3", "n1", "n3", "n2"))
    assert [node for _, node, _ in nodes] == ["n1", "n3"]
    assert pictured(found, verdict(None)) == []


def test_a_counter_or_code_that_did_not_change_says_nothing() -> None:
    found = [
        series("xid", "n1", "0", 79, 79, 79),
        series("xid", "n1", "1", 0, 0, 79),
        series("ib_link_downed", "n1", "mlx5_0/1", 5, 5, 5),
        series("ib_retransmits", "n1", "mlx5_0/1", 5, 5, 9),
        series("load1", "n1", "", 1, 2, 3),
    ]

    assert names(found, verdict()) == [
        ("xid", "n1", "1"),
        ("ib_retransmits", "n1", "mlx5_0/1"),
    ]


def test_the_median_is_of_all_others_at_each_moment() -> None:
    found = [
        series("gpu_power_w", "n1", "0", 100, 90, 80),
        series("gpu_power_w", "n2", "0", 700, 690, 680),
        series("gpu_power_w", "n3", "0", 600, 610),
        series("gpu_power_w", "n4", "0", 650, 650, 700),
    ]

    line = pictured(found, verdict())[0].median
    assert [one.value for one in line] == [650, 650, 690]


def test_of_many_devices_the_unusual_ones_are_shown() -> None:
    found = [series("gpu_util", "n1", str(g), 50 + g % 2) for g in range(16)]
    found[11] = series("gpu_util", "n1", "11", 3)
    found += [series("gpu_util", "n2", "0", 50)]

    devices = [device for _, _, device in names(found, verdict())]
    assert len(devices) == 8
    assert "11" in devices


def test_long_series_keep_their_peaks() -> None:
    values = [50.0] * 10_000
    values[7001], values[7003] = 99.0, 1.0
    made = thinned([Sample(float(n), value) for n, value in enumerate(values)])

    assert len(made) <= POINTS_MOST
    assert {(7001.0, 99.0), (7003.0, 1.0)} <= {(one.time, one.value) for one in made}
    assert [one.time for one in made] == sorted(one.time for one in made)


@pytest.mark.parametrize("count", [1, POINTS_MOST, POINTS_MOST + 1, 5000])
def test_the_answer_is_bounded_and_follows_its_schema(count: int) -> None:
    quantities = (
        "gpu_util",
        "gpu_power_w",
        "gpu_temp_c",
        "sm_clock_mhz",
        "fb_used_mib",
    )
    found = [
        series(quantity, "n1", str(g), *[float(n * g) for n in range(count)])
        for quantity in (*quantities, "mem_available_bytes", "ecc_corrected")
        for g in range(1, 12)
    ]
    about = verdict()
    about.series = pictured(found, about)
    made = answer(about)

    jsonschema.validate(made, SCHEMA)
    assert len(made["series"]) == SERIES_MOST
    assert max(len(one["samples"]) for one in made["series"]) <= POINTS_MOST
