"""When srun cannot be reached, or not by everybody: still one decision at one place."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cluster.gang import WAITING, Gang, Ran, refusal, until
from cluster.trouble import NEVER, PORTS, cut, elapse, sabotage, victim
from gangstart.cluster.config import HEAD

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.cluster

EVERYBODY = ("-N4", "--ntasks-per-node=2")
WHO = ("/bin/sh", "-c", "echo $RANK $WORLD_SIZE $MASTER_ADDR $MASTER_PORT")
SRUN_IS_SILENT_FOR = 3.0
PATIENCE = 5.0
HOLD_5 = sabotage("task_init", "5", f"hold={NEVER}")
TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def walled(gang: Gang, saboteur: str) -> Iterator[Gang]:
    """Run steps whose ports are known, so that a wall can be built around them."""
    with gang.plugstack(saboteur, f"{{ours}} ports={PORTS}"):
        yield gang


@pytest.fixture
def by_node(gang: Gang, saboteur: str) -> Iterator[Gang]:
    """Run steps whose first node decides: the site wants it so."""
    with gang.plugstack(saboteur, "{ours} rendezvous=node"):
        yield gang


def check_all_started(gang: Gang, ran: Ran) -> None:
    """Every rank ran once, with the same place to meet at: n1."""
    assert ran.code == 0, ran.err
    assert [row[:3] for row in ran.rows] == [
        [str(rank), "8", gang.address("n1")] for rank in range(8)
    ]
    assert len({row[3] for row in ran.rows}) == 1
    assert len([line for line in ran.told if "8/8 tasks on 4/4 nodes" in line]) == 1


def check_refused_by_n1(gang: Gang, ran: Ran, why: str) -> None:
    """One task told the story, the guilty one is named, and its hung task is gone."""
    told = [line for line in ran.told if "gang-start" in line or line[:2] == "  "]
    heads = [line for line in told if " refused after " in line]
    assert len(heads) == 1, ran.err
    assert "1 of 4 nodes is not ready (3 nodes, 7 tasks were ready)" in heads[0]
    rows = [line for line in told if re.match(r"  n\d", line)]
    assert len(rows) == 1, ran.err
    assert re.match(r"  n3 +ranks 4-5 +rank 5 not started", rows[0])
    assert f"gang-start: decided by n1: {why}" in told
    # The tasks left with 75; the one that hung had to be killed.
    assert "Exited with exit code 75" in ran.err
    assert ran.code == 137, ran.err
    gang.clean(10)
    assert gang.started() == []


def test_the_first_node_decides_where_the_site_wants_it(by_node: Gang) -> None:
    ran = by_node.srun(*EVERYBODY, "--gang-start=20", *WHO)
    check_all_started(by_node, ran)
    assert ran.told[-1] == "gang-start: decided by n1: rendezvous=node"
    assert ran.seconds < PATIENCE
    by_node.clean(10)


def test_a_first_node_that_decides_refuses_and_ends_what_hangs(by_node: Gang) -> None:
    ran = by_node.srun(
        *EVERYBODY, "--gang-start=2", *by_node.trace(), env=HOLD_5, seconds=30
    )
    check_refused_by_n1(by_node, ran, "rendezvous=node")


def test_a_task_that_ends_early_is_refused_by_the_first_node(by_node: Gang) -> None:
    env = sabotage("task_init", "3", "exit=3")
    ran = by_node.srun(*EVERYBODY, "--gang-start=60", *by_node.trace(), env=env)
    blamed = refusal_by_node(ran)
    assert blamed.startswith("n2 ")
    assert "rank 3: exit code 3" in blamed
    assert ran.code == 75, ran.err
    by_node.clean(10)
    assert by_node.started() == []


def test_a_node_that_comes_after_a_refusal_is_told_by_the_first_node(
    by_node: Gang,
) -> None:
    go_on = by_node.folder / "go-on"
    env = sabotage("post_opt", "2", f"hold={go_on}")
    running = by_node.start(
        ["srun", *EVERYBODY, "--gang-start=2", *by_node.trace()], env=env
    )
    until(lambda: "refused after 2" in running.text("err"), "the refusal")
    go_on.touch()
    ran = running.wait(PATIENCE)
    assert refusal_by_node(ran).startswith("n3 ")
    assert ran.code == 75, ran.err
    by_node.clean(10)
    assert by_node.started() == []


def refusal_by_node(ran: Ran) -> str:
    """Return the one line about nodes in a refusal that a node told."""
    rows = [line.strip() for line in ran.told if re.match(r"  n\d", line)]
    assert len(rows) == 1, ran.err
    return rows[0]


def test_the_first_node_decides_when_nobody_reaches_srun(walled: Gang) -> None:
    with cut(walled, HEAD):
        ran = walled.srun(*EVERYBODY, "--gang-start=20", *WHO)
    check_all_started(walled, ran)
    assert "gang-start: decided by n1: srun cannot be reached from here" in ran.told
    assert SRUN_IS_SILENT_FOR < ran.seconds < SRUN_IS_SILENT_FOR + PATIENCE
    walled.clean(10)


def test_the_first_node_refuses_when_nobody_reaches_srun(walled: Gang) -> None:
    with cut(walled, HEAD):
        ran = walled.srun(
            *EVERYBODY, "--gang-start=2", *walled.trace(), env=HOLD_5, seconds=30
        )
        check_refused_by_n1(walled, ran, "srun cannot be reached from here")


def test_nodes_that_cannot_reach_srun_are_relayed_by_the_first(walled: Gang) -> None:
    with cut(walled, HEAD, "n3", "n4"):
        ran = walled.srun(*EVERYBODY, "--gang-start=20", *WHO)
    check_all_started(walled, ran)
    assert ran.told == [ran.err.strip()], "srun tells it, and nobody else"
    assert ran.seconds < SRUN_IS_SILENT_FOR + PATIENCE
    walled.clean(10)


def cpu_ticks(pid: int) -> int:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_a_relayed_wait_is_quiet_and_a_relayed_node_is_named(walled: Gang) -> None:
    with cut(walled, HEAD, "n3", "n4"):
        running = walled.start(
            ["srun", *EVERYBODY, "--gang-start=9", *walled.trace()], env=HOLD_5
        )
        walled.until_waiting(7)
        elapse(SRUN_IS_SILENT_FOR + 1)
        stepd = victim(walled, "slurmstepd", "n1")
        before = cpu_ticks(stepd)
        elapse(2)
        assert cpu_ticks(stepd) - before < TICKS / 4, "it waits, it does not spin"
        ran = running.wait(30)
    assert refusal(ran) == {"n3": ("4-5", "rank 5 not started")}
    walled.clean(20)
    assert walled.started() == []


def test_a_relayed_task_that_is_killed_ends_the_start(walled: Gang) -> None:
    with cut(walled, HEAD, "n3", "n4"):
        running = walled.start(
            ["srun", *EVERYBODY, "--gang-start=60", *walled.trace()], env=HOLD_5
        )
        walled.until_waiting(7)
        elapse(SRUN_IS_SILENT_FOR + 1)
        pid = victim(walled, WAITING, "n4")
        walled.cluster.run(["kill", "-KILL", str(pid)], node="n4")
        ran = running.wait(30)
    assert refusal(ran)["n4"][1].endswith("signal 9 (Killed)")
    walled.clean(20)
    assert walled.started() == []


def test_two_who_could_decide_release_nobody(walled: Gang) -> None:
    with cut(walled, HEAD, "n1"):
        ran = walled.srun(*EVERYBODY, "--gang-start=5", *walled.trace(), seconds=40)
        assert set(refusal(ran)) == {"n1"}
        assert "cut off from srun" in ran.err
        assert ran.seconds < 5 + PATIENCE
        walled.clean(20)
    assert walled.started() == []


def test_a_node_that_reaches_srun_but_not_rank_0_is_named(walled: Gang) -> None:
    with cut(walled, "n1", "n3"):
        ran = walled.srun(*EVERYBODY, "--gang-start=10", *walled.trace())
    # Both ends of the wire that is cut are what an administrator needs.
    line = next(line for line in ran.told if line.startswith("  n3 "))
    n1, n3 = walled.address("n1"), walled.address("n3")
    assert re.search(rf"cannot reach {n1} port 230\d\d from {n3}: ", line)
    assert "Connection timed out" in line
    assert set(refusal(ran)) == {"n3"}
    assert ran.seconds < 10
    walled.clean(10)
    assert walled.started() == []


@pytest.fixture
def narrow(gang: Gang) -> Iterator[Gang]:
    """Give one node a smaller MTU, as a forgotten tunnel does."""
    until(lambda: gang.pids("slurmd") != {}, "the nodes")
    done = gang.cluster.run(["ip", "link", "set", "eth0", "mtu", "1280"], node="n2")
    if done.returncode != 0:
        pytest.skip(f"ip link set eth0 mtu 1280: {done.stderr.strip()}")
    yield gang
    gang.cluster.run(["ip", "link", "set", "eth0", "mtu", "1500"], node="n2")


def test_a_node_with_another_mtu_takes_part(narrow: Gang) -> None:
    ran = narrow.srun(*EVERYBODY, "--gang-start=20", *WHO)
    check_all_started(narrow, ran)
    narrow.clean(10)
