"""A query in PromQL that somebody wrote, within bounds: range, points, series, time."""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gangstart.errors import GangstartError
from gangstart.triage.source import prometheus, promhttp
from gangstart.triage.source.promhttp import PrometheusError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gangstart.triage.model import Sample
    from gangstart.triage.source.prometheus import Window
    from gangstart.triage.source.promhttp import Server

RANGE_S = 7 * 86400.0
QUERY_CHARS = 2000
LABELS, LABEL_CHARS = 32, 200
#: Text between quotes, in which brackets mean nothing; PromQL's three kinds.
TEXT = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|`[^`]*`', re.DOTALL)
BRACKET = re.compile(r"\[([^\]]*)\]")
DURATION = re.compile(r"\s*(?:(\d{1,12})(ms|[smhdwy]))+\s*")
PART = re.compile(r"(\d{1,12})(ms|[smhdwy])")
SECONDS = {
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 7 * 86400.0,
    "y": 365 * 86400.0,
}
SUBQUERY_POINTS = 11_000  # what Prometheus itself allows of a range query


@dataclass(frozen=True)
class Found:
    """One series as Prometheus names it."""

    labels: Mapping[str, str]
    samples: tuple[Sample, ...]


def refuse(query: str, why: str) -> GangstartError:
    """Make the error for a query."""
    return GangstartError(f"promql {query[:80]!r}: {why}", exit_code=2)


def check(query: str) -> None:
    """Refuse what would make the server read without measure. Pure.

    Raises:
        GangstartError: it is too long, or a range in it is.

    """
    if not query.strip() or len(query) > QUERY_CHARS:
        raise refuse(query, f"1 to {QUERY_CHARS} characters are allowed")
    for match in BRACKET.finditer(TEXT.sub('""', query)):
        reach, _, step = match[1].partition(":")
        length = seconds(query, reach)
        if length > RANGE_S:
            raise refuse(
                query, f"[{match[1].strip()}] is longer than {RANGE_S / 86400:g} days"
            )
        if step.strip() and length > SUBQUERY_POINTS * seconds(query, step):
            raise refuse(
                query,
                f"[{match[1].strip()}] has more than {SUBQUERY_POINTS} steps",
            )


def seconds(query: str, text: str) -> float:
    """A duration such as 5m or 1h30m, or plain seconds."""
    plain = text.strip()
    if DURATION.fullmatch(text):
        return sum(int(n) * SECONDS[unit] for n, unit in PART.findall(plain))
    if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", plain):
        return float(plain)
    raise refuse(query, f"[{plain[:40]}] is no range such as [5m]")


def ask(server: Server, query: str, span: Window, deadline_s: float) -> list[Found]:
    """Values of a query over a range; no more than its points, and in time.

    Raises:
        GangstartError: the query or the server's address is refused.
        PrometheusError: no usable answer.

    """
    check(query)
    promhttp.check(server)
    begun = time.monotonic()
    form = {
        "query": query,
        "start": f"{span.start:.3f}",
        "end": f"{span.end:.3f}",
        "step": f"{span.step_s:g}",
        "timeout": f"{max(math.floor(deadline_s), 1)}s",
    }
    told = promhttp.ask(server, "/api/v1/query_range", form, deadline_s)
    rows = prometheus.result(told, "matrix")
    if time.monotonic() - begun > deadline_s:
        raise PrometheusError(f"it did not answer within {deadline_s:.3g} s")
    return [one(row) for row in rows]


def one(row: Mapping[str, Any]) -> Found:
    """One series of the answer."""
    labels, values = row.get("metric"), row.get("values")
    if not isinstance(labels, dict) or not isinstance(values, list):
        raise PrometheusError("a series without labels or values")
    known = {
        str(name)[:LABEL_CHARS]: str(value)[:LABEL_CHARS]
        for name, value in list(labels.items())[:LABELS]
    }
    return Found(known, tuple(prometheus.samples(values, 1.0)))
