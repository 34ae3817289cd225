"""What the checks of a node say: findings, and the worst of them."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

#: From best to worst. What could not be looked at is worse than ok, never worse than
#: a problem that was seen, and alone never a reason to drain.
VERDICTS = ("ok", "unknown", "warn", "fail")
#: Controls, formats such as a reversal of direction, surrogates, line separators.
UNFIT = {"Cc", "Cf", "Cs", "Zl", "Zp"}
WORD_LIMIT = 200


@dataclass(frozen=True)
class Finding:
    """One thing that one check found; the fields are those of a GPU's finding too."""

    check: str
    verdict: str
    reason: str
    kind: str = "hit"  # hit, note, skipped
    subject: str = ""  # what it is about: a process, a file, a port
    value: str = ""
    limit: str = ""
    action: str = ""
    source: str = ""
    drain: bool = False


def worst(verdicts: Iterable[str]) -> str:
    """The worst of several; a word nobody knows counts as unknown."""
    known = (v if v in VERDICTS else "unknown" for v in verdicts)
    return max(known, key=VERDICTS.index, default="ok")


def clean(value: object, limit: int = WORD_LIMIT) -> str:
    """Text of a user, safe to show: one line, no control characters, not endless."""
    text = str(value)
    shown = "".join(
        "?" if unicodedata.category(char) in UNFIT else char for char in text[:limit]
    )
    return shown if len(text) <= limit else shown[: limit - 1] + "…"
