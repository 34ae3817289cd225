"""RDMA ports: one that is not as the others, and silence where nothing is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from check.fakenode import FakeNode, found
from gangstart.check import rdma

if TYPE_CHECKING:
    from pathlib import Path

DOWN = {"state": "1: DOWN", "phys_state": "2: Polling"}


@pytest.fixture(name="node")
def fake(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


def judged(node: FakeNode) -> list[tuple[str, str]]:
    return [(f.verdict, f.reason) for f in rdma.judge(rdma.ports(node.infiniband))]


def test_a_node_without_rdma_says_nothing(node: FakeNode) -> None:
    assert judged(node) == []


def test_ports_that_are_all_active_say_nothing(node: FakeNode) -> None:
    node.port("mlx5_0", 1)
    node.port("mlx5_1", 1)
    assert judged(node) == []


def test_a_port_that_is_down_where_others_are_up_is_warned_of(node: FakeNode) -> None:
    node.port("mlx5_0", 1)
    node.port("mlx5_1", 1, **DOWN)
    assert judged(node) == [
        (
            "warn",
            (
                "RDMA port mlx5_1/1 (InfiniBand) is DOWN, physically Polling, while "
                "mlx5_0/1 is ACTIVE"
            ),
        )
    ]
    event = node.check("node")
    assert (event["verdict"], event["drain"]) == ("warn", False)
    assert found(event, "rdma")[0]["value"] == "DOWN"


def test_where_all_are_down_nobody_knows_that_they_should_be_up(
    node: FakeNode,
) -> None:
    node.port("mlx5_0", 1, **DOWN)
    assert judged(node) == []


def test_a_port_of_another_link_layer_is_no_measure(node: FakeNode) -> None:
    node.port("mlx5_0", 1)
    node.port("mlx5_1", 1, link_layer="Ethernet", **DOWN)
    assert judged(node) == []


def test_a_port_that_somebody_disabled_is_only_noted(node: FakeNode) -> None:
    node.port("mlx5_0", 1)
    node.port("mlx5_1", 1, state="1: DOWN", phys_state="3: Disabled")
    assert [verdict for verdict, _ in judged(node)] == ["ok"]


def test_a_port_that_lost_lanes_is_warned_of(node: FakeNode) -> None:
    node.port("mlx5_0", 1)
    node.port("mlx5_1", 1, rate="100 Gb/sec (1X NDR)")
    assert judged(node) == [
        (
            "warn",
            (
                "RDMA port mlx5_1/1 runs at 100 Gb/sec (1X NDR), others of the same "
                "board at 400 Gb/sec"
            ),
        )
    ]


def test_a_state_that_cannot_be_read_is_unknown(node: FakeNode) -> None:
    node.port("mlx5_0", 1)
    node.port("mlx5_1", 1)
    (node.infiniband / "mlx5_1" / "ports" / "1" / "state").unlink()
    assert judged(node) == [
        ("unknown", "the state of RDMA port mlx5_1/1 cannot be read")
    ]
