"""GPUs of one job beside each other: the odd one is named."""

from __future__ import annotations

import pytest
from core.gpunode import HEALTHY, NOT_SUPPORTED, checks, judge, node, texts
from gangstart import gpu
from gangstart.gpu import NvmlError, Sample
from gangstart.gpupolicy import Policy


def sample(driver: str = "550.54", gpus: int = 2, **changed: str) -> Sample:
    made = Sample()
    for i in range(gpus):
        mine: dict[str, str] = changed if i == gpus - 1 else {}
        made.add(texts(i, **mine), HEALTHY)
    made.c.driver = driver.encode()
    return made


def job(odd: Sample) -> dict[str, Sample]:
    return {"n1": sample(), "n2": odd, "n3": sample()}


def test_equal_nodes_have_no_odd_one() -> None:
    assert gpu.compare(job(sample())).findings == ()


@pytest.mark.parametrize(
    ("check", "changed"),
    [
        ("odd_model", {"name": "NVIDIA H200"}),
        ("odd_vbios", {"vbios": "96.00.74"}),
    ],
)
def test_the_odd_gpu_is_named(check: str, changed: dict[str, str]) -> None:
    (found,) = gpu.compare(job(sample("550.54", 2, **changed))).findings
    assert (found.check, found.node, found.uuid) == (check, "n2", "GPU-1")
    assert found.reason.startswith("n2 GPU 1 (0000:02:00.0): ")
    assert "5 of 6 GPUs have" in found.reason


def test_another_driver_is_said_once_per_node() -> None:
    (found,) = gpu.compare(job(sample("535.183"))).findings
    assert (found.check, found.node, found.verdict) == ("odd_driver", "n2", "warn")
    assert "535.183 while 2 of 3 nodes have 550.54" in found.reason


@pytest.mark.parametrize(
    ("check", "reading", "value"),
    [
        ("odd_power_limit", "power_limit", 650_000),
        ("odd_memory", "memory_total", 40 << 30),
        ("odd_pcie", "pcie_width", 8),
        ("odd_nvlink", "nvlink_active", 17),
    ],
)
def test_an_odd_reading_is_found_and_a_missing_one_is_not_odd(
    check: str, reading: str, value: int
) -> None:
    def compared(reads: int | NvmlError) -> set[str]:
        nodes = {"n1": node(4), "n2": node(4, spoiled={reading: reads})}
        return {f.check for f in gpu.compare(nodes).findings}

    assert compared(value) == {check}
    assert compared(NOT_SUPPORTED) == set()
    assert compared(NvmlError(999)) == set()


def test_two_halves_have_no_odd_one_but_differ() -> None:
    nodes = {"n1": sample("550.54"), "n2": sample("535.183")}
    (found,) = gpu.compare(nodes).findings
    assert (found.check, found.node) == ("odd_driver", "")
    assert "550.54 on 1 of 2 nodes" in found.reason


def test_different_models_may_have_different_vbios_and_limits() -> None:
    other = sample(gpus=2)
    nodes = {"n1": other, "n2": sample(name="NVIDIA H200", vbios="97.01", gpus=1)}
    assert {f.check for f in gpu.compare(nodes).findings} == {"odd_model"}


def test_two_fabrics_are_noted_and_can_be_made_to_fail() -> None:
    nodes = job(sample(gpus=1, fabric_cluster="b"))
    nodes["n1"] = sample(gpus=1, fabric_cluster="a")
    nodes["n3"] = sample(gpus=1, fabric_cluster="a")
    assert gpu.compare(nodes).node == "ok"
    strict = Policy.parse("odd_fabric = fail\n")
    assert gpu.compare(nodes, strict).node == "fail"


def test_one_node_is_compared_in_itself() -> None:
    mixed = node(3, power_limit=650_000)
    assert "odd_power_limit" in checks(judge(mixed, expected=3))
    own = judge(mixed, expected=3, step_gpus=["GPU-0", "GPU-1"])
    assert "odd_power_limit" not in checks(own), "the odd one is of another job"


def test_no_nodes_are_no_problem() -> None:
    assert gpu.compare({}).node == "ok"
