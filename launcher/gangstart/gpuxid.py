"""What an Xid of the NVIDIA driver means: the table of xid.h."""

from __future__ import annotations

from dataclasses import dataclass

from gangstart._core import lib
from gangstart.core import text

LARGEST = (1 << 32) - 1
XID_GROUPS = ("ignore", "app", "watch", "reset", "reboot")


@dataclass(frozen=True)
class XidInfo:
    """One row: what it is, and what has to be done about it."""

    number: int
    meaning: str
    group: str  # one of XID_GROUPS


def xid_info(number: int) -> XidInfo:
    """The row of the core's table; a number that is not in it is to be watched."""
    if not 0 <= number <= LARGEST:
        return XidInfo(number, "no number of an Xid", "watch")
    raw = lib.gs_xid_info(number)
    return XidInfo(number, text(raw.name), XID_GROUPS[int(raw.cls)])
