"""Reading single values of Slurm's answers; nothing here trusts their types.

What is not what it should be is unknown (None, "") where a field may be missing, and
``GarbageError`` where the answer as a whole cannot be Slurm's.
"""

from __future__ import annotations

import math
import os
import re
from typing import TYPE_CHECKING, Any

from gangstart import core
from gangstart.errors import GangstartError
from gangstart.triage.source.record import BY_SIGNAL, Exit, GarbageError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Slurm's numbers for "no value" and "infinite" in 32 and 64 bits, which old releases
#: print as they are (slurm/slurm.h).
NO_VALUES = frozenset({0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF})
STATUS_MOST = 0xFFFF  # of wait(2)
NODES_MOST = 65536  # nodes of one job; Slurm's own limit (MAX_SLURM_NODES)
CANCELLED_BY = re.compile(r"CANCELLED by (\d{1,10})")
EXIT = re.compile(r"(\d{1,5}):(\d{1,3})")
EMPTY_WORDS = frozenset(
    {"", "(null)", "None", "N/A", "n/a", "None assigned", "Unknown", "NONE"}
)
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,6})?)([KMGTP]?)")


def number(value: object) -> float | None:
    """A number in any of the forms of Slurm's JSON; None if it is not set."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") is True else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return None if value in NO_VALUES or not math.isfinite(value) else value


def integer(value: object) -> int | None:
    """A whole number."""
    found = number(value)
    return None if found is None else int(found)


def moment(value: object) -> float | None:
    """A time: Slurm writes 0 for one that has not come."""
    found = number(value)
    return float(found) if found else None


def text(value: object) -> str:
    """A text; what Slurm writes for none is "" ."""
    if not isinstance(value, str) or value in EMPTY_WORDS:
        return ""
    return value


def words(value: object) -> tuple[str, ...]:
    """A list of words, or one word."""
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list):
        return ()
    return tuple(word for word in found if isinstance(word, str) and word)


def mapping(value: object) -> Mapping[str, Any]:
    """An object; empty if it is none."""
    return value if isinstance(value, dict) else {}


def objects(value: object) -> list[Mapping[str, Any]]:
    """A list of objects; GarbageError if something else is in it."""
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise GarbageError("a list of objects was expected")
    return value


def wait_status(status: int) -> Exit:
    """What wait(2) told."""
    if os.WIFSIGNALED(status):
        return Exit(0, os.WTERMSIG(status))
    return Exit(os.WEXITSTATUS(status))


def exit_json(value: object) -> Exit | None:
    """An exit code of Slurm's JSON: a status of wait(2), or code and signal."""
    plain = integer(value)
    if plain is not None:
        return wait_status(plain) if 0 <= plain <= STATUS_MOST else None
    parts = mapping(value)
    if not parts:
        return None
    signal = mapping(parts.get("signal"))
    number_of_it = integer(signal.get("id", signal.get("signal_id")))
    return Exit(integer(parts.get("return_code")) or 0, number_of_it or 0)


def exit_text(value: str, *, exact: bool) -> Exit | None:
    """CODE:SIGNAL; see `Exit` for what is exact."""
    match = EXIT.fullmatch(value)
    if not match:
        return None
    code, signal = int(match[1]), int(match[2])
    return Exit(code, signal, exact or not 0 < code < BY_SIGNAL)


def nodes(value: str) -> tuple[str, ...]:
    """Names of a node list, in Slurm's order."""
    if not text(value):
        return ()
    try:
        names = core.expand(value)
    except GangstartError as error:
        raise GarbageError(error.message) from error
    if len(names) > NODES_MOST:
        raise GarbageError(f"a list of {len(names)} nodes")
    return tuple(names)


def tres(value: object) -> dict[str, str]:
    """``cpu=4,mem=8G,gres/gpu=2`` as a mapping."""
    pairs = (part.partition("=") for part in text(value).split(","))
    return {name: amount for name, _, amount in pairs if name}


def state(value: object) -> tuple[str, tuple[str, ...], int | None]:
    """A job's state in any form: base state, flags, and who cancelled it."""
    found = words(value)
    if len(found) == 1:
        by = CANCELLED_BY.fullmatch(found[0])
        if by:
            return "CANCELLED", (), int(by[1])
        found = tuple(found[0].split("+"))
    return (found[0] if found else ""), tuple(found[1:]), None


def size(value: str) -> int | None:
    """Bytes of ``1234K``, as sacct prints them."""
    match = SIZE.fullmatch(value)
    return int(float(match[1]) * UNITS[match[2]]) if match else None


def minutes(value: float | None) -> float | None:
    """Seconds of a time limit, which Slurm counts in minutes."""
    return None if value is None else value * 60.0
