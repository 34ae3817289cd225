"""Reading /proc: whatever a user wrote there, and nothing beyond the bounds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from check.fakenode import BOOTED, GPU, FakeNode, FakeProcess, tcp_line
from gangstart.check import listener, proc, scan

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(name="node")
def fake(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


def seen(node: FakeNode, pid: int) -> scan.Seen:
    return scan.scan(node.roots, None).seen[pid]


@pytest.mark.parametrize(
    ("name", "state"), [("a b", "S"), ("evil) R 1 (x", "Z"), ("()", "D"), ("\n", "S")]
)
def test_a_name_cannot_forge_what_follows_it(name: str, state: str) -> None:
    rest = " ".join(["7"] + ["0"] * 17 + ["4242"])
    stat = proc.parse_stat(f"1 ({name}) {state} {rest} 0".encode())
    assert stat == proc.Stat(name, state, 7, 4242)


@pytest.mark.parametrize("raw", [b"", b"1 (x", b"1 (x) S 1", b")(", b"1 (x) S x " * 9])
def test_a_stat_that_is_cut_off_is_none(raw: bytes) -> None:
    assert proc.parse_stat(raw) is None


def test_the_first_of_two_values_counts_as_for_getenv() -> None:
    raw = b"SLURM_JOB_ID=501\0SLURM_JOB_ID=502\0SECRET=x\0MASTER_PORT=29500\0"
    assert proc.parse_environ(raw) == {"SLURM_JOB_ID": "501", "MASTER_PORT": "29500"}


@pytest.mark.parametrize(
    "raw", [b"", b"=501\0", b"\xff\xfe=1\0", b"SLURM_JOB_ID\0", b"\0\0\0", b"x" * 5000]
)
def test_an_environment_without_a_job_is_empty(raw: bytes) -> None:
    assert proc.parse_environ(raw) == {}


def test_an_environment_that_was_cut_off_is_not_known() -> None:
    assert proc.parse_environ(b"A=" + b"x" * 100, limit=50) is None


def test_a_huge_environment_is_read_to_the_limit_only(node: FakeNode) -> None:
    node.add(9, FakeProcess(env=b"A=" + b"x" * (proc.ENVIRON_BYTES + 10)))
    assert seen(node, 9).process.env is None


def test_what_a_user_wrote_into_its_environment_is_only_a_text(node: FakeNode) -> None:
    node.add(9, FakeProcess(env=b"SLURM_JOB_ID=501;rm -rf\xff\n\0"))
    assert seen(node, 9).process.env == {"SLURM_JOB_ID": "501;rm -rf\ufffd\n"}


def test_a_link_in_place_of_a_file_is_not_followed(
    node: FakeNode, tmp_path: Path
) -> None:
    folder = node.add(9, FakeProcess(env={"SLURM_JOB_ID": "501"}))
    (tmp_path / "else").write_bytes(b"SLURM_JOB_ID=7\0")
    (folder / "environ").unlink()
    (folder / "environ").symlink_to(tmp_path / "else")
    assert seen(node, 9).process.env is None


def test_a_fifo_in_place_of_a_file_does_not_hang(node: FakeNode) -> None:
    folder = node.add(9, FakeProcess())
    (folder / "cmdline").unlink()
    os.mkfifo(folder / "cmdline")
    assert seen(node, 9).argv == ()


def test_a_process_that_hangs_is_not_asked_what_could_hang_the_reader(
    node: FakeNode,
) -> None:
    node.add(9, FakeProcess(env={"SLURM_JOB_ID": "501"}, state="D", files=[GPU]))
    one = seen(node, 9)
    assert (one.state, one.argv, one.process.env) == ("D", (), None)
    assert list(one.process.devices) == [GPU]
    assert one.process.command == "python"


def test_threads_of_the_kernel_are_left_out(node: FakeNode) -> None:
    node.add(9, FakeProcess((), uid=0, parent=2, name="kworker"))
    assert 9 not in scan.scan(node.roots, None).seen


def test_when_it_was_started_is_on_the_wall_clock(node: FakeNode) -> None:
    node.add(9, FakeProcess(started=50))
    assert seen(node, 9).process.started == BOOTED + 50


def test_a_real_process_is_read_with_its_port_and_memory(tmp_path: Path) -> None:
    me = scan.scan(scan.Roots(tmp=tmp_path), None).seen[os.getpid()]
    assert me.process.uid == os.getuid()
    assert "python" in me.argv[0]
    assert me.start_ticks > 0


@pytest.mark.parametrize(
    ("text", "shown", "loopback"),
    [
        (b"0100007F:1F90", "127.0.0.1:8080", True),
        (b"00000000:2049", "0.0.0.0:8265", False),
        (b"0A00000A:1F90", "10.0.0.10:8080", False),
        (b"00000000000000000000000001000000:1F90", "[::1]:8080", True),
        (b"00000000000000000000000000000000:1F90", "[::]:8080", False),
        (b"0000000000000000FFFF00000100007F:1F90", "[::ffff:7f00:1]:8080", True),
    ],
)
def test_addresses_are_read_as_the_kernel_writes_them(
    text: bytes, shown: str, *, loopback: bool
) -> None:
    one = listener.parse_address(text)
    assert one is not None
    assert one.loopback is loopback
    assert str(one).replace("::ffff:127.0.0.1", "::ffff:7f00:1") == shown


@pytest.mark.parametrize(
    "text", [b"", b"x", b"0100007F", b"0100007F:0000", b"01:1F90", b"zz00007F:1F90"]
)
def test_an_address_that_is_none_is_passed_over(text: bytes) -> None:
    assert listener.parse_address(text) is None


def test_only_listeners_of_a_table_count() -> None:
    lines = [
        "head",
        tcp_line("00000000", 80, 7),
        tcp_line("00000000", 81, 8, state="01"),
        "short 1",
    ]
    table = listener.parse_table("\n".join(lines).encode())
    assert {inode: one.port for inode, one in table.items()} == {7: 80}


def test_ports_of_another_network_are_not_this_nodes(node: FakeNode) -> None:
    (node.roots.proc / str(os.getpid()) / "ns" / "net").unlink()
    (node.roots.proc / str(os.getpid()) / "ns" / "net").symlink_to("net:[1]")
    node.add(8, FakeProcess(listens=[("00000000", 6006)]))
    node.add(9, FakeProcess(listens=[("00000000", 6007)], network="net:[2]"))
    assert list(seen(node, 8).process.ports) == [6006]
    assert list(seen(node, 9).process.ports) == []


def test_mappings_are_known_by_device_and_inode() -> None:
    raw = (
        b"7f0-7f1 rw-s 00000000 00:1a 42   /dev/shm/a b\n"
        b"7f0-7f1 rw-p 00000000 00:00 0\n"
        b"7f0-7f1 rw-p 00000000 zz:00 5 /x\n"
        b"7f0-7f1 rw-s 00000000 00:1a x /y\n"
        b"7f0-7f1 rw-s 00000000 00:1b 43 /z\n"
    )
    assert proc.parse_maps(raw, os.makedev(0, 0x1A)) == {42}
    assert proc.parse_maps(raw, os.makedev(0, 0x1B)) == {43}
    assert proc.parse_maps(b"", 7) == set()
