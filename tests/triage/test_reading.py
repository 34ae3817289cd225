"""Logs as they come: packed, huge, hostile, interleaved; what is read stays bounded."""

from __future__ import annotations

import codecs
import gzip
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
import zstandard
from gangstart.errors import GangstartError
from gangstart.triage import offline, prefix
from gangstart.triage.gather import Log, Reading
from gangstart.triage.reader import BLOCK, blocks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TRACE = b"""2026-05-11 09:00:01 iter 10
[rank3]: Traceback (most recent call last):
[rank3]:   File "/opt/x/lib/python3.11/site-packages/torch/a.py", line 1, in f
[rank3]:   File "/users/u/train.py", line 42, in step
[rank3]: ValueError: bad batch
"""


def read(path: Path) -> Log:
    return offline.read_log(offline.LogFile(path, str(path)), Reading())[0]


def found(log: Log) -> list[tuple[str, int, int | None]]:
    return [(event.kind, event.place.line, event.rank) for event in log.events]


def packed(kind: str) -> bytes:
    made = {
        "plain": lambda: TRACE,
        "gz": lambda: gzip.compress(TRACE),
        "two gz": lambda: gzip.compress(TRACE[:60]) + gzip.compress(TRACE[60:]),
        "zst": lambda: zstandard.ZstdCompressor().compress(TRACE),
        "utf-16": lambda: codecs.BOM_UTF16_LE + TRACE.decode().encode("utf-16-le"),
        "crlf": lambda: TRACE.replace(b"\n", b"\r\n"),
        "latin": lambda: TRACE.replace(b"bad batch", b"bad batch \xe9"),
        "colours": lambda: TRACE.replace(b"ValueError", b"\x1b[1;31mValueError\x1b[0m"),
        "no end": lambda: TRACE.rstrip(b"\n"),
    }
    return made[kind]()


@pytest.mark.parametrize(
    "kind",
    ["plain", "gz", "two gz", "zst", "utf-16", "crlf", "latin", "colours", "no end"],
)
def test_the_exception_is_found_however_the_log_is_written(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "job.out"
    path.write_bytes(packed(kind))

    log = read(path)

    assert found(log) == [("exception", 5, 3)]
    assert log.events[0].fields["file"] == "/users/u/train.py"
    assert log.events[0].fields["line"] == "42"


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
@pytest.mark.parametrize("damage", ["cut", "overwritten"])
def test_a_damaged_packed_log_counts_up_to_there(
    pack: Callable[[bytes], bytes], damage: str, tmp_path: Path
) -> None:
    path = tmp_path / "job.out.packed"
    chance = random.Random(1)  # noqa: S311 - lines that hardly pack, the same each run
    lines = (b"%d nothing\n" % chance.getrandbits(400) for _ in range(60_000))
    whole = pack(b"".join(lines) + TRACE)
    half = len(whole) // 2
    rest = b"" if damage == "cut" else b"\xff" * (len(whole) - half)
    path.write_bytes(whole[:half] + rest)

    assert read(path).lines > 1000


def test_lines_keep_their_numbers_over_blocks(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    filler = b"x" * 99 + b"\n"
    count = 3 * BLOCK // len(filler)
    path.write_bytes(filler * count + TRACE + filler * count + b"KeyError: 'z'\n")

    log = read(path)

    assert found(log)[0] == ("exception", count + 5, 3)
    assert log.events[-1].place.line == 2 * count + 6


def test_a_line_without_an_end_is_read_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_bytes(b"\x00\xff" * (3 * BLOCK) + b"\n[rank1]: KeyError: 'z'\n")

    assert max(len(block.data) for block in blocks(path)) <= 2 * BLOCK
    assert found(read(path)) == [("exception", 2, 1)]


def test_memory_stays_bounded_on_a_giant_line_and_a_giant_traceback(
    tmp_path: Path,
) -> None:
    path = tmp_path / "job.out"
    with path.open("wb") as out:
        out.write(b"[rank0]: Traceback (most recent call last):\n")
        for _ in range(100_000):
            out.write(b'[rank0]:   File "/users/u/r.py", line 3, in again\n')
        for _ in range(12):
            out.write(b"ERROR CUDA out of memory NCCL WARN " * 30_000)
    program = (
        "import re,sys;from pathlib import Path;from gangstart.triage import offline;"
        "from gangstart.triage.gather import Reading;"
        "from gangstart.triage.scan import scanner;scanner();"
        "peak=lambda:int(re.search(r'VmHWM:\\s+(\\d+)',"
        "Path('/proc/self/status').read_text())[1]);before=peak();"
        "offline.read_log(offline.LogFile(Path(sys.argv[1]),''),Reading())\n"
        "print(peak()-before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, path],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )

    assert int(done.stdout) < 64 * 1024


def test_what_cannot_be_read_is_said_and_the_rest_still_counts(tmp_path: Path) -> None:
    good, gone = tmp_path / "a.out", tmp_path / "pipe"
    good.write_bytes(TRACE)
    gone.mkdir()
    trace = offline.empty("1")

    facts = offline.read_all(trace, [gone, good])

    assert [s.outcome.value for s in trace.sources] == ["unreachable", "used"]
    assert len(facts.events) == 1


def test_a_log_that_does_not_exist_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(GangstartError, match=r"there is no log .*nothing\.out"):
        offline.log_files([tmp_path / "nothing.out"])


def test_a_folder_stands_for_its_logs(tmp_path: Path) -> None:
    for name in ("b.out", "a.log.gz", "c.pt", "r.log.1"):
        (tmp_path / name).write_bytes(b"")

    assert [p.name for p in offline.log_files([tmp_path])] == [
        "a.log.gz",
        "b.out",
        "r.log.1",
    ]


@pytest.mark.parametrize(
    ("line", "rank", "text"),
    [
        ("[rank11]:   File", 11, "  File"),
        ("[1,3]<stderr>:boom", 3, "boom"),
        ("7: [rank7]: boom", 7, "boom"),
        ("cn01: [rank2]: boom", 2, "boom"),
        ("2026-01-01 00:00:00 | rank 5: boom", 5, "2026-01-01 00:00:00 | rank 5: boom"),
        ("nothing", None, "nothing"),
    ],
)
def test_prefixes_say_who_wrote_a_line(line: str, rank: int | None, text: str) -> None:
    head = prefix.split(line, frozenset({"cn01"}))

    assert (head.rank, head.text) == (rank, text)


def test_srun_labels_and_torchrun_prefixes_are_told_apart() -> None:
    assert prefix.split("12: boom").label == 12
    assert prefix.split("[default3]:boom").local_rank == 3


def test_interleaved_tracebacks_are_separated() -> None:
    log = Log("x", Reading())
    log.feed_lines(
        [
            "1: Traceback (most recent call last):",
            "0: Traceback (most recent call last):",
            '1:   File "/a.py", line 1, in f',
            '0:   File "/b.py", line 2, in g',
            "1: KeyError: 'one'",
            "0: KeyError: 'zero'",
        ]
    )

    assert [(e.fields["label"], e.fields["file"]) for e in log.events] == [
        ("1", "/a.py"),
        ("0", "/b.py"),
    ]


def test_threads_of_one_process_may_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_bytes(TRACE * 4000)

    with ThreadPoolExecutor(4) as pool:
        logs = list(pool.map(read, [path] * 8))

    assert found(logs[0])
    assert [found(log) for log in logs] == [found(logs[0])] * 8
