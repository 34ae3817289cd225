"""The catalogue of GPU checks of the C core: gpucheck.h."""

from __future__ import annotations

from dataclasses import dataclass

from gangstart._core import lib
from gangstart.core import text


@dataclass(frozen=True)
class GpuCheck:
    """A GPU check and its defaults."""

    id: str
    title: str
    severity: str
    limit: int
    unit: str  # "": there is no limit to set
    grace_s: int
    retries: int
    at_end: bool
    source: str
    action: str


def catalogue() -> list[GpuCheck]:
    """Every GPU check, in the order of the core."""
    infos = (lib.gs_check_get(check) for check in range(lib.GS_CHECKS))
    return [
        GpuCheck(
            id=text(info.id),
            title=text(info.title),
            severity=text(lib.gs_severity_name(info.severity)),
            limit=int(info.limit),
            unit=text(info.unit),
            grace_s=int(info.grace_s),
            retries=int(info.retries),
            at_end=bool(info.at_end),
            source=text(info.source),
            action=text(info.action),
        )
        for info in infos
    ]
