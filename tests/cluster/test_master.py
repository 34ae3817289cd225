"""MASTER_ADDR and MASTER_PORT: rank 0's node, reachable, free, or the user's own."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cluster.gang import BLAME, Gang, Running, refusal, until
from gangstart.cluster import process

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.cluster

PYTHON = "/usr/bin/python3"
MEET = Path(__file__).with_name("meet.py")
PLACE = ("/bin/sh", "-c", "echo $RANK $MASTER_ADDR $MASTER_PORT")
TWO_EACH = ("-N4", "--ntasks-per-node=2")
LISTEN = """\
import pathlib, socket, sys, time
s = socket.socket()
s.bind(("", int(sys.argv[1])))
s.listen()
pathlib.Path(sys.argv[2]).touch()
time.sleep(120)
"""


@pytest.fixture
def meet(gang: Gang) -> list[str]:
    """Return the command of tasks that meet, in a folder everybody may read."""
    if not Path(PYTHON).exists():
        pytest.skip(f"needs a Python every user may run: {PYTHON}")
    copy = gang.folder / "meet.py"
    copy.write_text(MEET.read_text())
    return [PYTHON, str(copy)]


@pytest.fixture
def busy(gang: Gang) -> Iterator[Running]:
    """Hold port 29500 on n1 with somebody else's program."""
    ready = gang.folder / "busy"
    popen = gang.cluster.popen(
        [PYTHON, "-c", LISTEN, "29500", str(ready)],
        node="n1",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    running = Running(popen)
    until(ready.exists, "the port to be taken")
    yield running
    popen.kill()
    running.wait()


def test_rank_0_binds_the_port_at_once_and_all_others_reach_it(
    gang: Gang, meet: list[str]
) -> None:
    ran = gang.srun(*TWO_EACH, "-m", "cyclic", "--gang-start=20", *meet)
    assert ran.code == 0, ran.err
    assert ran.rows[0] == ["0", "heard", *map(str, range(1, 8))]
    assert all(row[1:3] == ["met", gang.address("n1")] for row in ran.rows[1:])


def test_an_ipv4_only_rank_0_on_the_last_node_is_met_there(
    gang: Gang, meet: list[str]
) -> None:
    hosts = gang.folder / "hosts"
    hosts.write_text("n4\nn1\nn2\nn3\nn4\n")
    ran = gang.srun(
        *("-n5", "-m", "arbitrary", "--gang-start=20"),
        *meet,
        env={"SLURM_HOSTFILE": str(hosts)},
    )
    assert ran.code == 0, ran.err
    assert ran.rows[0] == ["0", "heard", "1", "2", "3", "4"]
    assert all(row[2] == gang.address("n4") for row in ran.rows[1:])


def test_the_port_lies_where_no_outgoing_connection_can_take_it(gang: Gang) -> None:
    low, high = map(
        int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    )
    step = "srun -Q -N2 -n2 --gang-start=20 sh -c 'echo $MASTER_PORT'"
    ran = gang.run(["salloc", "-Q", "-N2", "sh", "-c", f"{step};" * 4])
    ports = [int(row[0]) for row in ran.rows]
    assert len(ports) == 8
    assert not [port for port in ports if low <= port <= high]
    assert len(set(ports)) == 4, "steps one after another get ports of their own"


def test_the_site_says_which_ports_may_be_used(gang: Gang) -> None:
    with gang.plugstack("{ours} ports=20100-20102"):
        ran = gang.srun("-N2", "--gang-start=20", *PLACE)
    assert ran.code == 0, ran.err
    assert int(ran.rows[0][2]) in range(20100, 20103)


def test_the_users_address_and_port_are_kept_and_named(
    gang: Gang, meet: list[str]
) -> None:
    env = {"MASTER_ADDR": "n1", "MASTER_PORT": "29501"}
    ran = gang.srun(*TWO_EACH, "--gang-start=20", *meet, env=env)
    assert ran.code == 0, ran.err
    assert [row[1:] for row in ran.rows[1:]] == [["met", "n1", "29501"]] * 7
    assert "master n1:29501" in ran.told[0]
    assert "yours" in ran.told[0]
    report = gang.copies()[-1]
    assert report["kept_from_user"] == ["MASTER_ADDR", "MASTER_PORT"]
    assert report["master"]["address_from"] == report["master"]["port_from"] == "user"
    assert report["master"]["proven"] is True


def test_a_port_of_the_users_alone_is_kept(gang: Gang) -> None:
    ran = gang.srun("-N2", "--gang-start=20", *PLACE, env={"MASTER_PORT": "29502"})
    assert ran.code == 0, ran.err
    assert [row[1:] for row in ran.rows] == [[gang.address("n1"), "29502"]] * 2
    assert ran.told[0].endswith("master n1:29502 (MASTER_PORT is yours)")
    assert gang.copies()[-1]["kept_from_user"] == ["MASTER_PORT"]


def test_the_option_sets_the_port(gang: Gang) -> None:
    ran = gang.srun("-N2", "--gang-start=20,master-port=29503", *PLACE)
    assert ran.code == 0, ran.err
    assert {row[2] for row in ran.rows} == {"29503"}


def holder(gang: Gang) -> int:
    """Return the process that holds the port, as the machine numbers it."""
    python = [p for p, node in gang.cluster.pids().items() if node == "n1"]
    names = {p for p in python if process.command_name(p).startswith("python3")}
    assert len(names) == 1
    return names.pop()


@pytest.mark.parametrize(
    ("option", "env"),
    [
        ("--gang-start=20", {"MASTER_PORT": "29500"}),
        ("--gang-start=20,master-port=29500", {}),
    ],
    ids=["MASTER_PORT", "master-port="],
)
def test_a_busy_port_is_refused_with_the_process_that_holds_it(
    gang: Gang, busy: Running, option: str, env: dict[str, str]
) -> None:
    assert busy.popen.poll() is None
    ran = gang.srun(*TWO_EACH, option, *gang.trace(), env=env)
    blamed = refusal(ran, code=78)
    assert set(blamed) == {"n1"}
    assert "29500" in blamed["n1"][1]
    assert f"pid {holder(gang)} (python3" in blamed["n1"][1]
    assert gang.started() == []
    assert ran.seconds < 5


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("no-such-host.invalid", "does not resolve"),
        ("127.0.0.1", "loopback"),
        ("localhost", "loopback"),
        ("n1:29500", "not one host name or address"),
        ("http://n1", "not one host name or address"),
    ],
)
def test_an_address_nobody_can_meet_at_is_refused(
    gang: Gang, address: str, words: str
) -> None:
    ran = gang.srun(
        *TWO_EACH, "--gang-start=20", *gang.trace(), env={"MASTER_ADDR": address}
    )
    assert ran.code == 78, ran.err
    assert words in "\n".join(ran.told), ran.err
    assert address in "\n".join(ran.told)
    assert gang.started() == []
    assert ran.seconds < 10


def test_a_port_that_is_none_is_refused(gang: Gang) -> None:
    ran = gang.srun(
        "-N2", "--gang-start=20", *gang.trace(), env={"MASTER_PORT": "eighty"}
    )
    assert ran.code == 78
    assert "MASTER_PORT='eighty'" in "\n".join(ran.told)
    assert gang.started() == []


def test_the_master_can_be_given_by_name(gang: Gang, meet: list[str]) -> None:
    ran = gang.srun("-N3", "--gang-start=20,master-addr=name", *meet)
    assert ran.code == 0, ran.err
    assert [row[2] for row in ran.rows[1:]] == ["n1", "n1"]


@pytest.mark.parametrize("iface", ["eth0", "10.98.0.0/16"])
def test_the_network_of_the_master_can_be_chosen(gang: Gang, iface: str) -> None:
    ran = gang.srun("-N2", f"--gang-start=20,master-iface={iface}", *PLACE)
    assert ran.code == 0, ran.err
    assert {row[1] for row in ran.rows} == {gang.address("n1")}


@pytest.mark.parametrize("iface", ["ib7", "192.0.2.0/24"])
def test_a_network_that_rank_0s_node_lacks_is_refused(gang: Gang, iface: str) -> None:
    ran = gang.srun(*TWO_EACH, f"--gang-start=20,master-iface={iface}", *gang.trace())
    blamed = refusal(ran, code=78)
    assert set(blamed) == {"n1"}
    assert iface in blamed["n1"][1]
    assert gang.started() == []


def change_network(gang: Gang, node: str, *commands: str) -> None:
    """Run ip(8) on a node; skip where this machine cannot do it."""
    for command in commands:
        done = gang.cluster.run(["ip", *command.split()], node=node)
        if done.returncode != 0:
            pytest.skip(f"ip {command}: {done.stderr.strip()}")


@pytest.fixture
def lonely_network(gang: Gang) -> Iterator[str]:
    """Give n1 another network that no other node is connected to."""
    try:
        change_network(
            gang,
            "n1",
            "link add ib0 type veth peer name ib0far",
            "address add 172.31.9.1/24 dev ib0",
            "link set ib0 up",
            "link set ib0far up",
        )
        yield "ib0"
    finally:
        gang.cluster.run(["ip", "link", "delete", "ib0"], node="n1")


def test_a_chosen_network_that_the_others_cannot_reach_is_refused(
    gang: Gang, lonely_network: str
) -> None:
    ran = gang.srun(
        *TWO_EACH, f"--gang-start=10,master-iface={lonely_network}", *gang.trace()
    )
    assert ran.code == 75, ran.err
    rows = [match for line in ran.told if (match := BLAME.fullmatch(line))]
    assert [row[1] for row in rows] == ["n2", "n3", "n4"]
    assert [row[2] for row in rows] == ["2-3", "4-5", "6-7"]
    assert all(re.search(r"cannot reach 172\.31\.9\.1 port \d+", r[3]) for r in rows)
    assert not re.search(r"\bn1\b", "\n".join(ran.told))
    assert gang.started() == []
    assert ran.seconds < 10


@pytest.fixture
def broken_route(gang: Gang) -> Iterator[str]:
    """Give n4 a second address, and keep n3 from reaching its first."""
    second, first = "10.98.200.4", gang.address("n4")
    try:
        change_network(gang, "n4", f"address add {second}/16 dev eth0")
        change_network(gang, "n3", f"route add unreachable {first}/32")
        yield second
    finally:
        gang.cluster.run(["ip", "route", "delete", f"{first}/32"], node="n3")
        gang.cluster.run(
            ["ip", "address", "delete", f"{second}/16", "dev", "eth0"], node="n4"
        )


def test_the_next_address_is_taken_when_not_everybody_reaches_the_first(
    gang: Gang, broken_route: str, meet: list[str]
) -> None:
    hosts = gang.folder / "hosts"
    hosts.write_text("n4\nn1\nn2\nn3\n")
    ran = gang.srun(
        *("-n4", "-m", "arbitrary", "--gang-start=20"),
        *meet,
        env={"SLURM_HOSTFILE": str(hosts)},
    )
    assert ran.code == 0, ran.err
    assert [row[2] for row in ran.rows[1:]] == [broken_route] * 3
    tried = [one["address"] for one in gang.copies()[-1]["master"]["tried"]]
    assert tried == [gang.address("n4"), broken_route]
