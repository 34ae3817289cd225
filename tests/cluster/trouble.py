"""Trouble made to a cluster for one test, and taken back: cut wires, full clocks."""

from __future__ import annotations

import contextlib
import shutil
import time
from typing import TYPE_CHECKING

import pytest
from cluster.gang import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.gang import Gang, Running
    from gangstart.cluster import Cluster

#: Ports that srun, the first node and rank 0 take when the site says ports=.
PORTS = "23000-23099"
NEVER = "/nonexistent/never"


def sabotage(hook: str, who: str, does: str) -> dict[str, str]:
    """Environment of a step that meets saboteur.c."""
    return {"SABOTEUR_HOOK": hook, "SABOTEUR_WHO": f",{who},", "SABOTEUR_DOES": does}


def on(cluster: Cluster, node: str, *commands: str) -> None:
    """Run commands on a node as its administrator; all must work."""
    for command in commands:
        done = cluster.run(command.split(), node=node)
        assert done.returncode == 0, f"{node}: {command}: {done.stderr}"


@contextlib.contextmanager
def cut(gang: Gang, node: str, *sources: str) -> Iterator[None]:
    """Drop what comes to the PORTS of a node, from these nodes only if some are named.

    Dropped, not refused: a firewall that says nothing is what sites have.
    """
    nft = shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if nft is None:
        pytest.skip("needs nft (apt-get install nftables)")
    among = ", ".join(gang.address(source) for source in sources)
    match = f"ip saddr {{ {among} }} " if sources else ""
    rules = (
        "add table inet trouble; "
        "add chain inet trouble in { type filter hook input priority 0; }; "
        f"add rule inet trouble in {match}tcp dport {PORTS} drop"
    )
    done = gang.cluster.run([nft, rules], node=node)
    assert done.returncode == 0, done.stderr
    try:
        yield
    finally:
        done = gang.cluster.run([nft, "delete table inet trouble"], node=node)
        assert done.returncode == 0, done.stderr


def victim(gang: Gang, name: str, node: str) -> int:
    """Return one process of this name on a node."""
    return next(p for p, where in gang.pids(name).items() if where == node)


def elapse(seconds: float) -> None:
    """Let time pass: only where how long something takes is what is tested."""
    end = time.monotonic() + seconds
    until(lambda: time.monotonic() >= end, "time to pass", seconds + 10)


def job_id(gang: Gang) -> str:
    """Return the only job there is."""
    return gang.run(["squeue", "-h", "-o", "%A"]).out.strip()


def until_text(running: Running, part: str, seconds: float = 30) -> None:
    """Wait until a command has said something on its stderr."""
    until(lambda: part in running.text("err"), f"{part!r} in its stderr", seconds)
