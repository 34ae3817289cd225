"""The step's directory on a node, whole files, and the way to the archive."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest
from core.c import ffi, lib, new, text

if TYPE_CHECKING:
    from pathlib import Path

UID, GID = os.geteuid(), os.getegid()
JOB, STEP = 7877, 3
root_only = pytest.mark.skipif(UID != 0, reason="only root gives directories away")


def create(base: Path, uid: int = UID, gid: int = GID) -> tuple[int, str]:
    """Make a step's directories; code and sentence."""
    error = new("gs_error")
    rc = lib.gs_spool_create(os.fsencode(base), JOB, STEP, uid, gid, error)
    return rc, text(error.text)


def write(folder: Path, name: str, *pieces: bytes) -> int:
    """Write a whole file piece by piece."""
    file, error = new("gs_spoolfile"), new("gs_error")
    rc = lib.gs_spoolfile_begin(file, os.fsencode(folder), name.encode(), error)
    if rc < 0:
        assert text(error.text)
        return int(rc)
    for piece in pieces:
        assert lib.gs_spoolfile_write(file, piece, len(piece)) == 0
    return int(lib.gs_spoolfile_commit(file))


def publish(base: Path, archive: Path | None, job: int = JOB) -> tuple[int, str]:
    """Run the epilog's part for node n7; code and sentence."""
    error = new("gs_error")
    to = os.fsencode(archive) if archive else b""
    rc = lib.gs_spool_publish(os.fsencode(base), to, job, b"n7", error)
    return rc, text(error.text)


def tree(folder: Path) -> list[str]:
    """Every file below a folder."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return a spool with one step's directories."""
    made = tmp_path / "run"
    assert create(made) == (0, "")
    return made


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    made = tmp_path / "archive"
    made.mkdir()
    return made


@pytest.fixture
def user(base: Path) -> Path:
    return base / "7877.3" / "user"


@pytest.fixture
def sys_(base: Path) -> Path:
    return base / "7877.3" / "sys"


def test_the_directories_are_made_and_making_them_again_is_fine(base: Path) -> None:
    assert sorted(p.name for p in (base / "7877.3").iterdir()) == ["sys", "user"]
    assert create(base) == (0, "")


@root_only
def test_user_belongs_to_the_user_and_nothing_else_does(tmp_path: Path) -> None:
    base = tmp_path / "run"
    assert create(base, 12345, 54321) == (0, "")
    step = base / "7877.3"
    owners = {p.name: p.stat().st_uid for p in (base, step, *step.iterdir())}
    assert owners == {"run": 0, "7877.3": 0, "sys": 0, "user": 12345}
    assert (step / "user").stat().st_gid == 54321
    assert create(base, 12345, 54321) == (0, "")


@pytest.mark.parametrize("what", ["file", "link"])
@pytest.mark.parametrize("where", ["7877.3", "7877.3/sys", "7877.3/user"])
def test_what_is_in_the_way_is_not_used(tmp_path: Path, what: str, where: str) -> None:
    base, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    elsewhere.mkdir()
    spot = base / where
    spot.parent.mkdir(parents=True)
    if what == "file":
        spot.touch()
    else:
        spot.symlink_to(elsewhere)
    code, sentence = create(base)
    assert code < 0
    assert sentence == f"{spot} is in the way: not a directory"
    assert list(elsewhere.iterdir()) == []


@root_only
@pytest.mark.parametrize("where", ["", "7877.3", "7877.3/sys"])
def test_a_directory_somebody_else_prepared_is_not_used(
    tmp_path: Path, where: str
) -> None:
    spot = tmp_path / "run" / where
    spot.mkdir(parents=True)
    os.chown(spot, 12345, 12345)
    code, sentence = create(tmp_path / "run")
    assert code < 0
    assert sentence == (
        f"{spot} must belong to uid 0 and be writable for nobody else "
        "(it is uid 12345's, mode 755)"
    )
    assert spot.stat().st_uid == 12345, "nor is it taken away"


def test_a_directory_that_others_may_write_is_not_used(tmp_path: Path) -> None:
    base = tmp_path / "run"
    base.mkdir()
    base.chmod(0o777)
    assert "mode 777" in create(base)[1]


def test_a_base_whose_parent_is_missing_is_told(tmp_path: Path) -> None:
    code, sentence = create(tmp_path / "a" / "b")
    assert code == -2
    assert sentence == f"cannot make {tmp_path}/a/b: No such file or directory"


def test_a_path_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    assert "is too long" in create(tmp_path / ("x" * lib.GS_PATH_SIZE))[1]
    room = ffi.new("char[]", 20)
    assert lib.gs_spool_path(b"/run", JOB, STEP, room, 12)
    assert text(room) == "/run/7877.3"
    assert not lib.gs_spool_path(b"/run", JOB, STEP, room, 11)


def test_a_file_appears_whole_and_replaces_an_older_one(sys_: Path) -> None:
    file, error = new("gs_spoolfile"), new("gs_error")
    assert write(sys_, "start.json", b"old") == 0
    lib.gs_spoolfile_begin(file, os.fsencode(sys_), b"start.json", error)
    lib.gs_spoolfile_write(file, b"new", 3)
    assert (sys_ / "start.json").read_bytes() == b"old"
    assert lib.gs_spoolfile_commit(file) == 0
    assert (sys_ / "start.json").read_bytes() == b"new"
    assert [p.name for p in sys_.iterdir()] == ["start.json"]
    lib.gs_spoolfile_cancel(file)
    assert (sys_ / "start.json").exists()


def test_a_cancelled_file_leaves_nothing(sys_: Path) -> None:
    file = new("gs_spoolfile")
    lib.gs_spoolfile_begin(file, os.fsencode(sys_), b"start.json", ffi.NULL)
    lib.gs_spoolfile_write(file, b"x", 1)
    lib.gs_spoolfile_cancel(file)
    lib.gs_spoolfile_cancel(file)
    assert list(sys_.iterdir()) == []


def test_a_link_in_the_place_of_the_file_is_replaced(
    sys_: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (sys_ / "start.json").symlink_to(victim)
    (sys_ / f".start.json.{os.getpid()}").symlink_to(victim)
    assert write(sys_, "start.json", b"x") == 0
    assert victim.read_bytes() == b"mine"
    assert not (sys_ / "start.json").is_symlink()


@pytest.mark.parametrize("name", ["", "a/b", "../x", "x" * 256])
def test_a_name_that_no_file_can_have_is_refused(sys_: Path, name: str) -> None:
    assert write(sys_, name, b"x") < 0
    assert list(sys_.iterdir()) == []


@pytest.mark.parametrize("size", [64, 200, 255])
def test_a_long_name_is_kept_to_the_last_character(sys_: Path, size: int) -> None:
    assert write(sys_, "x" * size, b"1") == 0
    assert [p.name for p in sys_.iterdir()] == ["x" * size]


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    file, error = new("gs_spoolfile"), new("gs_error")
    lib.gs_spoolfile_begin(file, os.fsencode(tmp_path / "no"), b"a", error)
    assert text(error.text) == (
        f"cannot write {tmp_path}/no/a: No such file or directory"
    )
    lib.gs_spoolfile_cancel(file)


def test_the_files_of_a_step_come_to_the_archive_and_the_spool_is_empty(
    base: Path, sys_: Path, user: Path, archive: Path
) -> None:
    write(sys_, "start.json", b'{"complete":true}')
    write(sys_, "node.jsonl", b"{}\n")
    (user / "heartbeat.jsonl").write_bytes(b"1\n")
    assert publish(base, archive) == (1, "")
    assert tree(archive) == [
        "7877.3/n7/sys/node.jsonl",
        "7877.3/n7/sys/start.json",
        "7877.3/n7/user/heartbeat.jsonl",
        "7877.3/start.json",
    ]
    assert list(base.iterdir()) == []


def test_a_nodes_own_report_is_not_the_steps(
    base: Path, sys_: Path, archive: Path
) -> None:
    write(sys_, "start.json", b'{"complete":false}' + b" " * 200 + b'"complete":true')
    publish(base, archive)
    assert tree(archive) == ["7877.3/n7/sys/start.json"]


def test_only_the_jobs_own_steps_are_touched(tmp_path: Path, archive: Path) -> None:
    base = tmp_path / "run"
    for name in ("7877.0", "7877.12", "78770.0", "787.0", "other"):
        (base / name / "sys").mkdir(parents=True)
    assert publish(base, archive) == (2, "")
    assert sorted(p.name for p in base.iterdir()) == ["787.0", "78770.0", "other"]


def test_without_an_archive_the_spool_is_only_emptied(base: Path, user: Path) -> None:
    (user / "x").write_bytes(b"1")
    assert publish(base, None) == (1, "")
    assert list(base.iterdir()) == []


def test_no_spool_at_all_is_nothing_to_do(tmp_path: Path) -> None:
    assert publish(tmp_path / "none", tmp_path) == (0, "")


def test_a_spool_that_is_no_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    code, sentence = publish(tmp_path / "run", tmp_path)
    assert code < 0
    assert sentence == f"cannot read {tmp_path}/run: Not a directory"


def test_links_pipes_and_sockets_of_the_user_are_removed_not_followed(
    base: Path, user: Path, archive: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"root's")
    (user / "link").symlink_to(secret)
    (user / "dangling").symlink_to(tmp_path / "nowhere")
    (user / "folder").symlink_to(tmp_path)
    os.mkfifo(user / "pipe")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(user / "door"))
    (user / "good").write_bytes(b"1")
    assert publish(base, archive) == (1, "")
    assert tree(archive) == ["7877.3/n7/user/good"]
    assert list(base.iterdir()) == []
    assert secret.read_bytes() == b"root's"


@root_only
def test_devices_of_the_user_are_removed_not_read(
    base: Path, user: Path, archive: Path
) -> None:
    zero = os.makedev(1, 5)
    try:
        os.mknod(user / "zero", 0o600 | 0o020000, zero)
    except PermissionError:
        pytest.skip("this container makes no devices")
    assert publish(base, archive) == (1, "")
    assert tree(archive) == []


def test_directories_of_the_user_are_removed_however_deep(
    base: Path, user: Path, archive: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").touch()
    for top in ("a", "b"):
        deep = user / top
        for level in range(60):
            deep = deep / f"d{level}"
        deep.mkdir(parents=True)
        (deep / "file").touch()
        (deep / "out").symlink_to(tmp_path / "outside")
    (user / "good").write_bytes(b"1")
    assert publish(base, archive) == (1, "")
    assert list(base.iterdir()) == []
    assert tree(archive) == ["7877.3/n7/user/good"]
    assert (tmp_path / "outside" / "kept").exists()


def test_user_itself_replaced_by_a_link_is_not_followed(
    base: Path, user: Path, archive: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").touch()
    user.rmdir()
    user.symlink_to(tmp_path / "outside")
    code, sentence = publish(base, archive)
    assert code < 0
    assert "cannot remove 7877.3" in sentence
    assert (tmp_path / "outside" / "kept").exists()
    assert tree(archive) == []


def test_of_too_many_files_only_some_come_but_all_go(
    base: Path, user: Path, archive: Path
) -> None:
    for i in range(lib.GS_PUBLISH_COUNT_MAX + 50):
        (user / f"f{i}").touch()
    assert publish(base, archive) == (1, "")
    assert len(tree(archive)) == lib.GS_PUBLISH_COUNT_MAX
    assert list(base.iterdir()) == []


def test_of_a_huge_file_only_the_beginning_comes(
    base: Path, user: Path, archive: Path
) -> None:
    with (user / "huge").open("wb") as huge:
        huge.truncate(lib.GS_PUBLISH_FILE_MAX * 100)
    assert publish(base, archive) == (1, "")
    kept = (archive / "7877.3" / "n7" / "user" / "huge").stat().st_size
    assert kept == lib.GS_PUBLISH_FILE_MAX
    assert list(base.iterdir()) == []


def test_names_of_any_length_come(base: Path, user: Path, archive: Path) -> None:
    names = ["x" * 255, "y" * 60, ".hidden", "blank and\nnewline"]
    for name in names:
        (user / name).touch()
    assert publish(base, archive) == (1, "")
    got = [p.name for p in (archive / "7877.3" / "n7" / "user").iterdir()]
    assert sorted(got) == sorted(names)


def test_what_the_archive_does_not_take_stays_and_the_rest_goes_on(
    tmp_path: Path, archive: Path
) -> None:
    base = tmp_path / "run"
    for step in ("7877.0", "7877.1"):
        for part in ("sys", "user"):
            (base / step / part).mkdir(parents=True)
            (base / step / part / "file").write_bytes(b"1")
    (archive / "7877.0" / "n7" / "user").mkdir(parents=True)
    # A directory in the place of the file: the archive cannot take it.
    (archive / "7877.0" / "n7" / "user" / "file").mkdir()
    (archive / "7877.0" / "n7" / "user" / "file" / "x").touch()
    code, sentence = publish(base, archive)
    assert code < 0
    assert sentence.startswith("cannot copy to the archive file: ")
    assert tree(base) == ["7877.0/user/file"]
    assert "7877.1/n7/user/file" in tree(archive)
    assert "7877.0/n7/sys/file" in tree(archive)


def test_an_archive_that_is_not_there_keeps_everything(base: Path, sys_: Path) -> None:
    write(sys_, "start.json", b'{"complete":true}')
    code, sentence = publish(base, base.parent / "none")
    assert code < 0
    assert sentence.startswith("cannot make ")
    assert (sys_ / "start.json").exists()
