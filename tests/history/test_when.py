"""WHEN is what sacct's users type, and 7d."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING

import pytest
from gangstart.errors import GangstartError
from gangstart.history.when import moment

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = datetime.fromisoformat("2026-11-12T13:14:15+01:00").timestamp()
DAY = 86400.0


@pytest.fixture(autouse=True)
def _in_paris(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("7d", 7 * DAY),
        ("12h", 12 * 3600),
        ("90m", 5400),
        ("30s", 30),
        ("2w", 14 * DAY),
        (" 7D ", 7 * DAY),
        ("now", 0),
        ("now-7days", 7 * DAY),
        ("now-1day", DAY),
        ("now-2hours", 7200),
        ("now-3600", 3600),
        ("Now-1week", 7 * DAY),
    ],
)
def test_so_long_ago(text: str, ago: float) -> None:
    assert moment(text, NOW) == NOW - ago


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("2026-11-01", "2026-11-01T00:00:00+01:00"),
        ("2026-07-01", "2026-07-01T00:00:00+02:00"),  # summer time, then
        ("2026-11-01T08:30", "2026-11-01T08:30:00+01:00"),
        ("2026-11-01 08:30:10", "2026-11-01T08:30:10+01:00"),
        ("2026-11-01T08:30:10Z", "2026-11-01T08:30:10+00:00"),
        ("2026-11-01t08:30:10+05:30", "2026-11-01T08:30:10+05:30"),
        ("today", "2026-11-12T00:00:00+01:00"),
        ("midnight", "2026-11-12T00:00:00+01:00"),
        ("noon", "2026-11-12T12:00:00+01:00"),
        ("08:00", "2026-11-12T08:00:00+01:00"),
        ("8:00:01", "2026-11-12T08:00:01+01:00"),
        ("11/01", "2026-11-01T00:00:00+01:00"),
        ("07/31", "2026-07-31T00:00:00+02:00"),
        ("02/29/24", "2024-02-29T00:00:00+01:00"),
        ("11/01/25-08:15", "2025-11-01T08:15:00+01:00"),
    ],
)
def test_a_moment(text: str, means: str) -> None:
    assert moment(text, NOW) == datetime.fromisoformat(means).timestamp()


@pytest.mark.parametrize(
    "text",
    [
        *("", "yesterday-ish", "7", "7x", "d", "-7d", "now+1day", "now-", "٧d", "1e9"),
        *("2026-11-01T08", "2026-1-1", "7d7d", "\x1b[31m", "2026-11-01T08:00X"),
        "9" * 400,
    ],
)
def test_what_is_no_time_is_one_sentence_that_says_what_is(text: str) -> None:
    with pytest.raises(GangstartError) as caught:
        moment(text, NOW, "--until")
    assert caught.value.exit_code == 2
    assert caught.value.message.startswith("history: --until '")
    assert "now-7days" in caught.value.message
    assert "\x1b" not in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        *("2026-13-01", "2026-02-30", "02/30", "25:00", "08:61", "13/01"),
        *("0001-01-01", "2026-11-01T24:01", "999999999w"),
    ],
)
def test_a_time_that_there_is_not_is_said_to_be_none(text: str) -> None:
    try:
        moment(text, NOW)
    except GangstartError as error:
        assert error.exit_code == 2  # noqa: PT017 - some platforms know such times
        assert "no time that there is" in error.message  # noqa: PT017
    else:
        assert text in {"0001-01-01", "999999999w"}
