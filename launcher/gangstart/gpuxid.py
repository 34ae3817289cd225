"""What an Xid of the NVIDIA driver means: the table of xid.h."""

from __future__ import annotations

from dataclasses import dataclass

from gangstart._core import lib
from gangstart.core import text

XID_GROUPS = ("ignore", "app", "watch", "reset", "reboot")


@dataclass(frozen=True)
class XidInfo:
    """One row: what it is, and what has to be done about it."""

    number: int
    meaning: str
    group: str  # one of XID_GROUPS


def xid_info(number: int) -> XidInfo:
    """The row of the core's table; a number that is not in it is to be watched."""
    raw = lib.gs_xid_info(number)
    return XidInfo(number, text(raw.name), XID_GROUPS[int(raw.cls)])
