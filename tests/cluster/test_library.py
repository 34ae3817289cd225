"""The library inside srun --gang-start, by an ordinary user on four nodes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from typing import TYPE_CHECKING

import pytest
from cluster.gang import Gang
from gangstart.beatline import read_beats
from repo import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.cluster

TWO_EACH = ("-N4", "--ntasks-per-node=2", "--gang-start=30")
TELL = (
    "import gangstart as g, json, os, sys, time\n"
    "step = g.current()\n"
    "def tell(**said): os.write(1, (json.dumps(said) + '\\n').encode())\n"
    "def attempt(seconds, **more):\n"
    "    try: return g.barrier(seconds, **more).number\n"
    "    except g.BarrierError as error:\n"
    "        tell(kind=type(error).__name__,\n"
    "             missing={str(m.rank): m.node for m in error.missing})\n"
)


#: Where gangstart and cffi are: root's own Python may be where only root may look.
PATHS = {"PYTHONPATH": f"{ROOT / 'launcher'}:{sysconfig.get_path('purelib')}"}


def python_of(user: str) -> str:
    """A Python that the user may run and that loads the C core; "": there is none."""
    for python in (sys.executable, "/usr/bin/python3"):
        done = subprocess.run(
            ["runuser", "-u", user, "--", python, "-c", "import gangstart.core"],
            env={**os.environ, **PATHS},
            cwd="/",
            capture_output=True,
            timeout=30,
            check=False,
        )
        if done.returncode == 0:
            return python
    return ""


@pytest.fixture(scope="module")
def user() -> Iterator[tuple[str, str]]:
    """Make an ordinary user, and remove it in the end; its name and its Python."""
    if os.getuid() != 0 or shutil.which("useradd") is None:
        pytest.skip("needs root and useradd to make an ordinary user")
    name = f"cl{os.getpid()}"
    subprocess.run(["useradd", "-m", name], check=True, timeout=30)
    yield name, python_of(name)
    quiet = subprocess.DEVNULL
    subprocess.run(["userdel", "-r", name], check=True, timeout=30, stderr=quiet)


class Trainer(Gang):
    """Runs trainings as an ordinary user."""

    python = ""


@pytest.fixture
def own(gang: Gang, user: tuple[str, str]) -> Trainer:
    """Run steps as the ordinary user."""
    if not user[1]:
        pytest.skip("no Python that an ordinary user may run loads the C core")
    made = Trainer(gang.cluster, gang.folder, gang.watch, user[0])
    made.python = user[1]
    return made


def told(gang: Trainer, program: str, *options: str) -> list[dict[str, object]]:
    """Run a training on all ranks; what they told."""
    command = [gang.python, "-c", TELL + program]
    ran = gang.srun(*(options or TWO_EACH), *command, env=PATHS)
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


def test_every_rank_knows_its_step_and_all_meet(own: Trainer) -> None:
    program = (
        "numbers = [attempt(30) for _ in range(5)]\n"
        "tell(rank=step.rank, world=step.world_size, node=step.node,\n"
        "     started=step.started, peers=step.peers, numbers=numbers,\n"
        "     report=g.current().report is not None)\n"
    )
    rows = sorted(told(own, program), key=lambda row: int(str(row["rank"])))
    peers = {str(rank): f"n{rank // 2 + 1}" for rank in range(8)}
    assert rows == [
        {
            "rank": rank,
            "world": 8,
            "node": f"n{rank // 2 + 1}",
            "started": "plugin",
            "peers": peers,
            "numbers": [1, 2, 3, 4, 5],
            "report": True,
        }
        for rank in range(8)
    ]


def test_a_rank_that_does_not_come_is_named_with_its_node(own: Trainer) -> None:
    program = (
        "attempt(30)\n"
        "if step.rank == 5: time.sleep(3)\n"
        "attempt(1 if step.rank == 6 else 30)\n"
        "assert attempt(30) == 3\n"
    )
    rows = told(own, program)
    assert rows == [{"kind": "BarrierTimeoutError", "missing": {"5": "n3"}}] * 8


def test_a_rank_that_is_killed_is_named_to_all_others(own: Trainer) -> None:
    program = "attempt(30)\nif step.rank == 5: os.kill(os.getpid(), 9)\nattempt(100)\n"
    command = [own.python, "-c", TELL + program]
    ran = own.srun(*TWO_EACH, "--kill-on-bad-exit=0", *command, env=PATHS)
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert rows == [{"kind": "BarrierLostError", "missing": {"5": "n3"}}] * 7


def test_heartbeats_lie_in_the_spool_and_go_to_the_archive(own: Trainer) -> None:
    program = (
        "from gangstart.beatline import read_beats\n"
        "g.heartbeat(41, phase='load'); g.heartbeat(42, loss=0.5, phase='train')\n"
        "while True:\n"
        "    found = read_beats(step.spool / 'user').newest()\n"
        "    mine = found.get(step.rank)\n"
        "    if mine and mine.step == 42: break\n"
        "    time.sleep(0.01)\n"
        "tell(rank=step.rank, loss=mine.loss, phase=mine.phase)\n"
    )
    rows = told(own, program)
    assert {(row["loss"], row["phase"]) for row in rows} == {(0.5, "train")}
    name = own.copies()[-1]["step"]["name"]
    own.archived(name)
    own.quiet()
    found = {
        rank: beat.step
        for user in (own.cluster.directory / "archive" / name).glob("*/user")
        for rank, beat in read_beats(user).newest().items()
    }
    assert found == dict.fromkeys(range(8), 42)
    kept = (own.cluster.directory / "archive" / name).rglob("*")
    assert not [path for path in kept if path.name == "meet.key"]


def test_the_tasks_key_is_for_the_steps_user_alone(own: Trainer) -> None:
    show = 'cd ${GANGSTART_REPORT%/sys/*} && stat -c "%n %U %a" meet.key; env'
    ran = own.srun("-n1", "--gang-start=20", "sh", "-c", show)
    first, *env = ran.out.splitlines()
    assert first == f"meet.key {own.user} 400"
    assert not [line for line in env if "key" in line.lower() and "meet" in line]


def test_nothing_but_rank_0s_address_listens(own: Trainer) -> None:
    program = (
        "attempt(30)\n"
        "if step.rank == 0:\n"
        "    rows = [line.split() for line in open('/proc/net/tcp').readlines()[1:]]\n"
        "    mine = {os.readlink(f'/proc/self/fd/{n}')\n"
        "            for n in os.listdir('/proc/self/fd')\n"
        "            if os.path.exists(f'/proc/self/fd/{n}')}\n"
        "    where = [row[1].partition(':')[0] for row in rows\n"
        "             if row[3] == '0A' and f'socket:[{row[9]}]' in mine]\n"
        "    tell(where=where)\n"
        "attempt(30)\n"
    )
    (row,) = told(own, program)
    parts = [int(part) for part in own.address("n1").split(".")]
    assert row["where"] == ["".join(f"{part:02X}" for part in reversed(parts))]


def test_a_plain_step_says_that_its_ranks_share_no_key(own: Trainer) -> None:
    program = (
        "try: g.barrier(5)\n"
        "except g.GangstartError as error: tell(text=str(error))\n"
        "g.heartbeat(1)\n"
    )
    rows = told(own, program, "-N2")
    assert len(rows) == 2
    assert all("share no key" in str(row["text"]) for row in rows)
