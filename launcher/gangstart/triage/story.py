"""A verdict as text: the verdict first, then when, why, what not, and what next."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from gangstart.triage.prefix import CONTROL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangstart.triage.model import Evidence, Moment, Verdict


def safe(text: str, most: int = 400) -> str:
    """Foreign text on one line: controls become "?", long text is cut."""
    made = CONTROL.sub("?", text.replace("\n", " ").replace("\t", " "))
    return made if len(made) <= most else made[: most - 1] + "…"


def clock(time: float | None) -> str:
    """A time of the timeline."""
    when = local(time)
    return "-" * 8 if when is None else when.strftime("%m-%d %H:%M:%S")


def local(time: float | None) -> datetime | None:
    """A time as this machine's logs write it; None beyond the calendar."""
    try:
        when = None if time is None else datetime.fromtimestamp(time, timezone.utc)
        return when and when.astimezone()
    except (ValueError, OverflowError, OSError):
        return None


def zone(moments: list[Moment]) -> str:
    """What the times of a timeline are, as "UTC" or "CET"."""
    first = next((when for one in moments if (when := local(one.time))), None)
    return "" if first is None else f" ({first.tzname()})"


def quoted(evidence: Evidence) -> str:
    """A line of a log between quotes, so that nobody takes it for our words."""
    text = safe(evidence.text, 1000)
    return f"“{text}”" if evidence.quoted else text


def moment(one: Moment) -> str:
    """One line of the timeline."""
    return (
        f"{clock(one.time):<14}  {one.role:<10}  {safe(one.who, 40):<20}  "
        f"{safe(one.what, 160)}"
    )


def paragraphs(verdict: Verdict) -> Iterator[tuple[str, list[str]]]:
    """Title and lines of each part that has any."""
    yield "", [safe(verdict.sentence, 700), f"confidence: {verdict.confidence.value}"]
    yield f"timeline{zone(verdict.timeline)}", [moment(one) for one in verdict.timeline]
    yield "evidence", [f"{e.place}: {quoted(e)}" for e in verdict.evidence]
    yield (
        "consequences, not causes",
        [f"{c.code}: {safe(c.why, 300)}" for c in verdict.secondary],
    )
    yield "ruled out", [f"{r.code}: {safe(r.why, 300)}" for r in verdict.ruled_out]
    yield "what would settle it", [safe(m) for m in verdict.missing]
    yield "next", [f"{safe(c.text)}   # {safe(c.why, 300)}" for c in verdict.next]
    yield (
        "looked at",
        [
            f"{s.name}: {s.outcome.value}{f' ({safe(s.detail)})' if s.detail else ''}"
            for s in verdict.sources
        ],
    )


def text(verdict: Verdict) -> str:
    """The whole answer, plain."""
    made = []
    for title, lines in paragraphs(verdict):
        if not lines:
            continue
        if title:
            made.append(f"\n{title}")
        made += [f"  {line}" if title else line for line in lines]
    return "\n".join(made)
