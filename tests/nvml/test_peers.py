"""Margins, peers and links to the CPU: where one answer of NVML is not enough."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from core.c import lib, taken, text
from nvml.fakenvml import healthy
from nvml.readings import gpus_of, sample
from nvml.test_probe import Caller
from nvml.test_probeline import Reader

if TYPE_CHECKING:
    from pathlib import Path

    from nvml.conftest import NodeMaker
    from nvml.fakenvml import Node

NOT_ASKED = "not asked"
NOT_SUPPORTED = "NVML_ERROR_NOT_SUPPORTED"
NO_CALL = "NVML_ERROR_FUNCTION_NOT_FOUND"


def read(node: Node, reading: str, **changed: object) -> list[int | str]:
    """One reading of all GPUs; the last one answers differently."""
    node.gpus[-1] |= changed
    node.write()
    return [gpu.readings[reading] for gpu in gpus_of(sample(node))]


@pytest.mark.parametrize(
    ("changed", "value"),
    [
        ({"margin": 1}, 1),
        ({"margin": 0}, 87 - 41),
        ({"margin": -3}, 87 - 41),
        ({"margin": -3, "temperature.0": 87}, 0),
        ({"margin": -3, "threshold.1": 4294967295}, 0),
        ({"nvmlDeviceGetMarginTemperature": 25}, 87 - 41),
        ({"nvmlDeviceGetMarginTemperature": 3}, 87 - 41),
        (
            {"nvmlDeviceGetMarginTemperature": 3, "nvmlDeviceGetTemperatureV": 3},
            NOT_SUPPORTED,
        ),
        (
            {"nvmlDeviceGetMarginTemperature": 4, "threshold.1": 87},
            "NVML_ERROR_NO_PERMISSION",
        ),
    ],
)
def test_a_margin_that_cannot_be_is_seen_from_the_threshold(
    node: Node, changed: dict[str, object], value: int | str
) -> None:
    assert read(node, "temperature_margin", **changed) == [44, value]


def test_a_driver_without_margins_is_seen_from_the_threshold(
    make_node: NodeMaker,
) -> None:
    node = make_node("nvmlDeviceGetMarginTemperature")

    assert read(node, "temperature_margin") == [46, 46]


@pytest.mark.parametrize(
    ("changed", "values"),
    [
        ({}, [1, 1]),
        ({"p2p.2.0": 0}, [1, 0]),
        # Nothing to reach it over, and nobody else's fault.
        ({f"nvlink.{i}": 0 for i in range(18)}, [NOT_ASKED, NOT_ASKED]),
        ({"mig": 1}, [NOT_ASKED, NOT_ASKED]),
        # From GPU to GPU: which ones are joined is the board's choice.
        ({f"remote.{i}": 0 for i in range(18)}, [1, NOT_SUPPORTED]),
        ({"vanished": 15}, [NOT_ASKED, NOT_ASKED]),
        ({"nvmlDeviceGetP2PStatus": 15}, [1, "NVML_ERROR_GPU_IS_LOST"]),
    ],
)
def test_peers_are_asked_where_each_has_to_reach_each(
    node: Node, changed: dict[str, object], values: list[int | str]
) -> None:
    assert read(node, "p2p_broken", **changed) == values


@pytest.mark.parametrize(
    "gone", ["nvmlDeviceGetP2PStatus", "nvmlDeviceGetNvLinkRemoteDeviceType"]
)
def test_a_driver_that_cannot_tell_about_peers_has_no_broken_ones(
    make_node: NodeMaker, gone: str
) -> None:
    assert read(make_node(gone), "p2p_broken") == [NO_CALL, NO_CALL]


def test_a_gpu_alone_has_no_peers(node: Node) -> None:
    node.gpus = [healthy(0x1A)]

    assert read(node, "p2p_broken") == [NOT_ASKED]


@pytest.mark.parametrize(
    ("changed", "value"),
    [
        ({"field.170": "1:0"}, NOT_SUPPORTED),
        ({"field.170": "code:3"}, NOT_SUPPORTED),
        ({"field.170": "code:15"}, "NVML_ERROR_GPU_IS_LOST"),
        ({"field.170": "3:2"}, 0),
        ({"field.170": "1:4000000000"}, NOT_SUPPORTED),  # link 5 has no status
        ({"field.171.4": "code:4"}, "NVML_ERROR_NO_PERMISSION"),
        ({"field.171.4": "0:1"}, 2),
    ],
)
def test_links_to_the_cpu_are_counted_by_their_type(
    node: Node, changed: dict[str, object], value: int | str
) -> None:
    assert read(node, "c2c_down", **changed) == [3, value]


def test_a_probe_that_hangs_among_peers_has_read_every_gpu(
    program: Path, node: Node
) -> None:
    node.gpus[1]["hang"] = "nvmlDeviceGetP2PStatus"
    node.write()
    caller = Caller(program, node, gpu_us=700_000)
    begun = time.monotonic()

    assert caller.finish() == -110  # ETIMEDOUT
    assert time.monotonic() - begun < 10
    assert "nvmlDeviceGetP2PStatus on GPU 0000:db:00.0" in caller.message
    gpus = gpus_of(caller.run.gpus)
    assert [gpu.code for gpu in gpus] == [0, 0]
    assert [gpu.readings["c2c_down"] for gpu in gpus] == [3, 3]
    assert text(caller.run.gpus.hung_gpu) == "0000:db:00.0"


def test_peers_come_back_on_the_nodes_line(node: Node) -> None:
    node.gpus[1]["nvmlDeviceGetP2PStatus"] = 77
    node.write()
    gpus, reader = sample(node), Reader()
    line = taken(lib.gs_gpus_line(gpus, True))  # noqa: FBT003 (C has no keywords)

    assert '"p2p_broken":[1,"NVML_ERROR_77"]' in line
    assert reader.read(line) == -71, "a list of more GPUs than there were"
    for _ in range(2):
        reader.read('{"gpu":{"code":"NVML_SUCCESS"}}')
    assert reader.read(line) == lib.GS_PROBE_LINE_COMPLETE
    assert [g.readings["p2p_broken"] for g in gpus_of(reader.gpus)] == [
        1,
        "NVML_ERROR_77",
    ]
