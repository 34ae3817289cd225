"""The GPUs' part of a check: who measures it, and who compares two samples.

The only place that knows the module gangstart.health.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from gangstart.check.result import VERDICTS, clean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MODULE = "gangstart.health"
MIB = 1 << 20
Event = dict[str, Any]

if TYPE_CHECKING:
    #: Earlier and present event of GPUs -> what differs, as mappings or dataclasses.
    #: Each has a verdict and a reason; whatever else it has is kept.
    Differences = Callable[[Event, Event], Sequence[Any]]


@dataclass(frozen=True)
class Health:
    """What is known of a node's GPUs; the shape of gangstart.health's answer."""

    verdict: str
    drain: bool
    none: bool
    sentence: str
    event: Event = field(default_factory=dict)


class Answer(Protocol):
    """What a measurement returns."""

    @property
    def verdict(self) -> str:
        """One of ok, unknown, warn, fail."""

    @property
    def drain(self) -> bool:
        """Whether the node should take no further job."""

    @property
    def none(self) -> bool:
        """Whether the node has no GPU."""

    @property
    def sentence(self) -> str:
        """All of it in one line."""

    @property
    def event(self) -> Event:
        """Everything that was read and found."""


class Measure(Protocol):
    """Looks at the GPUs."""

    def __call__(
        self,
        stage: str,
        *,
        conf: str | None,
        probe: str | None,
        gpus: Sequence[str] | None = None,
        kernel_log: str | None = None,
        deadline_s: float | None = None,
    ) -> Answer:
        """Measure once, within the deadline."""


def unknown(why: str) -> Health:
    """Return the answer of nobody who could look."""
    return Health("unknown", drain=False, none=False, sentence=why)


def of_module(name: str) -> Any:  # noqa: ANN401 - a function of another module
    """A function of gangstart.health, None if this build has none."""
    try:
        module = import_module(MODULE)
    except ModuleNotFoundError as error:
        if error.name != MODULE:
            raise
        return None
    return getattr(module, name, None)


def measure(
    stage: str,
    *,
    conf: str | None,
    probe: str | None,
    gpus: Sequence[str] | None = None,
    kernel_log: str | None = None,
    deadline_s: float | None = None,
) -> Answer:
    """Look at the GPUs; unknown if this build cannot."""
    function: Measure | None = of_module("measure")
    if function is None:
        return unknown("GPUs were not looked at: this gangstart was built without that")
    return function(
        stage,
        conf=conf,
        probe=probe,
        gpus=gpus,
        kernel_log=kernel_log,
        deadline_s=deadline_s,
    )


def comparer() -> Differences | None:
    """Who compares two events, None if this build cannot."""
    found: Differences | None = of_module("differences")
    return found


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
