"""gangstart-probe --facts: what it tells of a node, and that nothing makes it wait."""

from __future__ import annotations

import hashlib
import os
import resource
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import gangstart
import pytest
from gangstart.doctor import facts
from gangstart.doctor.greeter import Greeter, listen
from gangstart.plugin import path as plugins

if TYPE_CHECKING:
    from gangstart.doctor.facts import Facts

PROBE = Path(gangstart.__file__).with_name("gangstart-probe")


def ask(*options: str | Path, seconds: float = 30) -> Facts:
    """Run it to its end."""
    done = subprocess.run(
        [PROBE, "--facts", *map(str, options)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return facts.parse("here", done.stdout)


def test_the_facts_of_this_machine_are_complete() -> None:
    told = ask()
    assert told.told
    assert told.hung == ""
    assert told.one("version") == gangstart.__version__
    assert told.one("hostname") == os.uname().nodename
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert told.number("limit_nofile") == hard
    names = {one.name for one in told.interfaces}
    assert names == {name for _, name in socket.if_nameindex()} & names
    for one in told.interfaces:
        assert one.mtu


@pytest.mark.parametrize("line", plugins.lines(), ids=str)
def test_a_plugin_is_told_by_its_sum_and_the_slurm_it_is_for(line: object) -> None:
    path = plugins.find(line)  # type: ignore[arg-type]
    told = ask("--plugin", path)
    assert told.one("plugin_state") == "ok"
    assert told.one("plugin_sha256") == hashlib.sha256(path.read_bytes()).hexdigest()
    assert told.one("plugin_slurm").startswith(f"{line}.")


@pytest.mark.parametrize("size", [0, 1, 55, 56, 63, 64, 65, 119, 120, 128, 4096])
def test_the_sum_of_a_file_of_any_length(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(i % 251 for i in range(size)))
    told = ask("--plugin", path)
    assert told.one("plugin_sha256") == hashlib.sha256(path.read_bytes()).hexdigest()
    assert told.one("plugin_slurm") == ""


def test_a_plugin_that_is_cut_or_scribbled_over_is_no_plugin(tmp_path: Path) -> None:
    have = plugins.lines()
    if not have:
        pytest.skip("needs the SPANK plugin (apt-get install libslurm-dev)")
    whole = plugins.find(have[0]).read_bytes()
    path = tmp_path / "file"
    for at in range(0, 64, 3):
        path.write_bytes(whole[:at] + b"\xff" * 8 + whole[at + 8 :])
        assert ask("--plugin", path).told
    for size in (16, 63, 64, 4000, len(whole) // 2):
        path.write_bytes(whole[:size])
        assert ask("--plugin", path).one("plugin_slurm") == ""


@pytest.mark.parametrize(
    ("made", "state"),
    [("none", "missing"), ("folder", "is no plain file"), ("fifo", "is no plain file")],
)
def test_what_is_no_plugin_is_said(tmp_path: Path, made: str, state: str) -> None:
    path = tmp_path / "file"
    if made == "folder":
        path.mkdir()
    elif made == "fifo":
        os.mkfifo(path)
    assert ask("--plugin", path).one("plugin_state") == state


def test_a_greeter_is_reached_and_its_time_compared() -> None:
    with Greeter() as greeter:
        told = ask("--connect", f"127.0.0.1:{greeter.port}")
    (one,) = told.connections
    assert (one.problem, one.local) == ("", "127.0.0.1")
    assert one.greeting[1] == greeter.nonce
    assert one.sent_us is not None
    assert abs(one.node_time_us - time.time() * 1e6) < 60e6
    assert told.chosen is not None


def test_nobody_and_somebody_who_says_nothing_are_no_connection() -> None:
    with listen(0, 0) as mute:
        port = mute.getsockname()[1]
        told = ask("--connect", f"127.0.0.1:{port}", "--connect", "127.0.0.1:1")
    assert [one.problem for one in told.connections] == [
        "Connection timed out",
        "Connection refused",
    ]
    assert ask("--connect", "nonsense").connections[0].problem == "is no ADDRESS:PORT"


def test_who_says_too_much_is_not_listened_to() -> None:
    with listen(0, 0) as server:

        def shout() -> None:
            caller, _ = server.accept()
            with caller:
                caller.sendall(b"x" * 4096)

        thread = threading.Thread(target=shout)
        thread.start()
        told = ask("--connect", f"127.0.0.1:{server.getsockname()[1]}")
        thread.join(10)
    assert told.connections[0].problem != ""


def test_a_greeter_takes_a_port_of_its_range_only() -> None:
    with listen(0, 0) as taken:
        port = taken.getsockname()[1]
        with Greeter(port, port) as greeter:
            assert greeter.port == 0
            assert f"no port of {port}-{port} is free" in greeter.problem


def test_folders_that_are_there_missing_or_no_folders(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    told = ask("--spool", tmp_path / "later" / "on", "--archive", tmp_path / "none")
    assert told.folder("spool").startswith("ok ")
    assert told.folder("archive") == "failed: No such file or directory"
    told = ask("--archive", file)
    assert told.folder("archive") == f"failed: {file} is no folder"


def test_a_socket_of_munge_is_connected_to(tmp_path: Path) -> None:
    path = tmp_path / "munge"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        assert ask("--munge", path).folder("munge") == "ok"
    assert ask("--munge", path).folder("munge") == "failed: Connection refused"


def test_times_of_files_are_those_of_their_last_change(tmp_path: Path) -> None:
    path = tmp_path / "a file"
    path.touch()
    os.utime(path, (1, 1))
    told = ask("--file", path, "--file", tmp_path / "none")
    assert told.changed == {str(path): int(path.stat().st_ctime)}


def test_a_driver_that_hangs_leaves_everything_else_told(
    fake_hang: Path, tmp_path: Path
) -> None:
    module = tmp_path / "sys/module/nvidia"
    module.mkdir(parents=True)
    (module / "initstate").write_text("live\n")
    with subprocess.Popen(
        [PROBE, "--facts", "--library", fake_hang, "--sysfs", tmp_path],
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as popen:
        assert popen.stdout is not None
        lines = []
        for line in popen.stdout:
            lines.append(line)
            if line == "asking=nvml\n":
                with pytest.raises(subprocess.TimeoutExpired):
                    popen.wait(0.5)
                popen.kill()
    told = facts.parse("here", "".join(lines))
    assert told.hung == "nvml"
    assert told.one("spool") == ""
    assert told.interfaces


@pytest.fixture
def fake_hang(tmp_path: Path) -> Path:
    """A driver's library whose first call never returns."""
    source = tmp_path / "hang.c"
    source.write_text(
        "#include <unistd.h>\n"
        "int nvmlInit_v2(void)\n{\n    for (;;)\n        pause();\n}\n"
    )
    library = tmp_path / "libnvidia-ml.so.1"
    built = subprocess.run(
        ["gcc", "-shared", "-fPIC", "-o", library, source],
        timeout=60,
        check=False,
    )
    if built.returncode != 0:
        pytest.skip("no C compiler to build the fake NVML")
    return library
