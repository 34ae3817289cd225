"""Lines of a log around a number, a time or its end."""

from __future__ import annotations

import gzip
import time
from typing import TYPE_CHECKING

import pytest
import zstandard
from gangstart.errors import GangstartError
from gangstart.triage import reader
from gangstart.triage.offline import LogFile, empty, read_all
from gangstart.triage.window import LINE_CHARS, Around, EndedError, Log, shown

if TYPE_CHECKING:
    from pathlib import Path

    from gangstart.triage.window import Window


def log(path: Path, data: bytes) -> Log:
    path.write_bytes(data)
    return Log(path, "the log", time.monotonic() + 60)


def texts(window: Window) -> list[tuple[int, str]]:
    return [(one.number, shown(one).text) for one in window.lines]


def numbered(count: int, pad: str = "") -> bytes:
    return "".join(f"line {number}{pad}\n" for number in range(1, count + 1)).encode()


def test_a_line_with_those_around_it(tmp_path: Path) -> None:
    found = log(tmp_path / "a", numbered(9)).window(Around(1, 2, line=5))

    assert texts(found) == [(n, f"line {n}") for n in (4, 5, 6, 7)]
    assert found.more_after


def test_the_end_of_a_log(tmp_path: Path) -> None:
    found = log(tmp_path / "a", numbered(9) + b"no line feed").window(Around(1, 5))

    assert texts(found) == [(9, "line 9"), (10, "no line feed")]
    assert (found.line, found.more_after) == (10, False)


@pytest.mark.parametrize("data", [b"\n", b"\n\n", b"a\n\n\nb", b"a\n\n"])
def test_empty_lines_count(tmp_path: Path, data: bytes) -> None:
    found = log(tmp_path / "a", data).window(Around(9, 9, line=1))
    assert [one for _, one in texts(found)] == data.decode().splitlines()


def test_an_empty_log(tmp_path: Path) -> None:
    found = log(tmp_path / "a", b"").window(Around(1, 1))
    assert (found.line, found.lines, found.note) == (None, [], "the log is empty")


def test_lines_far_down_and_across_blocks(tmp_path: Path) -> None:
    count = 3 * reader.BLOCK // 100
    one = log(tmp_path / "a", numbered(count, "x" * 90))
    for line in (1, 2, count // 3, count // 2, count - 1, count):
        found = one.window(Around(3, 3, line=line))
        assert [n for n, _ in texts(found)] == [
            n for n in range(line - 3, line + 4) if 1 <= n <= count
        ]
        assert all(text.startswith(f"line {n}x") for n, text in texts(found))


def test_numbers_are_those_that_triage_cites(tmp_path: Path) -> None:
    long = b"y" * (3 * reader.LONGEST) + b"\n"
    data = numbered(50) + long + numbered(20) + b"[rank1]: KeyError: 'x'\n"
    one = log(tmp_path / "a", data)
    facts = read_all(empty("7"), [LogFile(one.path, "a")])
    (event,) = facts.trace.events

    found = one.window(Around(0, 0, line=event.place.line))

    assert event.place.line == 72
    assert texts(found) == [(72, "[rank1]: KeyError: 'x'")]


def test_a_huge_line_is_cut(tmp_path: Path) -> None:
    one = log(tmp_path / "a", b"a\n" + b"\0" * (8 * reader.LONGEST) + b"\nb\n")
    (_, huge, _) = one.window(Around(1, 1, line=2)).lines

    assert huge.size == 8 * reader.LONGEST
    assert shown(huge) == (r"\x00" * (LINE_CHARS // 4), True)


@pytest.mark.parametrize("kind", ["gz", "zst", "utf-16"])
def test_packed_and_recoded_logs(tmp_path: Path, kind: str) -> None:
    plain = numbered(2000)
    packed = {
        "gz": gzip.compress(plain),
        "zst": zstandard.ZstdCompressor().compress(plain),
        "utf-16": plain.decode().encode("utf-16"),
    }[kind]
    found = log(tmp_path / "a", packed).window(Around(0, 0, line=1999))
    assert texts(found) == [(1999, "line 1999")]


def dated(count: int) -> bytes:
    """A line each second; each tenth without a time."""
    rows = (
        "no time here"
        if number % 10 == 0
        else f"2026-05-11 {number // 3600:02}:{number // 60 % 60:02}:{number % 60:02} x"
        for number in range(count)
    )
    return "\n".join([*rows, ""]).encode()


MIDNIGHT = 1778457600  # 2026-05-11 UTC


def test_a_time_in_a_long_log(tmp_path: Path) -> None:
    one = log(tmp_path / "a", dated(80_000))
    for second in (0, 1, 777, 43_210, 79_999):
        found = one.window(Around(0, 0, time=MIDNIGHT + second))
        exact = second if second % 10 else second + 1
        assert found.line == exact + 1
        assert found.note == ""


def test_a_time_after_the_end_is_said(tmp_path: Path) -> None:
    found = log(tmp_path / "a", dated(99)).window(Around(1, 0, time=MIDNIGHT + 9999))
    assert found.line == 99
    assert "before the one that was asked" in found.note


def test_a_log_without_times_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GangstartError, match=r"begins with a time that is known"):
        log(tmp_path / "a", numbered(9)).window(Around(0, 0, time=MIDNIGHT))


def test_a_line_beyond_the_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GangstartError, match="the log has 9 lines, not 10"):
        log(tmp_path / "a", numbered(9)).window(Around(5, 0, line=10))
    with pytest.raises(GangstartError, match="the log has 9 lines, not 1000"):
        log(tmp_path / "a", numbered(9)).window(Around(5, 0, line=1000))


def test_reading_ends_when_the_time_is_up_or_nobody_waits(tmp_path: Path) -> None:
    one = log(tmp_path / "a", numbered(9))
    one.end = time.monotonic() - 1
    with pytest.raises(GangstartError, match="the time was up"):
        one.window(Around(0, 0))
    one.ended = lambda: True
    with pytest.raises(EndedError):
        one.window(Around(0, 0))
