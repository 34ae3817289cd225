"""The table of lines: each row takes its example, and no other row takes it first."""

from __future__ import annotations

import re

import pytest
from gangstart.triage.codes import CODES
from gangstart.triage.scan import scanner
from gangstart.triage.table import ROWS, Row


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.kind)
def test_the_example_is_taken_by_its_own_row(row: Row) -> None:
    line = row.example + "\n"
    tried = [r for r in ROWS if any(literal in line for literal in r.literals)]
    taken = [r.kind for r in tried if r.regex.search(row.example)]
    assert taken[:1] == [row.kind]


def test_the_scan_names_the_rows_of_every_example() -> None:
    block = "".join(f"nothing here\n{row.example}\n" for row in ROWS).encode()
    hits = list(scanner().hits(block))
    assert len(hits) == len(ROWS)
    for row, hit in zip(ROWS, hits, strict=True):
        assert block[hit.start : hit.end].decode() == row.example
        assert ROWS.index(row) in hit.rows


def test_kinds_are_unique_and_codes_are_known() -> None:
    kinds = [row.kind for row in ROWS]
    assert sorted(set(kinds)) == sorted(kinds)
    assert {row.code for row in ROWS} - {""} <= set(CODES)


def test_no_pattern_takes_seconds_on_a_hostile_line() -> None:
    """Nested repetition would: each pattern sees long lines made of its own words."""
    for row in ROWS:
        for literal in row.literals:
            line = (literal.strip() + " ") * (4000 // (len(literal) + 1))
            re.search(row.pattern, line)
