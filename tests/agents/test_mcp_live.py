"""A job that fails on a real Slurm, asked about through gangstart mcp there."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from agents.agent import Agent, command, session
from anyio.from_thread import start_blocking_portal
from cluster.conftest import plugin, why_not
from gangstart.cluster import Cluster, Spec, daemons
from triage.source import accounting
from triage.source.accounting import Accounting
from triage.source.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
USER = "games"
TRAIN = """import os
rank = int(os.environ["SLURM_PROCID"])
if rank == 2:
    raise KeyError("learning_rate")
open(os.environ["WAITS"]).read()
"""
SCRIPT = """#!/bin/sh
mkfifo {dir}/waits; export WAITS={dir}/waits
srun -N2 -n4 -K --label --gang-start=60 /usr/bin/python3 {dir}/train.py
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    reason = why_not() or accounting.missing()
    if reason:
        pytest.skip(reason)
    lines = ("MinJobAge=3600", "KillWait=2")
    made = Cluster.up(
        Spec(name=f"mcp-{os.getpid()}", slurm_lines=lines, plugin=plugin())
    )
    servers = Accounting(made)
    try:
        servers.start()
        yield made
    finally:
        servers.stop()
        made.down()


def inside(cluster: Cluster, argv: list[str], env: dict[str, str]) -> list[str]:
    """How a command is run on the head."""
    settings = [f"{name}={value}" for name, value in env.items()]
    tool = [sys.executable, "-m", "gangstart", "cluster", "run"]
    return [*tool, "--name", cluster.spec.name, "--", "env", *settings, *argv]


def test_why_a_job_failed_and_its_lines(cluster: Cluster, tmp_path: Path) -> None:
    folder = cluster.directory / "shared" / "mcp"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    (folder / "train.py").write_text(TRAIN)
    work = Workload(cluster, folder, user=USER)
    (folder / "train.sh").write_text(SCRIPT.replace("{dir}", str(folder)))
    number = work.submit("train", "--wait", "-N2", "-n4")
    argv = ("sacct", "-nX", "-o", "State", "-j", str(number))
    accounting.until(
        lambda: work.run(*argv, user="root").strip().startswith("FAILED"), "the end"
    )
    env = daemons.environment(cluster.spec)
    env |= {"PYTHONPATH": os.pathsep.join(sys.path)}
    started = inside(cluster, command(), env)

    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(
            session(started, {"PYTHONPATH": env["PYTHONPATH"]}, tmp_path / "stderr")
        ) as made,
    ):
        asked = Agent(made, portal)
        verdict = asked.told("triage", job=str(number))
        place = next(
            one["place"]
            for one in verdict["evidence"]
            if one["place"]["source"].endswith(".out")
        )
        lines = asked.told(
            "read_log_window", job=str(number), file=place["source"], line=place["line"]
        )
        start = asked.told("report", job=f"{number}.0")
        health = asked.told("node_health", job=str(number))
        stranger = asked.refused("read_log_window", job=str(number), file="/etc/shadow")

    assert (verdict["root_cause"], verdict["rank"]) == ("APP_EXCEPTION", 2)
    assert place["source"] == f"{folder}/slurm-{number}.out"
    shown = next(one for one in lines["lines"] if one["line"] == place["line"])
    assert "KeyError: 'learning_rate'" in shown["text"]
    assert shown["rank"] == 2 or "2:" in shown["text"]
    assert start["outcome"] == "released"
    assert {one["name"] for one in health["nodes"]} == {"n1", "n2"}
    assert "is no file of the job" in stranger
