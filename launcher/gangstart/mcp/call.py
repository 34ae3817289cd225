"""What a tool is given: where to look, the arguments, and until when."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gangstart.errors import GangstartError
from gangstart.triage import byjob
from gangstart.triage.model import Outcome
from gangstart.triage.source import ask
from gangstart.triage.source.record import parse_wanted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gangstart.report_find import Places
    from gangstart.triage.model import Json, SourceState
    from gangstart.triage.source.promhttp import Server


@dataclass(frozen=True)
class Site:
    """What whoever started the server has set, for all calls."""

    places: Places
    server: Server | None = None
    spool: str = ""  # as it was given

    def need_server(self) -> Server:
        """Prometheus. Raises GangstartError if there is none."""
        if self.server is None:
            raise GangstartError(
                "no Prometheus is configured: start the server with gangstart mcp "
                "--prometheus URL, or set GANGSTART_PROMETHEUS"
            )
        return self.server


@dataclass(frozen=True)
class Answer:
    """What a tool found: the object, and a remark beside it."""

    told: Json
    remark: str = ""


@dataclass(frozen=True)
class Call:
    """One call of a tool. Arguments fit its input schema."""

    site: Site
    given: Mapping[str, Any]
    deadline_s: float = byjob.DEADLINE_S
    begun: float = field(default_factory=time.monotonic)
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def left_s(self) -> float:
        """Seconds until the answer is due."""
        return max(self.begun + self.deadline_s - time.monotonic(), 0.1)

    def asked(self) -> byjob.Asked:
        """The job that is asked about, as triage takes it."""
        return byjob.Asked(
            self.given["job"],
            self.site.places,
            server=self.site.server,
            deadline_s=self.deadline_s,
            begun=self.begun,
        )

    def told(self) -> ask.Told:
        """What Slurm says of the job.

        Raises:
            GangstartError: the text is no job.

        """
        wanted = parse_wanted(self.given["job"])
        by, _ = byjob.here(self.asked())
        return ask.slurm(by, wanted)


def need_job(text: str, told: ask.Told) -> None:
    """Refuse a job that nobody knows of, and say who was asked.

    Raises:
        GangstartError: Slurm has no record of the job.

    """
    if told.job is None:
        said = "; ".join(f"{one.name}: {one.detail}" for one in told.states)
        silent = any(one.outcome is Outcome.UNREACHABLE for one in told.states)
        what = "Slurm cannot be asked about" if silent else "nobody knows of a"
        raise GangstartError(f"{what} job {text} ({said})")


def sources(states: Sequence[SourceState]) -> list[Json]:
    """What was looked at, as in triage's answer."""
    return [
        {
            "name": one.name,
            "outcome": one.outcome.value,
            "detail": one.detail,
            "took_s": one.took_s,
        }
        for one in states
    ]
