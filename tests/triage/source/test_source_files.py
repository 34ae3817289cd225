"""A job's files are looked at as its user, and only by whom they concern."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gangstart.triage.model import Outcome
from gangstart.triage.source import jobfiles, pattern, peek, script
from gangstart.triage.source.jobfiles import Wish
from gangstart.triage.source.peek import Peeker, PeekError
from gangstart.triage.source.record import Record, StepRecord
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangstart.triage.source.pattern import Wild

GAMES = 5  # a user that every Debian has
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to be other users")


@pytest.fixture
def shared() -> Iterator[Path]:
    """Make a folder that every user can reach and write to."""
    folder = Path(tempfile.mkdtemp(prefix="gangstart-files-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def wild(path: Path, names: pattern.Names | None = None) -> Wild:
    found = pattern.expand(str(path), names or pattern.Names(job=7, step="0"))
    assert found is not None
    return found


def read(fd: int) -> bytes:
    with os.fdopen(fd, "rb") as file:
        return file.read()


def test_a_file_is_found_and_opened(shared: Path) -> None:
    (shared / "out").write_text("hello")
    with Peeker(os.getuid()) as eyes:
        (found,) = eyes.find(wild(shared / "out"))

        assert (found.path, found.size) == (str(shared / "out"), 5)
        assert read(eyes.open(found.path)) == b"hello"


def test_files_of_tasks_tell_their_ranks(shared: Path) -> None:
    for name in ("t-0.log", "t-10.log", "t-2.log", "t-x.log", "u-1.log"):
        (shared / name).touch()
    with Peeker(os.getuid()) as eyes:
        found = eyes.find(wild(shared / "t-%t.log"))

    assert [one.rank for one in found] == [0, 2, 10]


def test_files_of_nodes_in_folders_of_their_own(shared: Path) -> None:
    for node in ("n1", "n2"):
        (shared / node).mkdir()
        (shared / node / "7.out").touch()
    with Peeker(os.getuid()) as eyes:
        found = eyes.find(wild(shared / "%N" / "%j.out"))

    assert [one.node for one in found] == ["n1", "n2"]


@needs_root
@pytest.mark.parametrize("how", ["link", "folder"])
def test_root_is_not_led_to_what_only_root_may_read(shared: Path, how: str) -> None:
    vault = shared / "vault"
    vault.mkdir(mode=0o700)
    (vault / "secret").write_text("root's")
    secret = vault / "secret"
    secret.chmod(0o600)
    target = shared / "slurm-7.out"
    if how == "link":
        target.symlink_to(secret)
    else:
        (shared / "logs").symlink_to(vault)
        target = shared / "logs" / "secret"

    with Peeker(GAMES) as eyes:
        assert eyes.find(wild(target)) == []
        with pytest.raises(PeekError, match="Permission denied"):
            eyes.open(str(target))


@needs_root
def test_the_users_own_file_that_only_he_may_read_is_read(shared: Path) -> None:
    own = shared / "own"
    own.write_text("mine")
    os.chown(own, GAMES, GAMES)
    own.chmod(0o400)

    with Peeker(GAMES) as eyes:
        assert read(eyes.open(str(own))) == b"mine"


@needs_root
def test_the_helper_has_nothing_left_of_root() -> None:
    with Peeker(GAMES) as eyes:
        pid = eyes._child.pid  # noqa: SLF001  the process itself is looked at
        told = Path(f"/proc/{pid}/status").read_text("ascii")

    fields = dict(line.split(":\t", 1) for line in told.splitlines() if ":\t" in line)
    assert fields["Uid"].split() == [str(GAMES)] * 4
    assert "0" not in fields["Gid"].split()
    assert "0" not in fields["Groups"].split()
    assert int(fields["CapEff"], 16) == 0
    assert int(fields["CapPrm"], 16) == 0


@needs_root
def test_a_user_that_nobody_knows() -> None:
    with pytest.raises(PeekError, match="user 3999999"):
        Peeker(3999999)


def test_a_pipe_is_not_waited_for(shared: Path) -> None:
    os.mkfifo(shared / "pipe")
    with Peeker(os.getuid()) as eyes:
        assert eyes.find(wild(shared / "pipe")) == []
        with pytest.raises(PeekError, match="not a plain file"):
            eyes.open(str(shared / "pipe"))


def test_a_device_and_a_socket_are_refused(shared: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made, Peeker(os.getuid()) as eyes:
        made.bind(str(shared / "s"))
        for path in ("/dev/zero", str(shared / "s")):
            with pytest.raises(PeekError):
                eyes.open(path)


def test_a_file_system_that_hangs_is_left_in_time(shared: Path) -> None:
    eyes = Peeker(os.getuid(), deadline_s=0.5)
    os.kill(eyes._child.pid, signal.SIGSTOP)  # noqa: SLF001  as if it hung in the kernel
    with pytest.raises(PeekError, match=r"no answer within 0\.5 s"):
        eyes.find(wild(shared / "out"))
    eyes.close()


def test_who_may_look() -> None:
    assert peek.refusal(1000, "alice", 1000) is None
    assert peek.refusal(1000, "alice", 0) is None
    other = peek.refusal(1000, "alice", 1001)
    unknown = peek.refusal(None, "alice", 0)

    assert other is not None
    assert other.why.startswith("the job is of alice, and you are user 1001")
    assert unknown is not None
    assert "not known whose job" in unknown.why


def record(shared: Path, **changed: object) -> Record:
    told: dict[str, object] = {
        "number": 7,
        "name": "train",
        "user": "me",
        "uid": os.getuid(),
        "nodes": ("n1", "n2"),
        "work_dir": str(shared),
    }
    return Record(**(told | changed))  # type: ignore[arg-type]


BATCH = StepRecord("batch")


def test_files_of_a_job_and_its_steps(shared: Path) -> None:
    line = f"srun -n2 -o {shared}/r-%t.log torchrun --log-dir L train.py"
    worker = shared / "L" / "none_x" / "attempt_0" / "1"
    worker.mkdir(parents=True)
    for path in ("job.out", "r-0.log", "r-1.log", "L/none_x/attempt_0/1/error.json"):
        (shared / path).write_text("x")
    job = record(
        shared,
        stdout="job.out",
        stderr="job.out",
        steps=(BATCH, StepRecord("0", submit_line=line)),
    )

    found, state = jobfiles.look(job, jobfiles.wishes([job]), os.getuid())

    assert state.outcome is Outcome.USED
    assert [(one.what, Path(one.file.path).name) for one in found] == [
        ("output of the batch script", "job.out"),
        ("output of step 0", "r-0.log"),
        ("output of step 0", "r-1.log"),
        ("torchrun's workers in step 0", "error.json"),
    ]


@pytest.mark.parametrize(
    ("line", "name", "guessed"),
    [
        ("sbatch -o own-%j.out job.sh", "own-7.out", False),
        ("sbatch job.sh", "slurm-7.out", True),
    ],
)
def test_a_job_whose_record_has_no_paths(
    shared: Path, line: str, name: str, *, guessed: bool
) -> None:
    (wish,) = jobfiles.wishes([record(shared, submit_line=line)])

    assert wish == Wish(wish.wild, "output of the batch script", guessed)
    assert wish.wild.fixed == f"{shared}/{name}"


def test_srun_alone_leaves_no_file(shared: Path) -> None:
    job = record(shared, submit_line="srun -N2 train", steps=(StepRecord("0"),))

    assert jobfiles.wishes([job]) == []
    _, state = jobfiles.look(job, [], os.getuid())
    assert (state.outcome, state.detail) == (Outcome.EMPTY, "the record names none")


def test_files_of_somebody_else_are_not_looked_at(shared: Path) -> None:
    job = record(shared, uid=os.getuid() + 1, user="bob")
    _, state = jobfiles.look(job, jobfiles.wishes([job]), os.getuid() + 2)

    assert state.outcome is Outcome.UNREACHABLE
    assert state.detail.startswith("the job is of bob")


def test_files_that_are_gone_are_named(shared: Path) -> None:
    job = record(shared, stdout="gone.out")
    _, state = jobfiles.look(job, jobfiles.wishes([job]), os.getuid())

    assert state.outcome is Outcome.EMPTY
    assert state.detail == f"none of {shared}/gone.out exists"


SCRIPT = """\
#!/bin/bash
#SBATCH -o logs/%x-%j.out --error=logs/%x.err
# NCCL_DEBUG_FILE=/not/this
export NCCL_DEBUG=INFO NCCL_DEBUG_FILE=logs/nccl.${SLURM_JOB_ID}.%h.%p
NCCL_DEBUG_FILE="$HOME/unknown.%p" srun a
TORCHELASTIC_ERROR_FILE='$literal' srun b
TORCHELASTIC_ERROR_FILE=$(mktemp) srun b
srun torchrun --nnodes=2 --log-dir logs/$SLURM_JOB_NAME train.py
"""


def test_what_a_batch_script_says() -> None:
    job = Record(7, name="train", work_dir="/w")
    said = script.read(SCRIPT, script.variables(job), jobfiles.IO_OPTIONS)

    assert said.nccl == ("logs/nccl.7.%h.%p",)
    assert said.error == ("$literal",)
    assert said.log == ("logs/train",)
    assert said.options == {"out": "logs/%x-%j.out", "err": "logs/%x.err"}


def test_a_batch_script_tells_where_the_output_of_a_purged_job_is() -> None:
    job = Record(7, name="train", work_dir="/w", submit_line="sbatch -e e job.sh")
    found = jobfiles.wishes([job], SCRIPT)

    assert [one.wild.fixed for one in found[:2]] == ["/w/logs/train-7.out", "/w/e"]
    assert {one.what for one in found[2:]} == {
        "NCCL's log",
        "torch's error file",
        "torchrun's workers",
    }


@settings(deadline=None)
@given(st.text())
def test_any_script_can_be_read(text: str) -> None:
    job = Record(7, name="train", work_dir="/w")
    jobfiles.wishes([job], text)
