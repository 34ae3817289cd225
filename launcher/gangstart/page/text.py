"""Foreign text on a page: what would act on a screen is shown instead. Pure."""

from __future__ import annotations

import unicodedata
from datetime import datetime, timezone

MOST = 2000  # characters of one text: a line that is worth reading is shorter
MARKS_MOST = 3  # combining marks on one letter; more would cover the lines around
SENSIBLE = 1e15  # no time or value comes near: bytes of memory, seconds since 1970
#: Controls, formats such as the reversal of direction, surrogates, private use, not
#: assigned, line and paragraph separators.
UNFIT = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
COMBINING = {"Mn", "Me"}


def shown(text: str, most: int = MOST) -> str:
    """Text on one line whose controls are seen, and not obeyed; cut at `most`."""
    if text.isascii() and text.isprintable():
        return cut(text, most)
    made: list[str] = []
    marks = 0
    for char in text[: most + 1]:
        kind = unicodedata.category(char)
        marks = marks + 1 if kind in COMBINING else 0
        bad = kind in UNFIT or marks > MARKS_MOST
        made.append(pictured(char) if bad else char)
    return cut("".join(made), most)


def cut(text: str, most: int) -> str:
    """Text of at most `most` characters that ends in … if some are missing."""
    return text if len(text) <= most else text[: most - 1] + "…"


def pictured(char: str) -> str:
    """A character that must not act, by its number: ‹U+202E›."""
    return " " if char == "\t" else f"‹U+{ord(char):04X}›"


def known(value: float | None) -> float | None:
    """Give a number that can be drawn; None for what no clock or gauge tells."""
    fine = value is not None and abs(value) < SENSIBLE  # a NaN is not
    return value if fine else None


def utc(time: float | None, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """A moment in UTC; "" if it is not known or beyond the calendar."""
    try:
        when = datetime.fromtimestamp(time or 0.0, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return ""
    return when.strftime(form) if time is not None else ""


def number(value: float) -> str:
    """A value with at most four significant digits, large ones in full."""
    if abs(value) >= 1000:  # noqa: PLR2004  four digits
        return f"{value:.0f}"
    return f"{value:.4g}"


def plural(count: int, name: str) -> str:
    """Count and name: 1 node, 2 nodes."""
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def since_text(seconds: float) -> str:
    """Write a stretch of time as hours, minutes and seconds: 1:05:09."""
    hours, rest = divmod(round(max(seconds, 0.0)), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}"
