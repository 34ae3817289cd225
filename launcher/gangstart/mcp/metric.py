"""The tool that asks Prometheus: known quantities of nodes, or a query in PromQL."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gangstart.errors import GangstartError
from gangstart.mcp.call import Answer, need_job, sources
from gangstart.triage import byjob, startreport
from gangstart.triage.model import Outcome, SourceState
from gangstart.triage.source import archive, promql
from gangstart.triage.source.prometheus import Prometheus, Window, window
from gangstart.triage.source.promhttp import PrometheusError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gangstart.mcp.call import Call
    from gangstart.triage.model import Attempt, Json, Sample, Series
    from gangstart.triage.source import ask
    from gangstart.triage.source.promql import Found

SCHEMA, VERSION = "gangstart.metrics", 1
POINTS, SERIES = 60, 40
HOUR_S = 3600.0


def query_metrics(call: Call) -> Answer:
    """Ask within bounds."""
    server = call.site.need_server()
    query = call.given.get("promql")
    if (query is None) == ("quantities" not in call.given):
        raise GangstartError("query_metrics: give quantities or promql, one of them")
    if query is not None:
        promql.check(query)
    span, aliases, states = scope(call)
    if query is not None:
        begun = time.monotonic()
        try:
            rows = [plain(one) for one in promql.ask(server, query, span, call.left_s)]
        except PrometheusError as error:
            raise GangstartError(f"{server.shown}: {error}") from error
        took = round(time.monotonic() - begun, 3)
        outcome = Outcome.USED if rows else Outcome.EMPTY
        states.append(SourceState("prometheus", outcome, server.shown, took))
        return made(call, span, rows, states)
    if not aliases:
        raise GangstartError(
            "query_metrics: quantities are of nodes: name them (nodes), or a job"
        )
    found, state = Prometheus(server, call.left_s).series(
        aliases, span, call.given["quantities"]
    )
    if not found and state.outcome is Outcome.UNREACHABLE:
        raise GangstartError(state.detail)
    return made(call, span, [known(one) for one in found], [*states, state])


def made(
    call: Call, span: Window, rows: Sequence[Json], states: Sequence[SourceState]
) -> Answer:
    """Put the answer together; series without values say nothing."""
    most = call.given.get("series", SERIES)
    told = [one for one in rows if one["samples"]]
    return Answer(
        {
            "schema": SCHEMA,
            "version": VERSION,
            "start": span.start,
            "end": span.end,
            "step_s": span.step_s,
            "series": told[:most],
            "left_out": max(len(told) - most, 0),
            "sources": sources(states),
        }
    )


def scope(call: Call) -> tuple[Window, dict[str, str], list[SourceState]]:
    """Range of time, nodes with all their names, and what was asked for them."""
    names: Sequence[str] = call.given.get("nodes", ())
    aliases = {name: name for name in names}
    now, states = time.time(), []
    span = Window(now - HOUR_S, now)
    if "job" in call.given:
        told = call.told()
        need_job(call.given["job"], told)
        states = told.states
        span = of_run(told.job.attempts[-1:] if told.job else (), now)
        if not names:
            aliases = of_job(call, told)
    start = call.given.get("start", span.start)
    end = call.given.get("end", span.end if start < span.end else start + HOUR_S)
    if not 0 < end - start <= promql.RANGE_S:
        raise GangstartError(
            f"query_metrics: from {start:.0f} to {end:.0f} is not a range of up to "
            f"{promql.RANGE_S / 86400:g} days (start, end: seconds since 1970)"
        )
    return Window(start, end, call.given.get("points", POINTS)), aliases, states


def of_run(runs: Sequence[Attempt], now: float) -> Window:
    """The time around the end of a job's last run."""
    run = runs[-1] if runs else None
    return window(run.start if run else None, run.end if run else None, now)


def of_job(call: Call, told: ask.Told) -> dict[str, str]:
    """Names and addresses of a job's nodes; addresses are in the start report."""
    if told.job is None:
        return {}
    names = {name: name for name in told.job.nodes}
    kept, _ = archive.read(told.records[-1].number, call.site.places)
    chosen = byjob.chosen(kept.reports, told.job, call.asked().step)
    return names | (startreport.layout(chosen.told).address_node if chosen else {})


def known(one: Series) -> Json:
    """A series of a known quantity."""
    return {
        "quantity": one.quantity,
        "unit": one.unit,
        "node": one.node,
        "device": one.device,
        "labels": None,
        "query": one.query,
        "samples": pairs(one.samples),
    }


def plain(one: Found) -> Json:
    """A series of a query: nobody says what it means."""
    return {
        "quantity": None,
        "unit": "",
        "node": "",
        "device": "",
        "labels": dict(one.labels),
        "query": "",
        "samples": pairs(one.samples),
    }


def pairs(samples: Sequence[Sample]) -> list[list[float]]:
    """Time and value."""
    return [[one.time, one.value] for one in samples]
