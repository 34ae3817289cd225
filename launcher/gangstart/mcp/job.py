"""Tools about one job: why it ended, and how its start went."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from gangstart import report as start
from gangstart import report_find
from gangstart.errors import GangstartError
from gangstart.mcp.call import Answer
from gangstart.triage import byjob, offline
from gangstart.triage.answer import answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from gangstart.mcp.call import Call
    from gangstart.triage.source.record import Record

ANSWER_BYTES = 1 << 18  # more is of no use to an agent


def triage(call: Call) -> Answer:
    """Say why a job ended, as ``gangstart triage JOB --json``."""

    def seen(_: int) -> None:
        if call.stop.is_set():
            raise offline.EnoughError

    def bar(_: int) -> AbstractContextManager[Callable[[int], None]]:
        return contextlib.nullcontext(seen)

    return Answer(answer(byjob.verdict(call.asked(), bar)))


def report(call: Call) -> Answer:
    """Give the start report of a step, as ``gangstart report JOB.STEP --json``."""
    path, remark = found(call)
    stored = report_find.read(path)
    told = start.parse(stored, path)
    wanted = call.given.get("nodes")
    if wanted:
        told["nodes"] = [one for one in told["nodes"] if one["name"] in wanted]
        remark = f"only {len(told['nodes'])} of the nodes, as asked. {remark}".strip()
    elif len(stored) > ANSWER_BYTES:
        raise GangstartError(
            f"report: {path} has {len(stored) >> 10} KiB, {len(told['nodes'])} nodes: "
            "name those that matter (nodes), or read it with gangstart report --json"
        )
    return Answer(told, remark)


def found(call: Call) -> tuple[Path, str]:
    """The report that is meant; numbers that Slurm must explain are asked there."""
    text = call.given.get("job")
    places = call.site.places
    if text is None or report_find.WANTED.fullmatch(text):
        try:
            return report_find.find(report_find.parse_wanted(text), places)
        except GangstartError:
            if text is None or "." in text:
                raise
    for wanted in numbers(call, text):
        with contextlib.suppress(GangstartError):  # kept under another number
            return report_find.find(wanted, places)
    raise GangstartError(
        f"report: there is no start report of job {text}: looked at {places}"
    )


def numbers(call: Call, text: str) -> Iterator[report_find.Wanted]:
    """Numbers under which the report of an array task or component may be kept."""
    step = text.partition(".")[2]
    records: list[Record] = call.told().records
    for record in reversed(records):
        for number in (record.number, record.het):
            if number is not None:
                yield report_find.Wanted(
                    number, int(step) if step.isdecimal() else None
                )
