"""Files in /dev/shm: who holds them, and removing only the one that was judged."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

import pytest
from check.fakenode import OURS, FakeNode, FakeProcess
from gangstart.check import scan, shm

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


@pytest.fixture(name="node")
def fake(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


def file(folder: Path, name: str, content: str = "x") -> shm.File:
    (folder / name).write_text(content)
    return next(one for one in shm.listed(folder) if one.name == name)


def holders(node: FakeNode) -> dict[str, list[int]]:
    scene = scan.scan(node.roots, None)
    return {
        item.name.rpartition("/")[2]: list(item.holders) for item in scene.node().shm
    }


def test_only_plain_files_are_shared_memory(tmp_path: Path) -> None:
    file(tmp_path, "nccl-1")
    (tmp_path / "link").symlink_to(tmp_path / "nccl-1")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    assert [one.name for one in shm.listed(tmp_path)] == ["nccl-1"]


def test_a_folder_that_is_not_there_has_none(tmp_path: Path) -> None:
    assert shm.listed(tmp_path / "missing") == []


def test_an_open_file_has_a_holder(node: FakeNode) -> None:
    file(node.roots.shm, "psm_1")
    path = str(node.roots.shm / "psm_1")
    node.add(9, FakeProcess(cgroup=OURS, files=[path]))
    assert holders(node) == {"psm_1": [9]}


def test_a_mapped_file_has_one_by_its_inode_not_by_its_name(node: FakeNode) -> None:
    mine = file(node.roots.shm, "torch_1")
    file(node.roots.shm, "torch_2")
    device = f"{os.major(mine.device):02x}:{os.minor(mine.device):02x}"
    maps = f"7f0-7f1 rw-s 0 {device} {mine.inode} /dev/shm/torch_2\n"
    node.add(9, FakeProcess(maps=maps))
    assert holders(node) == {"torch_1": [9], "torch_2": []}


def test_a_real_mapping_is_found(tmp_path: Path) -> None:
    roots = scan.Roots(shm=tmp_path, tmp=tmp_path / "none")
    path = tmp_path / "sem.x"
    path.write_bytes(b"x" * 4096)
    with path.open("r+b") as opened:
        held = mmap.mmap(opened.fileno(), 4096)
    own = scan.Reader(roots, {(f.device, f.inode) for f in shm.listed(tmp_path)}, {})
    me = own.read(os.getpid())
    held.close()
    assert me is not None
    # Root's own processes are of no job and not looked into.
    assert len(me.mapped) == (0 if os.getuid() == 0 else 1)


@pytest.mark.parametrize(
    ("name", "maker"),
    [
        ("nccl-x1Y2", "NCCL"),
        ("psm_1a2b", "PSM or Python"),
        ("torch_4711_93_0", "PyTorch"),
        ("VLLM_x", "vLLM"),
        ("sem.mp-1", "a semaphore"),
        ("anything", ""),
    ],
)
def test_a_name_tells_who_made_it(name: str, maker: str) -> None:
    assert shm.maker_of(name) == maker


def test_the_file_that_was_judged_is_removed(tmp_path: Path) -> None:
    one = file(tmp_path, "nccl-1")
    assert shm.remove(tmp_path, one, os.getuid()) == ""
    assert list(tmp_path.iterdir()) == []


def test_a_link_put_in_its_place_is_left_alone_and_so_is_its_target(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "shm"
    folder.mkdir()
    one = file(folder, "nccl-1")
    (tmp_path / "precious").write_text("x")
    (folder / "nccl-1").unlink()
    (folder / "nccl-1").symlink_to(tmp_path / "precious")
    assert shm.remove(folder, one, os.getuid()) == "it is no plain file any more"
    assert (tmp_path / "precious").exists()


def test_another_file_put_in_its_place_is_left_alone(tmp_path: Path) -> None:
    one = file(tmp_path, "nccl-1")
    (tmp_path / "nccl-2").write_text("new")
    (tmp_path / "nccl-2").replace(tmp_path / "nccl-1")
    assert shm.remove(tmp_path, one, os.getuid()) == "it is another file by now"
    assert (tmp_path / "nccl-1").read_text() == "new"


def test_a_file_of_another_user_is_left_alone(tmp_path: Path) -> None:
    one = file(tmp_path, "nccl-1")
    assert shm.remove(tmp_path, one, os.getuid() + 1) == "it is another user's"
    assert (tmp_path / "nccl-1").exists()


def test_a_file_that_is_gone_says_so(tmp_path: Path) -> None:
    one = file(tmp_path, "nccl-1")
    (tmp_path / "nccl-1").unlink()
    assert shm.remove(tmp_path, one, os.getuid()) == "No such file or directory"
