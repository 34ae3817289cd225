"""gangstart-probe and its caller: what hangs is named, and never waited for."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from core.c import Struct, ffi, lib, text
from nvml.readings import gpus_of, sample

if TYPE_CHECKING:
    from nvml.fakenvml import Node

SCRIPT = "#!/bin/sh\n"


def program_line(program: Path, node: Node, *more: str) -> list[str]:
    """The program's command line for a node."""
    paths = [f"--sysfs={node.root}", f"--lock={node.folder / 'lock'}"]
    return [str(program), "--library", str(node.library), *paths, *more]


def lines(program: Path, node: Node, *more: str, code: int = 0) -> list[dict[str, Any]]:
    """Run the program; its lines."""
    ran = subprocess.run(
        program_line(program, node, *more),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == code, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


class Caller:
    """A probe through the core's caller side, driven as an event loop would."""

    def __init__(self, program: Path, node: Node, **deadlines_us: int) -> None:
        self.error = ffi.new("struct gs_error *")
        self.run = ffi.new("struct gs_probe_run *")
        self.ask = ffi.new("struct gs_probe_ask *", deadlines_us)
        lock = node.folder / "lock"
        self.keep = [
            ffi.new("char[]", str(p).encode())
            for p in (program, node.library, node.root, lock)
        ]
        self.ask.program, self.ask.library, self.ask.root, self.ask.lock = self.keep

    def start(self) -> int:
        return int(lib.gs_probe_start(self.run, self.ask, now_us(), self.error))

    def finish(self) -> int:
        """Step until it is over; its return code."""
        assert self.start() == 0, self.message
        until = time.monotonic() + 60
        while time.monotonic() < until:
            select.select([self.run.fd], [], [], 0.05)
            rc = int(lib.gs_probe_step(self.run, now_us(), self.error))
            if rc:
                return rc
        raise AssertionError("neither done nor given up after a minute")

    @property
    def message(self) -> str:
        return text(self.error.text)


def now_us() -> int:
    return time.monotonic_ns() // 1000


def scripted(node: Node, body: str) -> Path:
    """Write a program that is not ours."""
    path = node.folder / "program"
    path.write_text(SCRIPT + body)
    path.chmod(0o755)
    return path


def test_a_line_per_gpu_and_one_for_the_node(program: Path, node: Node) -> None:
    first, second, last, judged = lines(program, node)

    assert (first["gpu"]["pci"], second["gpu"]["index"]) == ("0000:1a:00.0", 1)
    assert first["gpu"]["readings"]["temperature"] == 41
    assert first["gpu"]["processes"][:2] == [
        {"pid": 4711, "memory": 1048576},
        {"pid": 4712},
    ]
    assert last["node"]["complete"] is True
    assert (last["node"]["told"], last["node"]["pci_count"]) == (2, 2)
    assert last["node"]["driver"] == "570.124.06"
    assert set(judged) == {"verdict", "drain", "sentence"}


def test_why_there_is_no_value_is_named(program: Path, node: Node) -> None:
    node.gpus[0] |= {"nvmlDeviceGetPowerUsage": 15, "nvmlDeviceGetEccMode": 77}
    node.gpus[1]["vanished"] = 999
    node.write()
    first, second, *_ = lines(program, node)

    assert first["gpu"]["readings"]["power"] == "NVML_ERROR_GPU_IS_LOST"
    assert first["gpu"]["readings"]["ecc_mode"] == "NVML_ERROR_77"
    assert second["gpu"]["code"] == "NVML_ERROR_UNKNOWN"
    assert second["gpu"]["readings"] == {}


def test_the_inforom_is_validated_only_when_asked(program: Path, node: Node) -> None:
    assert "inforom" not in lines(program, node)[0]["gpu"]["readings"]
    assert lines(program, node, "--inforom")[0]["gpu"]["readings"]["inforom"] == 1


def test_an_unknown_option_is_refused_in_one_sentence(
    program: Path, node: Node
) -> None:
    (line,) = lines(program, node, "--frobnicate", code=64)

    assert "'--frobnicate'" in line["error"]


def test_a_lock_that_cannot_be_opened_is_refused(program: Path, node: Node) -> None:
    (line,) = lines(program, node, f"--lock={node.folder}", code=73)

    assert f"lock file {node.folder}" in line["error"]
    assert "--lock PATH" in line["error"]


def test_only_one_runs_at_a_time(program: Path, node: Node) -> None:
    with (node.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        (line,) = lines(program, node, code=75)

    assert f"(pid {os.getpid()}) holds {node.folder / 'lock'}" in line["error"]
    assert lines(program, node)[-2]["node"]["complete"]


def test_it_waits_for_one_that_is_about_to_end(program: Path, node: Node) -> None:
    with (node.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = subprocess.Popen(program_line(program, node), stdout=subprocess.PIPE)
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(0.3)
    out, _ = waiting.communicate(timeout=60)

    assert waiting.returncode == 0
    assert len(out.splitlines()) == 4


def test_it_keeps_nothing_of_its_parent(program: Path, node: Node) -> None:
    node.gpus[0]["hang"] = "nvmlDeviceGetEccMode"
    node.write()
    # A shell that ignores SIGTERM and has left a file open becomes the program.
    ask = ["trap '' TERM; exec 7</dev/zero; exec \"$@\"", "sh"]
    command = ["sh", "-c", *ask, *program_line(program, node, "--progress")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
        assert running.stdout
        while b"nvmlDeviceGetEccMode" not in running.stdout.readline():
            pass
        proc = Path(f"/proc/{running.pid}")
        opened = {str(fd.readlink()) for fd in (proc / "fd").iterdir()}
        first_to_go = (proc / "oom_score_adj").read_text().strip()
        running.terminate()
        assert running.wait(10) == -signal.SIGTERM

    assert str(node.folder / "lock") in opened
    assert "/dev/zero" not in opened
    assert first_to_go == "1000"


def test_it_dies_with_its_parent(program: Path, node: Node) -> None:
    node.gpus[0]["hang"] = "nvmlDeviceGetEccMode"
    node.write()
    command = [*program_line(program, node, "--progress")]
    parent = subprocess.Popen(
        ["sh", "-c", '"$@" & wait', "sh", *command], stdout=subprocess.PIPE
    )
    assert parent.stdout
    while b"nvmlDeviceGetEccMode" not in parent.stdout.readline():
        pass
    parent.kill()
    parent.wait(10)

    # Its end of the pipe closes: nobody holds it any more.
    assert parent.stdout.read() == b""
    parent.stdout.close()


def test_the_caller_has_what_the_core_samples(program: Path, node: Node) -> None:
    caller = Caller(program, node)

    assert caller.finish() == 1, caller.message
    assert gpus_of(caller.run.gpus) == gpus_of(sample(node))
    assert text(caller.run.gpus.vendor) == "nvidia"
    assert text(caller.run.gpus.hung_call) == ""
    assert caller.run.pid == 0


@pytest.mark.parametrize(
    ("call", "read"),
    [
        ("nvmlDeviceGetEccMode", 1),
        ("nvmlDeviceGetHandleByIndex_v2", 1),
        ("nvmlDeviceGetMPSComputeRunningProcesses_v3", 1),
    ],
)
def test_a_call_that_hangs_is_named_with_its_gpu(
    program: Path, node: Node, call: str, read: int
) -> None:
    node.gpus[1]["hang"] = call
    node.write()
    caller = Caller(program, node, gpu_us=700_000)
    begun = time.monotonic()

    assert caller.finish() == -110  # ETIMEDOUT
    assert time.monotonic() - begun < 10
    assert f"NVML hung in {call} on GPU 0000:db:00.0 for " in caller.message
    assert "reset the GPU or reboot the node" in caller.message
    whole, hung = gpus_of(caller.run.gpus)
    assert whole == gpus_of(sample_of_first(node))[0]
    assert (hung.code, hung.texts["pci"]) == (lib.GS_GPU_HUNG, "0000:db:00.0")
    assert text(caller.run.gpus.hung_call) == call
    assert caller.run.gpus.told == read + 1
    assert caller.run.pid == 0  # killed and reaped


def sample_of_first(node: Node) -> Struct:
    """The node without what hangs in it."""
    node.gpus[1] = {"vanished": 15}
    node.write()
    return sample(node)


@pytest.mark.parametrize("call", ["nvmlInit_v2", "nvmlDeviceGetCount_v2"])
def test_an_init_that_hangs_is_named_without_a_gpu(
    program: Path, node: Node, call: str
) -> None:
    node.node["hang"] = call
    node.write()
    caller = Caller(program, node, init_us=500_000)

    assert caller.finish() == -110
    assert f"NVML hung in {call} for " in caller.message
    assert caller.run.gpus.count == 0


def test_gpus_that_are_slow_one_by_one_end_at_the_whole_deadline(
    program: Path, node: Node
) -> None:
    node.gpus[0]["hang"] = "nvmlDeviceGetEccMode"
    node.write()
    caller = Caller(program, node, whole_us=600_000)

    assert caller.finish() == -110
    assert "nvmlDeviceGetEccMode on GPU 0000:1a:00.0" in caller.message


def test_the_lock_held_by_another_is_the_programs_own_sentence(
    program: Path, node: Node
) -> None:
    with (node.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        caller = Caller(program, node)

        assert caller.finish() == -16  # EBUSY
    assert "another one" in caller.message


def test_a_program_that_is_not_there_is_named(node: Node) -> None:
    caller = Caller(node.folder / "nothing", node)

    assert caller.start() == -2
    assert f"{node.folder / 'nothing'} cannot be run" in caller.message
    assert "probe=PATH" in caller.message


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("echo hello", -71, "'hello'"),
        ("yes | tr -d '\\n'", -71, "writes without end"),
        ("exit 3", -10, "ended before it had told about all GPUs"),
        ("kill -9 $$", -10, "ended before"),
        ("exec sleep 30", -110, "said nothing for"),
        ('yes \'{"asking":"a","gpu":""}\'', None, ""),
        ("yes '{\"gpu\":{}}'", -71, "not a line of it"),
    ],
)
def test_a_program_that_is_not_ours_is_survived(
    node: Node, body: str, code: int | None, said: str
) -> None:
    caller = Caller(scripted(node, body), node, init_us=400_000)
    rc = caller.finish()

    assert rc == code or (code is None and rc in {-110, -71})
    assert said in caller.message


def test_stopping_ends_the_program_at_once(program: Path, node: Node) -> None:
    node.gpus[0]["hang"] = "nvmlDeviceGetEccMode"
    node.write()
    caller = Caller(program, node)
    assert caller.start() == 0
    pid = caller.run.pid
    lib.gs_probe_stop(caller.run)

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert lib.gs_probe_step(caller.run, now_us(), caller.error) == -10
    lib.gs_probe_stop(caller.run)
