"""barrier() among real processes: who is missing, gone, late or elsewhere is named."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import gangstart
import pytest
from gangstart.hub import ports
from gangstart.stepkey import NAME, read_key
from lib.world import World, new_world, worlds

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["worlds"]


def test_all_ranks_meet_again_and_again(worlds: list[World], tmp_path: Path) -> None:
    world = new_world(worlds, tmp_path, 4)
    world.start_all("for _ in range(50): made = attempt(20)\n")
    for rank in range(4):
        numbers = [world.hear(rank)["passed"] for _ in range(50)]
        assert numbers == list(range(1, 51))
        assert world.finish(rank) == (0, "")


def test_a_missing_rank_is_named_with_its_node_to_all_and_the_next_one_passes(
    worlds: list[World], tmp_path: Path
) -> None:
    world = new_world(worlds, tmp_path, 3)
    for rank in (0, 1):
        world.start(rank, "attempt(20)\nattempt(1 if rank else 30)\nattempt(30)\n")
    world.start(2, "attempt(20)\nwaiting()\nattempt(30)\nattempt(30)\n")
    for rank in range(3):
        assert world.hear(rank)["passed"] == 1
    assert world.hear(2) == {"ready": True}
    for rank in (0, 1):
        said = world.hear(rank)
        assert said["failed"] == "BarrierTimeoutError"
        assert (said["missing"], said["nodes"]) == ([2], ["n2"])
        assert "rank 2 on n2 did not come (rank 1 on n1 gave up: 1 s" in said["text"]
        assert said["took"] < 15, "rank 0 does not wait for its own timeout"
    world.go(2)
    late = world.hear(2)
    assert late["failed"] == "BarrierTimeoutError"
    assert "over already" in late["text"]
    assert [world.hear(rank)["passed"] for rank in range(3)] == [3, 3, 3]


def test_a_rank_that_is_killed_is_named_at_once(
    worlds: list[World], tmp_path: Path
) -> None:
    world = new_world(worlds, tmp_path, 3)
    for rank in (0, 1):
        world.start(rank, "attempt(20)\nwaiting()\nattempt(100)\nattempt(100)\n")
    world.start(2, "attempt(20)\nwaiting()\n")
    for rank in range(3):
        assert world.hear(rank)["passed"] == 1
        assert world.hear(rank) == {"ready": True}
    for rank in (0, 1):
        world.go(rank)
    world.kill(2)
    for rank in (0, 1):
        for _ in range(2):  # and ever after
            said = world.hear(rank)
            assert said["failed"] == "BarrierLostError"
            assert (said["missing"], said["nodes"]) == ([2], ["n2"])
            assert "rank 2 on n2 has ended" in said["text"]


def test_rank_0_that_is_killed_is_named_by_the_others(
    worlds: list[World], tmp_path: Path
) -> None:
    world = new_world(worlds, tmp_path, 2)
    world.start_all("attempt(20)\nwaiting()\nattempt(100)\nattempt(100)\n")
    for rank in (0, 1):
        assert world.hear(rank)["passed"] == 1
        assert world.hear(rank) == {"ready": True}
    world.kill(0)
    world.go(1)
    for _ in range(2):
        said = world.hear(1)
        assert (said["failed"], said["missing"]) == ("BarrierLostError", [0])


def test_rank_0_that_never_comes_is_named_and_may_come_later(
    worlds: list[World], tmp_path: Path
) -> None:
    world = new_world(worlds, tmp_path, 2)
    world.start(1, "attempt(0.5)\nattempt(30)\n")
    said = world.hear(1)
    assert (said["failed"], said["missing"]) == ("BarrierTimeoutError", [0])
    assert "known to rank 0 alone" in said["text"]
    world.start(0, "attempt(30)\nattempt(30)\n")
    assert world.hear(0)["failed"] == "BarrierTimeoutError"
    assert [world.hear(rank)["passed"] for rank in (0, 1)] == [2, 2]


def test_different_calls_are_named(worlds: list[World], tmp_path: Path) -> None:
    world = new_world(worlds, tmp_path, 3)
    world.start_all("attempt(30, name='save' if rank == 1 else 'eval')\n")
    said = world.hear(1)
    assert said["failed"] == "BarrierMismatchError"
    assert "in 'save'" in said["text"]


def test_threads_of_a_rank_take_turns(worlds: list[World], tmp_path: Path) -> None:
    program = (
        "from threading import Thread\n"
        "threads = [Thread(target=attempt, args=(30,)) for _ in range(5)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
    )
    world = new_world(worlds, tmp_path, 2)
    world.start_all(program)
    for rank in (0, 1):
        numbers = sorted(world.hear(rank)["passed"] for _ in range(5))
        assert numbers == [1, 2, 3, 4, 5]
        assert world.finish(rank) == (0, "")


def test_a_forked_child_is_no_rank_and_does_not_keep_a_dead_ones_line_open(
    worlds: list[World], tmp_path: Path
) -> None:
    program = (
        "attempt(30)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    attempt(5)\n"
        "    sys.stdin.close(); os.closerange(0, 3)\n"
        "    time.sleep(60)\n"
        "    os._exit(0)\n"
        "import atexit, signal\n"
        "if rank: waiting(); os.kill(os.getpid(), 9)\n"
        "attempt(60)\n"
        "os.kill(pid, 9)\n"
    )
    world = new_world(worlds, tmp_path, 2)
    world.start_all(program)
    said = [world.hear(1) for _ in range(3)]
    child = next(one for one in said if "failed" in one)
    assert "was forked from a rank" in child["text"]
    world.go(1)
    heard = [world.hear(0) for _ in range(3)]
    lost = next(one for one in heard if one.get("failed") == "BarrierLostError")
    assert lost["missing"] == [1]
    assert lost["took"] < 30


def test_a_second_process_of_a_rank_is_refused(
    worlds: list[World], tmp_path: Path
) -> None:
    world = new_world(worlds, tmp_path, 2)
    program = (
        "import subprocess\n"
        "attempt(30)\n"
        "if rank:\n"
        "    code = 'import gangstart; gangstart.barrier(20)'\n"
        "    done = subprocess.run([sys.executable, '-c', code], text=True,\n"
        "                          capture_output=True)\n"
        "    tell(said=done.stderr.splitlines()[-1])\n"
        "attempt(30)\n"
    )
    world.start_all(program)
    assert world.hear(1)["passed"] == 1
    assert "another process of this rank" in world.hear(1)["said"]
    assert world.hear(1)["passed"] == 2


def test_strangers_at_the_port_neither_enter_nor_keep_anybody_out(
    worlds: list[World], tmp_path: Path
) -> None:
    world = new_world(worlds, tmp_path, 2)
    places = ports(read_key(world.spool))
    with socket.create_server(("127.0.0.1", places[0])) as squatter:
        world.start(0, "attempt(40)\nattempt(40)\n")
        world.start(1, "attempt(40)\nwaiting()\nattempt(40)\n")
        assert [world.hear(rank)["passed"] for rank in (0, 1)] == [1, 1]
        squatter.settimeout(5)
        squatter.accept()[0].close()  # rank 1 had tried it, and gone on
    crowd = [socket.create_connection(("127.0.0.1", places[1])) for _ in range(20)]
    for one in crowd:
        one.sendall(b"\0" * 200)
    world.go(1)
    assert world.hear(1) == {"ready": True}
    assert [world.hear(rank)["passed"] for rank in (0, 1)] == [2, 2]
    for one in crowd:
        one.close()


def test_another_key_does_not_get_in(worlds: list[World], tmp_path: Path) -> None:
    world = new_world(worlds, tmp_path, 2)
    other = new_world(worlds, tmp_path, 2)
    real = (world.spool / NAME).read_bytes()
    world.start(0, "attempt(3)\n")
    made = real.replace(b"000102", b"ffffff")
    (other.spool / NAME).unlink()
    (other.spool / NAME).write_bytes(made)
    (other.spool / NAME).chmod(0o400)
    other.start(1, "attempt(2)\n")
    assert other.hear(1)["missing"] == [0]
    assert world.hear(0)["missing"] == [1]


@pytest.mark.parametrize(
    "timeout", [0, -1, float("nan"), float("inf"), 604801, True, "5", None, 10**400]
)
def test_a_bad_timeout_is_a_sentence(timeout: object) -> None:
    with pytest.raises(gangstart.GangstartError, match="seconds above 0 and up to"):
        gangstart.barrier(timeout)  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize("name", ["a\nb", "x" * 65, "ü", 5])
def test_a_bad_name_is_a_sentence(name: object) -> None:
    with pytest.raises(gangstart.GangstartError, match="printable ASCII"):
        gangstart.barrier(1, name=name)  # type: ignore[arg-type]  # on purpose


def test_a_key_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("{}")
    (tmp_path / NAME).chmod(0o644)
    with pytest.raises(gangstart.GangstartError, match="can be read by others"):
        read_key(tmp_path)


def test_the_key_shows_in_no_representation(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(f'{{"key": "{"ab" * 32}", "ports": [0, 0]}}')
    (tmp_path / NAME).chmod(0o400)
    assert "ab" not in repr(read_key(tmp_path)).replace("StepKey", "")
