"""Records in the spool: one write per line, root's alone, no link followed."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from gangstart.check import record

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(name="spool")
def fresh(tmp_path: Path) -> record.Spool:
    return record.Spool(tmp_path / "spool", 501)


def test_each_event_is_a_line(spool: record.Spool) -> None:
    spool.append({"a": 1})
    spool.append({"b": "é\n\ud800"})
    raw = spool.path.read_bytes()
    assert raw.count(b"\n") == 2
    assert [json.loads(line) for line in raw.splitlines()] == spool.events()
    assert spool.events() == [{"a": 1}, {"b": "é\n\ud800"}]


def test_folders_and_file_can_be_read_by_all_and_written_by_one(
    spool: record.Spool,
) -> None:
    old = os.umask(0o077)
    try:
        spool.append({})
    finally:
        os.umask(old)
    for path in (spool.path.parent, spool.path.parent.parent):
        assert path.stat().st_mode & 0o777 == 0o755
    assert spool.path.stat().st_mode & 0o022 == 0


def test_an_event_is_one_write(
    spool: record.Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[bytes] = []

    def write(_fd: int, raw: bytes) -> int:
        written.append(raw)
        return len(raw)

    monkeypatch.setattr(os, "write", write)
    spool.append({"long": "x" * 100_000})
    assert len(written) == 1
    assert written[0].endswith(b"\n")


def test_a_link_in_place_of_the_file_is_not_followed(
    spool: record.Spool, tmp_path: Path
) -> None:
    spool.append({})
    spool.path.unlink()
    spool.path.symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"):
        spool.append({})
    assert not (tmp_path / "precious").exists()
    assert spool.events() == []


def test_a_link_in_place_of_a_folder_is_not_followed(
    spool: record.Spool, tmp_path: Path
) -> None:
    (tmp_path / "else").mkdir()
    spool.base.mkdir()
    (spool.base / "501.node").symlink_to(tmp_path / "else")
    with pytest.raises(OSError, match=r"directory|symbolic links"):
        spool.append({})
    assert list((tmp_path / "else").iterdir()) == []


def test_a_folder_that_others_may_write_to_is_refused(spool: record.Spool) -> None:
    spool.append({})
    spool.path.parent.chmod(0o777)
    with pytest.raises(OSError, match="others may write"):
        spool.append({})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(spool: record.Spool) -> None:
    spool.append({})
    os.chown(spool.path, 1001, 1001)
    with pytest.raises(OSError, match="another user"):
        spool.append({})


def test_a_fifo_in_place_of_the_file_does_not_hang(spool: record.Spool) -> None:
    spool.append({})
    spool.path.unlink()
    os.mkfifo(spool.path)
    with pytest.raises(OSError, match=r"No such device|not what it should be"):
        spool.append({})
    assert spool.events() == []


def test_lines_that_are_broken_are_passed_over(spool: record.Spool) -> None:
    spool.append({"a": 1})
    deep = b"[" * 100_000
    with spool.path.open("ab") as file:
        file.write(b"{\n[1]\n\xff\n" + deep + b'\n"x"\n{"b":2}\n{"cut')
    assert spool.events() == [{"a": 1}, {"b": 2}]


def test_only_the_end_of_a_huge_file_is_read(
    spool: record.Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "TAIL_BYTES", 64)
    for n in range(100):
        spool.append({"n": n})
    numbers = [event["n"] for event in spool.events()]
    assert numbers[-1] == 99
    assert len(numbers) < 10


def test_the_oldest_records_of_ended_jobs_go(tmp_path: Path) -> None:
    for job in range(1, 7):
        spool = record.Spool(tmp_path, job)
        stage = "prolog" if job == 2 else "epilog"
        spool.append({"event": "check", "stage": stage})
        os.utime(spool.path, (job, job))
    record.prune(tmp_path, keep=2)
    assert record.recorded_jobs(tmp_path) == [2, 5, 6]


def test_jobs_whose_epilog_never_came_do_not_pile_up(tmp_path: Path) -> None:
    for job in range(1, 5):
        record.Spool(tmp_path, job).append({"event": "check", "stage": "prolog"})
        os.utime(record.Spool(tmp_path, job).path, (job, job))
    record.prune(tmp_path, keep_open=3)
    assert sorted(record.open_jobs(tmp_path)) == [2, 3, 4]


def test_what_somebody_else_put_beside_a_record_stays(tmp_path: Path) -> None:
    spool = record.Spool(tmp_path, 1)
    spool.append({"event": "check", "stage": "epilog"})
    (spool.path.parent / "other").write_text("x")
    record.prune(tmp_path, keep=0)
    assert (spool.path.parent / "other").exists()


def test_a_spool_that_is_not_there_has_no_jobs(tmp_path: Path) -> None:
    record.prune(tmp_path / "missing")
    assert record.open_jobs(tmp_path / "missing") == {}
