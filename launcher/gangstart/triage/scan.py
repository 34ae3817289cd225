"""Find the lines worth a look: every literal of the table in one pass.

The literals go into one vectorscan database (package ``hyperscan``), which reads a
block several times faster than a byte per nanosecond; the costly patterns see only
the lines that it names.
"""

from __future__ import annotations

from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from gangstart.triage.table import ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator


class Hit(NamedTuple):
    """A line with at least one literal: offsets in the block, rows to try."""

    start: int
    end: int
    rows: tuple[int, ...]


class Scanner:
    """All literals of the table, compiled."""

    def __init__(self) -> None:
        """Compile; about 50 ms."""
        # Slow to import, and only triage needs it.
        import hyperscan  # noqa: PLC0415

        # A database has room for one scan at a time; a second one would be refused.
        self._one_scan = Lock()
        owners: dict[bytes, list[int]] = {}
        for index, row in enumerate(ROWS):
            for literal in row.literals:
                owners.setdefault(literal.encode(), []).append(index)
        self.literals = list(owners)
        self._rows = [tuple(rows) for rows in owners.values()]
        self._database = hyperscan.Database()
        self._database.compile(
            expressions=self.literals,
            ids=list(range(len(self.literals))),
            elements=len(self.literals),
            flags=0,
            literal=True,
        )

    def hits(self, block: bytes) -> Iterator[Hit]:
        """Lines of ``block`` with a literal, in order, each once."""
        found: list[tuple[int, int]] = []
        add = found.append

        def matched(
            literal: int, _begin: int, end: int, _flags: int, _context: object
        ) -> None:
            add((end, literal))

        with self._one_scan:
            self._database.scan(block, match_event_handler=matched)
        yield from self._lines(block, found)

    def _lines(self, block: bytes, found: list[tuple[int, int]]) -> Iterator[Hit]:
        at, total = 0, len(found)
        while at < total:
            last = found[at][0] - 1
            start = block.rfind(b"\n", 0, last) + 1
            stop = block.find(b"\n", last)
            stop = len(block) if stop < 0 else stop
            rows: set[int] = set()
            while at < total and found[at][0] - 1 <= stop:
                rows.update(self._rows[found[at][1]])
                at += 1
            yield Hit(start, stop, tuple(sorted(rows)))


@lru_cache(maxsize=1)
def scanner() -> Scanner:
    """The scanner, compiled once per process."""
    return Scanner()
