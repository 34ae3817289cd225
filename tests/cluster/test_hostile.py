"""Other users of the machines, and strangers on the network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cluster.gang import WAITING, Gang, Running, until
from gangstart.cluster import process
from gangstart.cluster.config import HEAD_ADDRESS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.cluster

PYTHON = "/usr/bin/python3"
CROWD = Path(__file__).with_name("crowd.py")
TWO_EACH = ("-N4", "--ntasks-per-node=2")
#: Prints what of /proc a user can read of these processes, one "PID NAME" a line.
SPY = """\
import os, sys
for pid in sys.argv[1:]:
    for name in ("environ", "maps", "mem", "fd", "cwd", "root", "io", "stack", "auxv"):
        path = f"/proc/{pid}/{name}"
        try:
            if name == "fd":
                os.listdir(path)
            elif name in ("cwd", "root"):
                os.readlink(path)
            else:
                with open(path, "rb") as file:
                    file.read(1)
        except OSError:
            continue
        print(pid, name)
print("looked at", len(sys.argv) - 1)
"""


@pytest.fixture(scope="module")
def users() -> Iterator[tuple[str, str]]:
    """Make two ordinary users, and remove them in the end."""
    if os.getuid() != 0 or shutil.which("useradd") is None:
        pytest.skip("needs root and useradd to make ordinary users")
    if not Path(PYTHON).exists():
        pytest.skip(f"needs a Python every user may run: {PYTHON}")
    names = (f"seca{os.getpid()}", f"secb{os.getpid()}")
    for name in names:
        subprocess.run(["useradd", "-m", name], check=True, timeout=30)
    yield names
    for name in names:
        quiet = subprocess.DEVNULL
        subprocess.run(["userdel", "-r", name], check=True, timeout=30, stderr=quiet)


def readable(user: str, pids: list[int]) -> list[str]:
    """What a user can read in /proc of these processes."""
    words = [*map(str, pids)]
    done = subprocess.run(
        ["runuser", "-u", user, "--", PYTHON, "-c", SPY, *words],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    *found, last = done.stdout.splitlines()
    assert last == f"looked at {len(pids)}"
    return found


def waiting_step(gang: Gang, saboteur: str, user: str) -> tuple[Running, Gang, Path]:
    """Start a step of which every task but rank 0 waits; touching the file ends it."""
    late = gang.folder / "late"
    own = Gang(gang.cluster, gang.folder, gang.watch, user)
    env = {
        "SABOTEUR_HOOK": "task_init",
        "SABOTEUR_WHO": ",0,",
        "SABOTEUR_DOES": f"hold={late}",
    }
    assert saboteur
    running = own.start(["srun", *TWO_EACH, "--gang-start=60", "true"], env=env)
    gang.until_waiting(7)
    return running, own, late


def test_nobody_looks_into_what_holds_the_key(
    gang: Gang, users: tuple[str, str], saboteur: str
) -> None:
    owner, other = users
    with gang.plugstack(saboteur, "{ours}"):
        running, _, late = waiting_step(gang, saboteur, owner)
        tasks = list(gang.pids(WAITING))
        stepds = list(gang.pids("slurmstepd"))
        sruns = list(gang.pids("srun"))
        assert (len(tasks), len(stepds) >= 4, len(sruns) >= 1) == (7, True, True)

        assert readable(other, [*tasks, *stepds, *sruns]) == []
        # His own srun is his; what has root's past is not.
        assert readable(owner, [*tasks, *stepds]) == []
        assert readable(owner, sruns) != [], "the spy sees nothing anywhere"

        late.touch()
        assert running.wait().code == 0


def test_the_key_is_in_no_file_and_on_no_command_line(
    gang: Gang, users: tuple[str, str], saboteur: str
) -> None:
    with gang.plugstack(f"{saboteur} leak={gang.folder}", "{ours}"):
        running, own, late = waiting_step(gang, saboteur, users[0])
        secret = (gang.folder / "secret").read_text()
        (gang.folder / "secret").unlink()
        found = re.search(r":([0-9a-f]{64}):", secret)
        assert found is not None
        key = found[1].encode()
        shown = {
            pid: Path(f"/proc/{pid}/cmdline").read_bytes()
            for pid in gang.strangers()
            if process.start_time(pid) is not None
        }
        assert len(shown) >= 12
        late.touch()
        ran = running.wait()
        assert ran.code == 0, ran.err
        own.archived(own.copies()[-1]["step"]["name"])

    texts = {str(pid): text for pid, text in shown.items()}
    for path in gang.cluster.directory.rglob("*"):
        if path.is_file() and not path.is_symlink():
            texts[str(path)] = path.read_bytes()
    assert any(name.endswith("slurmctld.log") for name in texts)
    assert any("/archive/" in name for name in texts)
    assert [
        name
        for name, text in texts.items()
        if key in text or bytes.fromhex(found[1]) in text
    ] == []


def listening(gang: Gang, node: str) -> list[int]:
    """Ports of the start barrier that are listened on at a node."""
    begin = f"socket on {node} port "
    return [int(s.removeprefix(begin)) for s in gang.sockets() if s.startswith(begin)]


@pytest.fixture
def crowd() -> Iterator[list[Running]]:
    """Collect the crowds that a test sends, and send them home."""
    sent: list[Running] = []
    yield sent
    for one in sent:
        assert one.popen.stdin is not None
        one.popen.stdin.close()
        one.wait(20)


def test_two_hundred_strangers_everywhere_cost_a_start_nothing(
    gang: Gang, saboteur: str, crowd: list[Running]
) -> None:
    late = gang.folder / "late"
    env = {
        "SABOTEUR_HOOK": "post_opt",
        "SABOTEUR_WHO": ",3,",
        "SABOTEUR_DOES": f"hold={late}",
    }
    with gang.plugstack(f"{saboteur} leak={gang.folder}", "{ours}"):
        command = ["srun", *TWO_EACH, "--gang-start=60", "sh", "-c", "echo $RANK"]
        running = gang.start(command, env=env)
        gang.until_waiting(6)
        port = (gang.folder / "secret").read_text().split(":")[1]
        places = [f"{HEAD_ADDRESS}:{port}"]
        places += [f"{gang.address('n1')}:{port}" for port in listening(gang, "n1")]
        # MASTER_PORT, and the one for nodes that cannot reach srun.
        assert len(places) >= 3
        ready = gang.folder / "ready"
        copy = gang.folder / "crowd.py"
        copy.write_text(CROWD.read_text())
        popen = gang.cluster.popen(
            [sys.executable, str(copy), "200", str(ready), *places],
            node="n2",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        crowd.append(Running(popen))
        until(ready.exists, "the crowd")

        let_go = time.monotonic()
        late.touch()
        ran = running.wait()

        assert ran.code == 0, ran.err
        assert [row[0] for row in ran.rows] == [str(rank) for rank in range(8)]
        assert ran.when("8/8 tasks") < let_go - running.begun + 3
        assert len(ran.told) == 1


def test_the_users_own_copy_is_written_with_that_users_rights(
    gang: Gang, users: tuple[str, str]
) -> None:
    owner, _ = users
    own = Gang(gang.cluster, gang.folder, gang.watch, owner)
    mine, roots = gang.folder / "mine.json", gang.cluster.directory / "roots.json"
    said = {}
    for path in (mine, roots):
        ran = own.srun("-N2", f"--gang-start=20,report={path}", "true")
        assert ran.code == 0, ran.err
        said[path] = ran.err
    assert mine.owner() == owner
    assert not roots.exists()
    assert f"the report cannot be written to {roots}: Permission denied" in said[roots]
