"""The page of a triage, from the answer that --json prints. Pure."""

from __future__ import annotations

from typing import Any

from gangstart.page import chart, render, timeline
from gangstart.page.text import known, since_text, utc

#: What a confidence means, as docs/triage.schema.json has it.
MEANING = {
    "proven": "a record that can have no other cause",
    "likely": "fits everything seen",
    "possible": "the best that is left",
}
DRAIN = {True: "yes", False: "no", None: "it depends"}
#: Sources in this order: what was not reached is what a reader must know.
OUTCOMES = ("unreachable", "used", "empty", "absent")
ITEMS_MOST = 200  # of one list; rules give a few dozen


def triage_page(answer: dict[str, Any]) -> str:
    """Make the page of an answer."""
    answer = drawable(answer)
    axis, chart_axis = timeline.spans(answer)
    lists = ("evidence", "secondary", "ruled_out", "missing", "next", "sources")
    short = {name: answer[name][:ITEMS_MOST] for name in lists}
    sources = sorted(short["sources"], key=lambda s: OUTCOMES.index(s["outcome"]))
    values = {
        **answer,
        **short,
        "sources": sources,
        "evidence_list": short["evidence"],  # evidence is the macro's name
        "meaning": MEANING.get(answer["confidence"], ""),
        "drain": DRAIN[answer["drain"]],
        "roles": timeline.ROLES,
        "overview": timeline.overview(answer, axis),
        "closeup": timeline.close_up(answer, axis),
        "charts": chart.charts(answer, chart_axis),
        "ran": ran(answer["run"]),
        "clock": clock(answer["timeline"]),
        "failed": answer["root_cause"] != "NO_FAILURE",
    }
    return render.page("triage.html", values)


def drawable(answer: dict[str, Any]) -> dict[str, Any]:
    """Give the same answer without times and values that no picture has a place for."""
    moments = [one | {"time": known(one["time"])} for one in answer["timeline"]]
    told = [one | {"samples": points(one["samples"])} for one in answer["series"]]
    for one in told:
        others = one["others"]
        one["others"] = others and others | {"median": points(others["median"])}
    run = answer["run"]
    if run is not None:
        run = run | {"start": known(run["start"]), "end": known(run["end"])}
    return answer | {"timeline": moments, "series": told, "run": run}


def points(pairs: list[list[float]]) -> list[list[float]]:
    """Pairs of a time and a value that can be drawn, those that are pairs of these."""
    return [pair for pair in pairs if None not in (known(pair[0]), known(pair[1]))]


def clock(moments: list[dict[str, Any]]) -> str:
    """How times of the list are written: with the day if there are several."""
    times = [one["time"] for one in moments if one["time"] is not None]
    several = bool(times) and utc(min(times), "%j") != utc(max(times), "%j")
    return "%Y-%m-%d %H:%M:%S" if several else "%H:%M:%S"


def ran(run: dict[str, Any] | None) -> str:
    """How long the job ran, as far as it is known."""
    if run is None or run["start"] is None or run["end"] is None:
        return ""
    return since_text(run["end"] - run["start"])
