"""The GPUs' part of a check: who measures it, and who compares two samples.

The only place that knows the module gangstart.gpulook.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from gangstart.check.result import VERDICTS, clean
from gangstart.gpuanswer import Health

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MIB = 1 << 20
Event = dict[str, Any]

if TYPE_CHECKING:
    #: Earlier and present event of GPUs, the site's file -> what differs, as mappings
    #: or dataclasses. Each has a verdict and a reason; whatever else it has is kept.
    Differences = Callable[[Event, Event, str | None], Sequence[Any]]


class Measure(Protocol):
    """Looks at the GPUs."""

    def __call__(
        self,
        stage: str,
        *,
        conf: str | None,
        probe: str | None,
        gpus: Sequence[str] | None = None,
        expected: int = 0,
        deadline_s: float | None = None,
    ) -> Health:
        """Measure once, within the deadline; expected = GPUs, 0 if not known."""


def unknown(why: str) -> Health:
    """Return the answer of nobody who could look."""
    return Health("unknown", drain=False, none=False, sentence=why, event={})


def measure(
    stage: str,
    *,
    conf: str | None,
    probe: str | None,
    gpus: Sequence[str] | None = None,
    expected: int = 0,
    deadline_s: float | None = None,
) -> Health:
    """Look at the GPUs."""
    from gangstart import gpulook as health  # noqa: PLC0415 - the C core, not for --explain

    return health.measure(
        stage,
        place=health.Place(conf=conf, probe=probe),
        devices=gpus,
        expected=expected,
        deadline_s=deadline_s,
    )


def differences(before: Event, after: Event, conf: str | None) -> Sequence[Any]:
    """What differs between two events of GPUs; the site says where the Xids are."""
    from gangstart import gpulook as health  # noqa: PLC0415 - the C core, not for --explain

    return health.differences(before, after, health.kernel_log_of(conf))


def from_record(recorded: object) -> Health | None:
    """The GPUs' part of a record, if it is one: as this check or the hook wrote it."""
    if not isinstance(recorded, dict) or recorded.get("verdict") not in VERDICTS:
        return None
    event = recorded.get("event")
    inner = event if isinstance(event, dict) else recorded
    if not isinstance(inner.get("gpus"), list):
        return None
    return Health(
        verdict=recorded["verdict"],
        drain=recorded.get("drain") is True,
        none=recorded.get("none", not inner["gpus"]) is True,
        sentence=clean(recorded.get("sentence", "")),
        event=inner,
    )


def memory_of(event: Event) -> dict[int, int]:
    """MiB of GPU memory per process, as far as the event tells of processes."""
    found: dict[int, int] = {}
    for gpu in rows(event, "gpus"):
        for process in rows(gpu, "processes"):
            pid, used = process.get("pid"), process.get("memory")
            if isinstance(pid, int) and isinstance(used, int):
                found[pid] = found.get(pid, 0) + used // MIB
    return found


def rows(part: object, name: str) -> list[dict[str, Any]]:
    """Objects of a list in an object; nothing if that is not what is there."""
    listed = part.get(name) if isinstance(part, dict) else None
    if not isinstance(listed, list):
        return []
    return [one for one in listed if isinstance(one, dict)]
