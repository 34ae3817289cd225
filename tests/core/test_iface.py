"""Which address of rank 0's node is tried first, and which are never."""

from __future__ import annotations

import pytest
from core.c import ffi, lib, new, text

ETH, IB = ("eth0", "10.0.0.7"), ("ib0", "10.9.0.7")
LOOP, DOCKER = ("lo", "127.0.0.1"), ("docker0", "172.17.0.1")

Address = tuple[str, str]


def rank(
    addresses: list[Address], wanted: str = "", toward: str = "", *down: str
) -> tuple[list[Address], list[str], str]:
    """Candidates in order, why each, and the sentence if there is none."""
    rows = ffi.new("struct gs_iface[]", max(len(addresses), 1))
    for row, (name, address) in zip(rows, addresses, strict=False):
        row.name, row.address = name.encode(), address.encode()
        row.up, row.loopback = name not in down, name == "lo"
    out = ffi.new("struct gs_candidate[]", lib.GS_CANDIDATE_MAX)
    error = new("gs_error")
    count = lib.gs_iface_rank(
        rows, len(addresses), wanted.encode(), toward.encode(), out, error
    )
    assert (count < 0) == bool(text(error.text)), "none, and only none, has a sentence"
    found = [out[i] for i in range(max(count, 0))]
    return (
        [(text(one.interface), text(one.address)) for one in found],
        [text(one.why) for one in found],
        text(error.text),
    )


def test_the_address_slurm_uses_towards_srun_comes_first() -> None:
    order, why, _ = rank([ETH, IB, ("eth1", "10.2.0.7")], toward="10.9.0.7")
    assert order == [IB, ETH, ("eth1", "10.2.0.7")]
    assert why[0] == "carries Slurm's own traffic to srun"
    assert why[1:] == ["another address of the node"] * 2


def test_without_a_known_way_to_srun_it_is_the_kernels_order_ipv4_first() -> None:
    order, _, _ = rank([("eth0", "2001:db8::7"), IB, ETH])
    assert order == [IB, ETH, ("eth0", "2001:db8::7")]


@pytest.mark.parametrize(
    "left_out",
    [
        LOOP,
        ("lo", "::1"),
        DOCKER,
        ("br-0242ac110002", "172.18.0.1"),
        ("virbr0", "192.168.122.1"),
        ("veth12ab", "10.88.0.1"),
        ("cni0", "10.244.0.1"),
        ("flannel.1", "10.244.0.0"),
        ("podman0", "10.88.0.1"),
        ("eth0", "169.254.3.4"),
        ("eth0", "fe80::1"),
    ],
    ids=lambda pair: f"{pair[0]} {pair[1]}",
)
def test_what_is_the_same_on_every_host_or_ends_at_it_is_left_out(
    left_out: Address,
) -> None:
    assert rank([left_out, IB])[0] == [IB]


def test_a_bridge_that_carries_slurms_traffic_is_no_containers_bridge() -> None:
    bridge = ("br-ex", "10.0.0.7")
    order, why, _ = rank([bridge, IB], toward="10.0.0.7")
    assert order == [bridge, IB]
    assert why[0] == "carries Slurm's own traffic to srun"


def test_loopback_is_left_out_even_if_srun_is_on_this_node() -> None:
    assert rank([LOOP, ETH], toward="127.0.0.1")[0] == [ETH]


def test_interfaces_that_are_down_are_left_out() -> None:
    assert rank([ETH, IB], "", "10.0.0.7", "eth0")[0] == [IB]


def test_a_wanted_name_leaves_nothing_else() -> None:
    order, why, _ = rank([ETH, IB, ("ib0", "2001:db8::9")], "ib0", "10.0.0.7")
    assert order == [IB, ("ib0", "2001:db8::9")]
    assert set(why) == {"chosen by master-iface"}


def test_a_wanted_name_is_not_a_prefix() -> None:
    assert rank([ETH, ("ib01", "10.9.0.8")], "ib0")[0] == []


@pytest.mark.parametrize(
    ("cidr", "inside"),
    [
        ("10.9.0.0/16", [IB]),
        ("10.0.0.0/8", [ETH, IB]),
        ("10.9.0.7/32", [IB]),
        ("10.9.0.6/31", [IB]),
        ("10.9.0.6/32", []),
        ("0.0.0.0/0", [ETH, IB]),
        ("2001:db8::/32", [("ib1", "2001:db8:1::7")]),
        ("2001:db8:1::7/128", [("ib1", "2001:db8:1::7")]),
        ("2001:db8:2::/48", []),
        ("::/0", [("ib1", "2001:db8:1::7")]),
        ("10.0.0.0/33", []),
        ("10.0.0.0/-1", []),
        ("10.0.0.0/", []),
        ("10.0.0.0/8x", []),
        ("10.0.0.0/ 8", []),
        ("/8", []),
        ("x/8", []),
        ("1" * 80 + "/8", []),
    ],
)
def test_a_wanted_network_is_matched_bit_by_bit(
    cidr: str, inside: list[Address]
) -> None:
    assert rank([ETH, IB, ("ib1", "2001:db8:1::7")], cidr)[0] == inside


def test_what_is_wanted_may_be_a_bridge_a_loopback_or_link_local() -> None:
    assert rank([DOCKER, ETH], "docker0")[0] == [DOCKER]
    assert rank([LOOP, ETH], "127.0.0.0/8")[0] == [LOOP]
    usb = ("usb0", "169.254.3.4")
    assert rank([usb, ETH], "169.254.0.0/16")[0] == [usb]
    assert rank([usb, ("usb0", "10.3.0.1")], "usb0")[0] == [("usb0", "10.3.0.1"), usb]


def test_ipv6_link_local_cannot_be_used_without_a_scope_and_never_is() -> None:
    assert rank([("eth0", "fe80::1"), ETH], "eth0")[0] == [ETH]


def test_at_most_eight_are_tried() -> None:
    many = [(f"eth{i}", f"10.0.{i}.1") for i in range(20)]
    assert rank(many)[0] == many[: lib.GS_CANDIDATE_MAX]


def test_a_wanted_interface_that_is_not_there_is_told_with_what_there_is() -> None:
    order, _, sentence = rank([LOOP, ETH, IB], "ib7", "", "ib0")
    assert order == []
    assert sentence == (
        "no address for MASTER_ADDR: master-iface=ib7 matches no usable interface "
        "(there is: lo 127.0.0.1, eth0 10.0.0.7, ib0 10.9.0.7 (down))"
    )


def test_a_node_without_network_is_told_too() -> None:
    assert rank([LOOP])[2] == (
        "no address for MASTER_ADDR: no interface that other nodes could reach "
        "(there is: lo 127.0.0.1)"
    )
    assert rank([])[2].endswith("(there is: nothing)")


def test_a_long_list_is_cut_without_breaking_the_sentence() -> None:
    many = [(f"interface-with-a-long-name-{i}", "10.0.0.1") for i in range(60)]
    names = [name for name, _ in many]
    sentence = rank(many, "", "", *names)[2]
    assert sentence.endswith(")")
    assert len(sentence) < lib.GS_ERROR_SIZE


def test_this_hosts_own_list_has_a_loopback() -> None:
    rows = ffi.new("struct gs_iface[]", lib.GS_IFACE_MAX)
    count = lib.gs_iface_list(rows, new("gs_error"))
    own = [(text(rows[i].address), bool(rows[i].loopback)) for i in range(count)]
    assert ("127.0.0.1", True) in own
