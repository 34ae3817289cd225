"""Logs as blocks of whole lines, whatever is in them, in bounded memory.

Plain, .gz and .zst; UTF-16 with a mark is recoded; NULs and stray bytes stay. A block
has at most ``BLOCK`` bytes plus one line; a line longer than ``LONGEST`` is handed out
in pieces, so that a gigabyte without a line feed costs no more memory than a page.
"""

from __future__ import annotations

import codecs
import gzip
from contextlib import contextmanager
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


class Block(NamedTuple):
    """Whole lines of a log."""

    data: bytes
    line: int  # number of its first line, from 1
    offset: int  # bytes of the (unpacked) log before it


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
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
                yield cast("IO[bytes]", unpacked)
        elif magic == ZSTD_MAGIC:
            import zstandard  # noqa: PLC0415 - only packed logs need it

            with zstandard.ZstdDecompressor().stream_reader(
                raw, read_across_frames=True
            ) as unpacked:
                yield cast("IO[bytes]", unpacked)
        else:
            yield raw


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
    rest, line, offset = b"", 1, 0
    with opened(path) as stream:
        for piece in _readable(pieces(stream)):
            data = rest + piece
            cut = data.rfind(b"\n") + 1
            if cut == 0 and len(data) > LONGEST:
                cut = _break(data)
            rest = data[cut:]
            if cut:
                made = data[:cut]
                yield Block(made, line, offset)
                line += made.count(b"\n")
                offset += cut
    if rest:
        yield Block(rest, line, offset)


def _readable(source: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces up to where unpacking fails: what came before still counts."""
    try:
        yield from source
    except (EOFError, gzip.BadGzipFile):
        return
    except Exception as error:
        # zstandard's own error type, without importing the package for plain logs.
        if type(error).__name__ != "ZstdError":
            raise


def _break(data: bytes) -> int:
    """Where to cut an overlong line: at a carriage return or space near its end."""
    near = max(data.rfind(b"\r"), data.rfind(b" "))
    return near + 1 if near > len(data) - 4096 else len(data)
