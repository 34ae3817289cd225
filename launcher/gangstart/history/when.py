"""WHEN as sacct takes it, and shorter. Pure: the present moment is an argument."""

from __future__ import annotations

import re
from datetime import datetime, timezone

from gangstart.errors import GangstartError

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
LONG = "seconds?|minutes?|hours?|days?|weeks?"
AGO = re.compile(r"(\d{1,9})([smhdw])", re.ASCII)
NOW = re.compile(rf"now(?:-(\d{{1,9}})({LONG})?)?", re.ASCII)
CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?", re.ASCII)
DATE = re.compile(
    r"(\d{1,2})/(\d{1,2})(?:/(\d\d))?(?:-(\d{1,2}):(\d\d)(?::(\d\d))?)?", re.ASCII
)
ISO = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?)?",
    re.ASCII | re.IGNORECASE,
)
ALLOWED = (
    "use 7d, 12h, 90m, now-7days, today, 2026-11-01, 2026-11-01T08:00[:00][Z], "
    "11/01[/26][-08:00] or 08:00"
)
HOURS = {"today": 0, "midnight": 0, "noon": 12, "fika": 15, "teatime": 16}


def moment(text: str, now: float, option: str = "--since") -> float:
    """Seconds since 1970 of a moment as sacct(1) takes it, or of 7d (ago).

    `now`: seconds since 1970. Without a zone it is this machine's time. Raises
    GangstartError if the text is none, or a moment that there is not.
    """
    word = text.strip()
    for read in (ago, from_now, named, clock, date, iso):
        try:
            found = read(word, now)
        except (ValueError, OverflowError, OSError) as error:
            raise GangstartError(
                f"history: {option} {text[:40]!r} is no time that there is: {ALLOWED}",
                exit_code=2,
            ) from error
        if found is not None:
            return found
    raise GangstartError(
        f"history: {option} {text[:40]!r} is no time: {ALLOWED}", exit_code=2
    )


def here(now: float) -> datetime:
    """The present on this machine's clock, without a zone: its rules hold any day."""
    local = datetime.fromtimestamp(now, timezone.utc).astimezone()
    return local.replace(tzinfo=None, microsecond=0)


def ago(word: str, now: float) -> float | None:
    """7d: that long before now."""
    match = AGO.fullmatch(word.lower())
    return now - int(match[1]) * UNITS[match[2]] if match else None


def from_now(word: str, now: float) -> float | None:
    """now, now-7days, now-3600."""
    match = NOW.fullmatch(word.lower())
    if not match:
        return None
    unit = (match[2] or "seconds")[0]
    return now - int(match[1] or 0) * UNITS[unit]


def named(word: str, now: float) -> float | None:
    """today, midnight, noon, fika, teatime."""
    hour = HOURS.get(word.lower())
    return None if hour is None else at_clock(here(now), (str(hour),)).timestamp()


def clock(word: str, now: float) -> float | None:
    """08:00: of today."""
    match = CLOCK.fullmatch(word)
    return at_clock(here(now), match.groups()).timestamp() if match else None


def date(word: str, now: float) -> float | None:
    """11/01[/26][-08:00]: of this year if none is said."""
    match = DATE.fullmatch(word)
    if not match:
        return None
    today = here(now)
    month, day, year, *hours = match.groups()
    chosen = today.year if year is None else 2000 + int(year)
    at = at_clock(today.replace(day=1), hours)
    return at.replace(chosen, int(month), int(day)).timestamp()


def iso(word: str, _now: float) -> float | None:
    """2026-11-01[T08:00[:00][Z]]."""
    if not ISO.fullmatch(word):
        return None
    return datetime.fromisoformat(word.upper().replace("Z", "+00:00")).timestamp()


def at_clock(
    day: datetime, parts: tuple[str | None, ...] | list[str | None]
) -> datetime:
    """Return a time of a day: hour, minute, second, as far as they are said."""
    hour, minute, second = (int(part or 0) for part in (*parts, None, None)[:3])
    return day.replace(hour=hour, minute=minute, second=second, microsecond=0)
