"""Times as logs write them, as seconds since 1970.

A time without a zone is one of this machine's (TZ), as Slurm's daemons, syslog and
logging write it: Slurm's records, start reports and Prometheus count from 1970.
Formats: ISO 8601 (Slurm, Python's logging), glog's E0314 (Abseil, PyTorch; without a
leading zero of the month too), syslog and dmesg -T.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache

ISO = re.compile(
    r"(?<![\d-])(\d{4})[-/](\d\d)[-/](\d\d)[T _](\d\d):(\d\d):(\d\d)"
    r"(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?"
)
GLOG = re.compile(
    r"(?<![A-Za-z0-9])[IWEF](1[0-2]|0?[1-9])([0-3]\d) (\d\d):(\d\d):(\d\d)"
    r"(?:\.(\d+))?"
)
SYSLOG = re.compile(
    r"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +(\d{1,2}) "
    r"(\d\d):(\d\d):(\d\d)(?: (\d{4}))?"
)
UPTIME = re.compile(r"^\[ *(\d+\.\d+)\]")
MONTHS = [
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
]
#: A line's time stands at its front; further on is text about other times.
FRONT = 120
LAST = 59  # minute of an hour


def _stamp(
    parts: list[int], fraction: str | None = None, *, utc: bool = False
) -> float | None:
    year, month, day, hour, minute, second = parts
    begin = _hour(year, month, day, hour, utc)
    if begin is None or minute > LAST:
        return None
    more = float(f"0.{fraction}") if fraction else 0.0
    return begin + minute * 60 + second + more


@lru_cache(maxsize=256)
def _hour(year: int, month: int, day: int, hour: int, utc: bool) -> float | None:  # noqa: FBT001 - to be remembered
    """When an hour began; a zone is looked up once for all lines of it."""
    zone = timezone.utc if utc else None
    try:
        return datetime(year, month, day, hour, tzinfo=zone).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def iso(text: str) -> float | None:
    """The first ISO time in ``text``; None without one."""
    found = ISO.search(text)
    if not found:
        return None
    zone = found[8]
    at = _stamp([int(found[i]) for i in range(1, 7)], found[7], utc=bool(zone))
    if at is None or zone in {None, "Z"}:
        return at
    shift = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
    seconds = shift.total_seconds()
    return at - seconds if zone[0] == "+" else at + seconds


def _glog(text: str, near: float | None) -> float | None:
    found = GLOG.search(text)
    if not found or near is None:
        return None
    parts = [int(found[i]) for i in range(1, 6)]
    return _closest(parts, found[6], near)


def _syslog(text: str, near: float | None) -> float | None:
    found = SYSLOG.search(text)
    if not found:
        return None
    parts = [MONTHS.index(found[1]) + 1, *(int(found[i]) for i in range(2, 6))]
    if found[6]:
        return _stamp([int(found[6]), *parts])
    return None if near is None else _closest(parts, None, near)


def _closest(parts: list[int], fraction: str | None, near: float) -> float | None:
    """A time without its year: the year that brings it closest to ``near``."""
    year = datetime.fromtimestamp(near, timezone.utc).year
    made = [_stamp([y, *parts], fraction) for y in (year - 1, year, year + 1)]
    known = [at for at in made if at is not None]
    return min(known, key=lambda at: abs(at - near)) if known else None


def line_time(text: str, near: float | None) -> float | None:
    """When a line was written; ``near``: a time of about then, for missing years."""
    front = text[:FRONT]
    at = iso(front)
    if at is not None:
        return at
    at = _glog(front, near)
    return at if at is not None else _syslog(front, near)


def duration(text: str) -> float | None:
    """Slurm's [D-]HH:MM:SS, MM:SS as seconds; None for UNLIMITED and the like."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?", text.strip())
    if not found:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
