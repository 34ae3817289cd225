"""Prometheus's HTTP API: how the nodes and GPUs of a job were around its end.

Each group of metrics is asked for on its own, nodes in batches, first how many series
there are and then their values, so that no answer is without measure. Values come at
whole steps of the range: each is the newest one up to its moment, at most five minutes
old (Prometheus's lookback), so a time is late by up to one scrape.
"""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from gangstart.triage.model import Outcome, Sample, Series, SourceState
from gangstart.triage.source import metrics, promhttp
from gangstart.triage.source.promhttp import PrometheusError, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    Ask = Callable[[str, Mapping[str, str], float], dict[str, Any]]

DEADLINE_S = 10.0
POINTS = 240  # of one series: a picture's width
STEP_LEAST_S = 15.0  # what most sites scrape by
STEPS_S = (15, 30, 60, 120, 300, 600, 1200, 1800, 3600)
NODES_AT_ONCE = 32
SERIES_MOST = 4000  # of one query; 32 nodes with 8 GPUs have 256 of one metric
SAMPLES_MOST = 2_000_000  # of all queries together
VALUE_LENGTH = 64
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,254}")


@dataclass(frozen=True)
class Window:
    """A range of time."""

    start: float
    end: float
    points: int = POINTS

    @property
    def step_s(self) -> float:
        """Distance of the values, so that a series has about `points` at most."""
        least = max((self.end - self.start) / self.points, STEP_LEAST_S)
        return float(
            next((step for step in STEPS_S if step >= least), math.ceil(least))
        )


def window(start: float | None, end: float | None, now: float) -> Window:
    """What to ask of a job: its last hour, and a while before its start. Pure.

    The last hour and five minutes more: what brings a job down shows before it ends,
    and its teardown after.
    """
    last = min(end or now, now)
    first = max(start - 600, last - 3600) if start else last - 3600
    return Window(min(first, last - 300), min(last + 300, now))


@dataclass(frozen=True)
class Query:
    """One selector, of some nodes."""

    names: tuple[str, ...]
    nodes: tuple[str, ...]

    def parts(self) -> list[str]:
        """PromQL: the metrics of these nodes, by each label that may name a node."""
        metric = "|".join(self.names)
        pattern = "(?i:" + "|".join(escaped(node) for node in self.nodes) + ")"
        pattern += r"([.][^:]*)?(:[0-9]+)?"
        return [
            f'{{__name__=~"{metric}",{label}=~"{pattern}"}}'
            for label in metrics.NODE_LABELS
        ]


def escaped(name: str) -> str:
    """A node's name in a pattern in double quotes; PromQL has no other characters."""
    return name.replace(".", "[.]")


@dataclass
class Prometheus:
    """A server, asked with a deadline for all queries together."""

    server: Server
    deadline_s: float = DEADLINE_S
    ask: Ask | None = None
    samples: int = 0

    def __post_init__(self) -> None:
        """Raises GangstartError if the address or the way to log in is refused."""
        promhttp.check(self.server)

    def series(
        self,
        aliases: Mapping[str, str],
        span: Window,
        wanted: Collection[str] = (),
    ) -> tuple[list[Series], SourceState]:
        """Quantities of some nodes, without `wanted` all known ones; never raises.

        `aliases` maps names and addresses of a node to its name in Slurm.
        """
        begun = time.monotonic()
        end = begun + self.deadline_s
        known = sorted(name for name in aliases if NODE_NAME.fullmatch(name))
        lower = {name.lower(): node for name, node in aliases.items()}
        found: list[Series] = []
        troubles: list[str] = []
        for query in queries(known, wanted):
            more, trouble = self._tried(query, lower, span, end)
            found += more
            troubles += [trouble] if trouble else []
            if trouble and (time.monotonic() >= end or not found):
                break
        made = merged(with_index(found))
        took = time.monotonic() - begun
        return made, self._state(made, troubles, took)

    def _tried(
        self, query: Query, aliases: Mapping[str, str], span: Window, end: float
    ) -> tuple[list[Series], str]:
        """Series of one query, or why there are none."""
        try:
            return self._series(query, aliases, span, end), ""
        except PrometheusError as error:
            return [], str(error)

    def _state(
        self, found: Sequence[Series], troubles: Sequence[str], took: float
    ) -> SourceState:
        """Say how it went."""
        where = self.server.shown
        why = "; ".join(dict.fromkeys(troubles))
        if not found:
            outcome = Outcome.UNREACHABLE if why else Outcome.EMPTY
            told = why or "no known metric of these nodes in that time"
            return SourceState("prometheus", outcome, f"{where}: {told}", took)
        quantities = len({one.quantity for one in found})
        told = f"{len(found)} series of {quantities} quantities"
        partly = f", not all: {why}" if why else ""
        return SourceState("prometheus", Outcome.USED, f"{where}: {told}{partly}", took)

    def _series(
        self, query: Query, aliases: Mapping[str, str], span: Window, end: float
    ) -> list[Series]:
        """One query: its count, then its values."""
        parts = query.parts()
        count = self._count(parts, span, end)
        if count == 0:
            return []
        if count > SERIES_MOST:
            raise PrometheusError(
                f"{count} series of {query.names[0]} and others on {len(query.nodes)} "
                f"nodes, more than {SERIES_MOST}: name fewer nodes"
            )
        form = {
            "query": " or ".join(parts),
            "start": f"{span.start:.3f}",
            "end": f"{span.end:.3f}",
            "step": f"{span.step_s:g}",
        }
        told = self._ask("/api/v1/query_range", form, end)
        rows = result(told, "matrix")
        made = [self._one(row, aliases) for row in rows]
        return [one for one in made if one is not None]

    def _count(self, parts: Sequence[str], span: Window, end: float) -> int:
        """How many series a range query would give."""
        seconds = max(int(span.end - span.start), 1)
        inside = " or ".join(f"last_over_time({part}[{seconds}s])" for part in parts)
        form = {"query": f"count({inside})", "time": f"{span.end:.3f}"}
        rows = result(self._ask("/api/v1/query", form, end), "vector")
        try:
            return int(float(rows[0]["value"][1])) if rows else 0
        except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
            raise PrometheusError(
                "its count is no number: is it Prometheus?"
            ) from error

    def _ask(self, path: str, form: dict[str, str], end: float) -> dict[str, Any]:
        """Ask within what is left of the time."""
        left = end - time.monotonic()
        if left <= 0:
            raise PrometheusError(
                f"not all was answered within {self.deadline_s:.3g} s"
            )
        form["timeout"] = f"{max(math.ceil(left), 1)}s"
        if self.ask is not None:
            return self.ask(path, form, left)
        return promhttp.ask(self.server, path, form, left)

    def _one(self, row: Mapping[str, Any], aliases: Mapping[str, str]) -> Series | None:
        """One series, if it is of these nodes."""
        labels = row.get("metric")
        values = row.get("values")
        if not isinstance(labels, dict) or not isinstance(values, list):
            raise PrometheusError("a series without labels or values")
        known = {str(name): str(value) for name, value in labels.items()}
        about = metrics.BY_METRIC.get(known.get("__name__", ""))
        node = metrics.node_of(known, aliases)
        if about is None or not node:
            return None
        self.samples += len(values)
        if self.samples > SAMPLES_MOST:
            raise PrometheusError(f"more than {SAMPLES_MOST} values")
        return Series(
            quantity=about.quantity,
            node=node,
            device=metrics.device_of(about, known),
            samples=tuple(samples(values, about.scale)),
            query=cited(known),
            unit=about.unit,
        )


def queries(nodes: Sequence[str], wanted: Collection[str] = ()) -> list[Query]:
    """Queries of these rows, or of all: one for each group and batch of nodes."""
    groups: dict[str, list[str]] = {}
    for row in metrics.ROWS:
        if not wanted or row.quantity in (*wanted, metrics.INDEX):
            groups.setdefault(row.of, []).append(row.metric)
    return [
        Query(tuple(names), tuple(nodes[at : at + NODES_AT_ONCE]))
        for names in groups.values()
        for at in range(0, len(nodes), NODES_AT_ONCE)
    ]


def result(told: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    """Rows of an answer."""
    rows = told.get("result")
    fine = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    if told.get("resultType") != kind or not isinstance(rows, list) or not fine:
        raise PrometheusError(f"its answer is no {kind}: is it Prometheus?")
    return rows


def samples(values: Iterable[object], scale: float) -> Iterable[Sample]:
    """Values of a series, scaled; what is no number (NaN: stale) is left out."""
    for pair in values:
        if not isinstance(pair, list) or len(pair) != 2:  # noqa: PLR2004  a pair
            raise PrometheusError("a value that is no pair of time and number")
        at, found = number(pair[0]), number(pair[1])
        if math.isfinite(found) and math.isfinite(at):
            yield Sample(at, found * scale)


def number(value: object) -> float:
    """A number as Prometheus writes it: plain, or in a text."""
    try:
        return float(str(value)[:VALUE_LENGTH])
    except ValueError as error:
        raise PrometheusError("a value that is no number") from error


CITED = (
    *metrics.NODE_LABELS,
    *metrics.UUID_LABELS,
    *metrics.DEVICE_LABELS[metrics.GPU],
    "device",
    "port",
    "mountpoint",
)


def cited(labels: Mapping[str, str]) -> str:
    """A selector that gives this very series again, to be cited and typed."""
    told = dict.fromkeys(key for key in CITED if key in labels)
    inside = ",".join(f'{key}="{quoted(labels[key])}"' for key in told)
    return f"{labels['__name__']}{{{inside}}}"


def quoted(text: str) -> str:
    """A label's value between double quotes, on one line."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def with_index(found: Sequence[Series]) -> list[Series]:
    """Give GPUs that are known by their UUID the index that their exporter tells."""
    index = {
        (one.node, one.device): f"{one.samples[-1].value:.0f}"
        for one in found
        if one.quantity == metrics.INDEX and one.samples
    }
    return [
        replace(one, device=index.get((one.node, one.device), one.device))
        for one in found
        if one.quantity != metrics.INDEX
    ]


def merged(found: Sequence[Series]) -> list[Series]:
    """One series for each quantity of each thing.

    A label that changes (dcgm-exporter's hpc_job does when the next job begins) splits
    a metric in time; it is put together again. Of two exporters that tell the same the
    one with more values counts.
    """
    groups: dict[tuple[str, str, str], dict[str, list[Series]]] = {}
    for one in found:
        key = (one.quantity, one.node, one.device)
        metric = one.query.partition("{")[0]
        groups.setdefault(key, {}).setdefault(metric, []).append(one)
    return [max(map(joined, by.values()), key=size) for by in groups.values()]


def joined(parts: Sequence[Series]) -> Series:
    """Series of one metric and one thing as one; the later one's value counts."""
    ordered = sorted((one for one in parts if one.samples), key=begin)
    if not ordered:
        return parts[0]
    values = {sample.time: sample for one in ordered for sample in one.samples}
    samples = tuple(values[moment] for moment in sorted(values))
    return replace(ordered[-1], samples=samples)


def begin(series: Series) -> float:
    """Time of its first value."""
    return series.samples[0].time


def size(series: Series) -> int:
    """How many values it has."""
    return len(series.samples)


def increase(series: Series) -> float:
    """How much a counter grew over its samples; one that began again counts from 0."""
    values = [one.value for one in series.samples]
    pairs = pairwise(values)
    return sum(after - before if after >= before else after for before, after in pairs)
