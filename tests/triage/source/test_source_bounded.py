"""A command ends in time, whatever it does, and leaves nothing behind."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from gangstart.triage.source import bounded
from gangstart.triage.source.commands import Commands
from gangstart.triage.source.record import Wanted

ENV = {"PATH": "/usr/bin:/bin"}
SHORT = 0.3
PLENTY = 20.0  # what no machine needs for these


def sh(script: str, deadline_s: float = PLENTY, limit: int = 1 << 20) -> bounded.Ran:
    argv = ["/bin/sh", "-c", script]
    return bounded.run(argv, deadline_s=deadline_s, env=ENV, limit=limit)


def gone(pid: int) -> bool:
    """Whether a process is no more, or only waits to be reaped by init."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace")
    except OSError:
        return True
    return text.rpartition(") ")[2].startswith("Z")


def test_output_and_code_are_told() -> None:
    ran = sh("echo out; echo err >&2; exit 3")

    assert (ran.code, ran.out, ran.err) == (3, b"out\n", "err\n")
    assert ran.complaint == "it ended with code 3: err"


def test_a_command_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    ran = sh(f"sleep 600 & echo $! $$ > {pids}; wait", deadline_s=1.0)

    assert ran.why == "it did not answer within 1 s"
    assert ran.code is None
    end = time.monotonic() + PLENTY
    while not all(gone(int(pid)) for pid in pids.read_text().split()):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_child_that_keeps_the_pipe_does_not_keep_us() -> None:
    ran = sh("sleep 600 & echo done", deadline_s=SHORT)

    assert ran.why == "it did not answer within 0.3 s"
    assert ran.out == b"done\n"


def test_a_command_that_closes_its_output_and_goes_on_is_ended() -> None:
    ran = sh("exec >&- 2>&-; sleep 600", deadline_s=SHORT)

    assert ran.why == "it did not answer within 0.3 s"


def test_output_has_a_most() -> None:
    ran = sh("yes", limit=2 << 20)

    assert ran.why == "it printed more than 2 MiB"
    assert len(ran.out) == 2 << 20


def test_a_flood_of_errors_is_read_and_dropped() -> None:
    ran = sh("head -c 9000000 /dev/zero >&2; echo fine")

    assert ran.out == b"fine\n"
    assert len(ran.err) == bounded.ERROR_BYTES


def test_a_command_that_is_not_there() -> None:
    ran = bounded.run(["/no/such"], deadline_s=1, env=ENV)

    assert ran.complaint == "/no/such cannot be started: No such file or directory"


FAKES = {
    "hangs": ("exec sleep 600", "it did not answer within 0.5 s"),
    "garbage": ("echo '{\"jobs\": [3]}'", "its answer makes no sense"),
    "no json": ("echo hello", "its answer makes no sense"),
    "fails": ("echo Unable to contact slurm controller >&2; exit 1", "Unable to"),
    "silent death": ("kill -9 $$", "it ended with code -9"),
    "no accounting": (
        "echo Slurm accounting storage is disabled >&2; exit 1",
        "this cluster keeps no accounting",
    ),
}


@pytest.mark.parametrize("version", ["22.05.8", "26.05.1"])
@pytest.mark.parametrize("fake", FAKES)
def test_trouble_with_slurm_is_told_as_a_value(
    tmp_path: Path, fake: str, version: str
) -> None:
    body, why = FAKES[fake]
    for name in ("scontrol", "sacct", "squeue"):
        script = tmp_path / name
        ask = f'[ "$1" = -V ] && echo slurm {version} && exit 0\n'
        script.write_text(f"#!/bin/sh\n{ask}{body}\n")
        script.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{ENV['PATH']}"}
    commands = Commands(deadline_s=0.5, env=env)

    answers = [commands.controller(Wanted(7)), commands.accounting(Wanted(7))]

    for answer in answers:
        assert answer.state.outcome.value == "unreachable"
        assert why in answer.state.detail
        assert answer.found == ()


def test_slurm_that_is_not_installed_is_told_as_a_value(tmp_path: Path) -> None:
    commands = Commands(env={"PATH": str(tmp_path)})

    assert commands.controller(Wanted(7)).state.detail == "there is no scontrol in PATH"
    assert commands.nodes(["n1"]).state.detail == "there is no scontrol in PATH"


def test_the_environment_of_commands_fixes_language_and_times() -> None:
    os.environ["SQUEUE_FORMAT"] = "%i"
    try:
        env = Commands().env
    finally:
        del os.environ["SQUEUE_FORMAT"]

    assert "SQUEUE_FORMAT" not in env
    assert (env["LC_ALL"], env["SLURM_TIME_FORMAT"]) == ("C", "%s")
