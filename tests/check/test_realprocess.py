"""Real processes of an ended job: found by what they hold, ended, and nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from check.fakenode import Known, fine, found, nothing_differs
from gangstart import job
from gangstart.check import cleanup, node, proc, record, scan
from gangstart.check.leftover import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = os.getuid() == 0
#: Nobody has such a number; an ordinary user can only be itself.
USER = 54321 if ROOT else os.getuid()
OTHER = 54322
BECOME = (
    "import ctypes, os, signal, socket\nctypes.PyDLL(None)\n"
    "os.setgroups([])\nos.setgid({0})\nos.setuid({0})\n"
)
READY = "print('ready', flush=True)\n"
WAIT = "import signal\nsignal.pause()\n"
LISTEN = (
    "import socket\nlistening = socket.create_server(('127.0.0.1', 0))\n"
    "print(listening.getsockname()[1], flush=True)\n"
)
DEAF = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
#: A vfork whose child does not go on leaves its parent in D state.
STUCK = (
    "import ctypes, os\nlibc = ctypes.PyDLL(None)\n"
    "pid = libc.vfork()\n"
    "os.write(1, b'%d\\n' % os.getpid())\nlibc.pause()\n"
)
JOBS = iter(range(900_000_000 + os.getpid() * 100, 2_000_000_000))


@pytest.fixture(name="job_id")
def fresh_job() -> int:
    return next(JOBS)


@contextmanager
def process(
    code: str, job_id: int | None = None, user: int = USER, **env: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that said its first word, and that word."""
    of_job = {} if job_id is None else {"SLURM_JOB_ID": str(job_id)}
    # Python itself may lie where only root may read.
    become = BECOME.format(user) if ROOT else ""
    with subprocess.Popen(
        [sys.executable, "-I", "-c", become + code],
        stdout=subprocess.PIPE,
        text=True,
        env=of_job | env,
        cwd="/",
    ) as started:
        try:
            assert started.stdout is not None
            yield started, started.stdout.readline().strip()
        finally:
            started.kill()


def check(
    tmp_path: Path, job_id: int, cleanup: str = "report", **known: Known
) -> Known:
    """An epilog on this very machine; only its memory and temporary files are ours."""
    (tmp_path / "shm").mkdir(exist_ok=True)
    ours: dict[str, Known] = {
        "measure": fine,
        "differences": nothing_differs,
        "grace_s": 0.0,
    }
    world = node.World(
        roots=scan.Roots(shm=tmp_path / "shm", tmp=tmp_path / "none"),
        infiniband=tmp_path / "none",
        **(ours | known),
    )
    request = node.Request(
        "epilog",
        "n1",
        Job(job_id, uid=USER),
        cleanup=cleanup,
        spool=tmp_path / "spool",
    )
    return node.Check(request, world).run()


def pids(event: Known) -> list[int]:
    return [left["pid"] for left in event["leftovers"]["processes"]]


@pytest.fixture(autouse=True)
def seen_by_all() -> None:
    """Without process 1 nothing is judged left over."""
    if proc.read_file(Path("/proc/1/stat"), 64) is None:
        pytest.skip("process 1 cannot be seen here (hidepid)")


def test_a_process_of_an_ended_job_is_found_with_its_port(
    tmp_path: Path, job_id: int
) -> None:
    with process(LISTEN + WAIT, job_id) as (left, port):
        event = check(tmp_path, job_id)
    (one,) = event["leftovers"]["processes"]
    assert (one["pid"], one["uid"], one["proof"]) == (left.pid, USER, "environment")
    assert one["ports"] == [int(port)]
    assert event["verdict"] == "warn"


def test_a_master_port_that_is_still_taken_is_named(
    tmp_path: Path, job_id: int
) -> None:
    code = LISTEN.replace("0))", "int(__import__('os').environ['MASTER_PORT'])))")
    with process(LISTEN + WAIT) as (_, port):
        pass
    with process(code + WAIT, job_id, MASTER_PORT=port) as (_, got):
        assert got == port
        event = check(tmp_path, job_id)
    assert [f["value"] for f in found(event, "leftover_port")] == [port]


def test_it_is_ended_and_that_was_recorded_before(tmp_path: Path, job_id: int) -> None:
    with process(READY + WAIT, job_id) as (left, _):
        event = check(tmp_path, job_id, "kill")
        assert left.wait(10) == -15
    assert (event["verdict"], pids(event)) == ("ok", [])
    assert event["reason"].endswith(f"; cleaned up: pid {left.pid} ended")
    assert event["cleanup"]["outcomes"] == [
        {"what": f"pid {left.pid}", "how": "ended", "done": True}
    ]
    (kept,) = record.Spool(tmp_path / "spool", job_id).events()
    assert (kept["event"], kept["action"]) == ("cleanup", "SIGTERM")
    assert kept["processes"] == [{"pid": left.pid, "uid": USER, "proof": "environment"}]


def test_who_ignores_that_is_killed(tmp_path: Path, job_id: int) -> None:
    with process(DEAF + READY + WAIT, job_id) as (left, _):
        event = check(tmp_path, job_id, "kill", term_s=0.0)
        assert left.wait(10) == -9
    assert event["cleanup"]["outcomes"][0]["how"] == "killed"


def test_nothing_is_ended_unless_that_is_asked_for(tmp_path: Path, job_id: int) -> None:
    with process(READY + WAIT, job_id) as (left, _):
        assert pids(check(tmp_path, job_id)) == [left.pid]
        assert left.poll() is None
    assert not (tmp_path / "spool").exists()


def test_nothing_is_ended_if_it_cannot_be_recorded(tmp_path: Path, job_id: int) -> None:
    (tmp_path / "spool").write_text("no folder")
    with process(READY + WAIT, job_id) as (left, _):
        event = check(tmp_path, job_id, "kill")
        assert left.poll() is None
        assert pids(event) == [left.pid]
    assert "could not be recorded" in found(event, "clean_up")[0]["reason"]


def test_processes_of_another_job_and_of_none_live_on(
    tmp_path: Path, job_id: int
) -> None:
    with (
        process(READY + WAIT, job_id) as (left, _),
        process(READY + WAIT, next(JOBS)) as (other, _),
        process(READY + WAIT) as (free, _),
    ):
        check(tmp_path, job_id, "kill")
        assert left.wait(10) == -15
        assert (other.poll(), free.poll()) == (None, None)


@pytest.mark.skipif(not ROOT, reason="only root can start processes of others")
@pytest.mark.parametrize("user", [OTHER, 0])
def test_a_process_of_another_user_that_claims_the_job_lives_on(
    tmp_path: Path, job_id: int, user: int
) -> None:
    with process(READY + WAIT, job_id, user=user) as (liar, _):
        event = check(tmp_path, job_id, "kill")
        assert liar.poll() is None
    assert pids(event) == []


def test_a_zombie_is_nothing_that_is_left(tmp_path: Path, job_id: int) -> None:
    with process(READY, job_id) as (_, _):
        event = check(tmp_path, job_id)
    assert pids(event) == []


def test_one_that_ends_by_itself_in_time_was_not_left_over(
    tmp_path: Path, job_id: int
) -> None:
    with process(READY + WAIT, job_id) as (left, _):

        class Ending(cleanup.PidSignals):
            """It ends at the moment that somebody begins to wait for it."""

            def open(self, pid: int) -> int | None:
                left.terminate()
                left.wait(10)
                return super().open(pid)

        event = check(tmp_path, job_id, signals=Ending())
    assert event["verdict"] == "ok"


def test_one_that_hangs_in_the_kernel_is_seen_as_such(
    tmp_path: Path, job_id: int
) -> None:
    with process(STUCK, job_id) as (parent, child):
        try:
            assert soon(lambda: state_of(parent.pid) == "D")
            seen = scan.scan(scan.Roots(shm=tmp_path, tmp=tmp_path), None).seen
            assert seen[parent.pid].state == "D"
            assert seen[parent.pid].process.env is None
        finally:
            os.kill(int(child), 9)


def state_of(pid: int) -> str:
    with proc.process(Path("/proc"), pid) as entry:
        stat = entry.stat() if entry else None
    return stat.state if stat else ""


def soon(is_so: Callable[[], bool]) -> bool:
    """Look until something is so that nothing else tells of."""
    deadline = time.monotonic() + 20
    while not is_so() and time.monotonic() < deadline:
        os.sched_yield()
    return is_so()


def test_memory_that_it_holds_goes_with_it(tmp_path: Path, job_id: int) -> None:
    shm = tmp_path / "shm"
    shm.mkdir()
    shm.chmod(0o777)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if ROOT and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    code = f"import os\nopened = open({str(shm / 'nccl-x')!r}, 'w')\n"
    with process(code + READY + WAIT, job_id) as (left, word):
        assert word == "ready"
        event = check(tmp_path, job_id)
        assert "nccl-x (NCCL)" in found(event, "leftover_shm")[0]["reason"]
        assert (shm / "nccl-x").exists()
        check(tmp_path, job_id, "kill")
        assert left.wait(10) == -15


def test_memory_named_after_the_job_is_removed_and_other_is_not(
    tmp_path: Path, job_id: int
) -> None:
    shm = tmp_path / "shm"
    shm.mkdir()
    for name in (f"job{job_id}", "other"):
        (shm / name).write_text("x")
        if ROOT:
            os.chown(shm / name, USER, USER)
    with process(READY + WAIT):
        # The user does something else here, so only what names the job is the job's.
        event = check(tmp_path, job_id, "kill")
    assert [path.name for path in shm.iterdir()] == ["other"]
    assert event["cleanup"]["outcomes"][0]["how"] == "removed"
    events = record.Spool(tmp_path / "spool", job_id).events()
    assert [e["action"] for e in events] == ["unlink"]


@pytest.fixture(name="cgroup")
def job_cgroup(job_id: int) -> Iterator[Path]:
    """A real cgroup of the job, where this machine lets us make one."""
    base = Path("/sys/fs/cgroup/pids")
    base = base if base.is_dir() else Path("/sys/fs/cgroup")
    folders = [base / f"slurm_test{os.getpid()}"]
    folders.append(folders[-1] / f"job_{job_id}")
    try:
        for folder in folders:
            folder.mkdir()
    except OSError as error:
        pytest.skip(f"cannot make a cgroup: {error.strerror}")
    yield folders[-1]
    for folder in reversed(folders):
        # What was killed may be in there for another moment.
        assert soon(lambda: removed(folder))  # noqa: B023 - called at once


def removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def test_one_without_any_environment_is_known_by_its_cgroup(
    tmp_path: Path, job_id: int, cgroup: Path
) -> None:
    with process(READY + WAIT) as (left, _):
        (cgroup / "cgroup.procs").write_text(str(left.pid))
        event = check(tmp_path, job_id, "kill")
        assert left.wait(10) == -15
    (kept,) = record.Spool(tmp_path / "spool", job_id).events()
    assert kept["processes"][0]["proof"] == "cgroup"
    assert event["verdict"] == "ok"


def test_the_environment_of_this_process_is_not_handed_on() -> None:
    # What the tests above say of "no job" would be wrong inside of a Slurm job.
    with process("import os\nprint(sorted(os.environ), flush=True)\n") as (_, names):
        assert "SLURM_JOB_ID" not in names
    assert job.environ() is not None
