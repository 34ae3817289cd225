"""Logs as blocks of whole lines, whatever is in them, in bounded memory.

Plain, .gz and .zst; UTF-16 with a mark is recoded; NULs and stray bytes stay. A block
has at most ``BLOCK`` bytes plus one line; a line longer than ``LONGEST`` is handed out
in pieces, so that a gigabyte without a line feed costs no more memory than a page.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, NamedTuple, cast

from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BLOCK = 1 << 20
LONGEST = 1 << 20

UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
GZIP_MAGIC = b"\x1f\x8b"


#: What unpacking raises on data that is cut short or damaged.
DAMAGED: tuple[type[Exception], ...] = (EOFError, gzip.BadGzipFile, zlib.error)


class Opened(NamedTuple):
    """A log, and what reading it may raise where it is damaged."""

    stream: IO[bytes]
    damaged: tuple[type[Exception], ...] = DAMAGED


class Block(NamedTuple):
    """Whole lines of a log."""

    data: bytes
    offset: int  # bytes of the (unpacked) log before it


@contextmanager
def opened(path: Path) -> Iterator[Opened]:
    """Open a log, unpacking it by what it holds rather than by its name.

    Raises:
        GangstartError: it is no regular file or cannot be read.

    """
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "is not a file"
        raise GangstartError(f"cannot read the log {path}: it {what}")
    with path.open("rb") as raw:
        magic = raw.read(4)
        raw.seek(0)
        if magic.startswith(GZIP_MAGIC):
            with gzip.open(raw) as unpacked:
                yield Opened(cast("IO[bytes]", unpacked))
        elif magic == ZSTD_MAGIC:
            import zstandard  # noqa: PLC0415 - only packed logs need it

            with zstandard.ZstdDecompressor().stream_reader(
                raw, read_across_frames=True
            ) as unpacked:
                yield Opened(cast("IO[bytes]", unpacked), (zstandard.ZstdError,))
        else:
            yield Opened(raw)


def pieces(stream: IO[bytes]) -> Iterator[bytes]:
    """What the stream holds, recoded to UTF-8 if it begins with a UTF-16 mark."""
    first = stream.read(BLOCK)
    name = UTF16.get(first[:2])
    if name is None:
        yield first
        while first:
            first = stream.read(BLOCK)
            yield first
        return
    decoder = codecs.getincrementaldecoder(name)("replace")
    first = first[2:]
    while first:
        yield decoder.decode(first).encode("utf-8", "replace")
        first = stream.read(BLOCK)


def blocks(path: Path) -> Iterator[Block]:
    """The log as blocks that end at a line feed, except pieces of overlong lines.

    A packed log that is cut short or damaged ends where it can be read no further.
    """
    rest, offset = b"", 0
    with opened(path) as log:
        for piece in _readable(log):
            data = rest + piece
            cut = data.rfind(b"\n") + 1
            if cut == 0 and len(data) > LONGEST:
                cut = _break(data)
            rest = data[cut:]
            if cut:
                yield Block(data[:cut], offset)
                offset += cut
    if rest:
        yield Block(rest, offset)


def _readable(log: Opened) -> Iterator[bytes]:
    """The pieces up to where unpacking fails: what came before still counts."""
    with suppress(*log.damaged):
        yield from pieces(log.stream)


def _break(data: bytes) -> int:
    """Where to cut an overlong line: at a carriage return or space near its end."""
    near = max(data.rfind(b"\r"), data.rfind(b" "))
    return near + 1 if near > len(data) - 4096 else len(data)
