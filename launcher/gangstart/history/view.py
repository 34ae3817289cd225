"""A history for people: who stands out, a table, the evidence, what was looked at.

Texts of reports and records are untrusted: `Seen.reason` is cleaned where it is read,
names are checked there, and nothing is read as markup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from gangstart import core
from gangstart.check.view import COLOUR, print_safely
from gangstart.history.words import day

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from gangstart.history.model import History, Node, Reading, Seen, Share

COLUMNS = ("node", "verdict", "jobs", "late", "by", "refused", "findings", "last seen")
RIGHT = {"jobs", "late", "by", "refused"}
FINDINGS_SHOWN = 3
SENTENCES_SHOWN = 5  # of one node
NAMED = 8
MARK = {"worse": "!", "mended": "~", "unknown": "?", "ordinary": ""}


def show(told: History, limit: int) -> None:
    """Print it; `limit` rows, 0 = all. Whoever stands out is never left out."""
    print_safely(lambda console: draw(console, told, limit))


def draw(console: Console, told: History, limit: int) -> None:
    """Draw all parts."""
    bad = [node for node in told.nodes if node.verdict == "fail"]
    shown = told.nodes[: max(limit, len(bad))] if limit else told.nodes
    console.print(heading(told, bad))
    if shown:
        console.print(table(shown))
    left = len(told.nodes) - len(shown)
    lines = [
        *([f"not shown: {left} nodes (--limit 0 shows all)"] if left else []),
        *(line for node in shown for line in evidence(node)),
        *footer(told),
    ]
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def heading(told: History, bad: Sequence[Node]) -> Text:
    """Who stands out, in one sentence."""
    if not told.nodes:
        return Text("no start and no check of a node was found", style="bold yellow")
    of = f"{told.fleet} node{'' if told.fleet == 1 else 's'}"
    if not bad:
        return Text(f"none of {of} stands out{asked(told)}", style="bold green")
    names = core.fold([node.name for node in bad])
    verb = "stands" if len(bad) == 1 else "stand"
    text = f"{len(bad)} of {of} {verb} out{asked(told)}: {names}"
    return Text(text, style=f"bold {COLOUR['fail']}")


def asked(told: History) -> str:
    """Say when only some nodes are shown."""
    if len(told.nodes) == told.fleet:
        return ""
    return f" among the {len(told.nodes)} that were asked for"


def table(nodes: Sequence[Node]) -> Table:
    """One row per node."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in COLUMNS:
        right = "right" if name in RIGHT else "left"
        made.add_column(name, justify=right, overflow="fold")  # type: ignore[arg-type]
    for node in nodes:
        made.add_row(
            Text(node.name),
            Text(node.verdict, style=COLOUR.get(node.verdict, "")),
            Text(str(node.jobs)),
            Text(of(node.late)),
            Text(seconds(node.late.late_median_s)),
            Text(of(node.refused)),
            Text(findings(node.findings)),
            Text(day(node.last_at)),
        )
    return made


def of(share: Share) -> str:
    """Hits of jobs, marked: ! worse, ~ mended, ? too few jobs to say."""
    return f"{share.hits}/{share.jobs}{MARK[share.standing]}"


def seconds(value: float | None) -> str:
    """How late."""
    return "-" if value is None else f"{value:.1f} s"


def findings(found: Sequence[Seen]) -> str:
    """The worst findings; what jobs left is in brackets."""
    told = [finding(one) for one in found[:FINDINGS_SHOWN]]
    more = len(found) - len(told)
    return ", ".join([*told, *([f"{more} more"] if more > 0 else [])])


def finding(one: Seen) -> str:
    """One finding: its check, verdict and how many jobs saw it."""
    text = f"{one.check} {one.verdict} x{one.jobs}"
    if one.of_jobs:
        return f"({text})"
    return f"{text}~" if one.mended else text


def evidence(node: Node) -> Iterator[str]:
    """Sentences about one node, and what to type."""
    if not node.sentences:
        return
    yield ""
    for sentence in node.sentences[:SENTENCES_SHOWN]:
        yield f"{node.name}: {sentence}"
    more = len(node.sentences) - SENTENCES_SHOWN
    if more > 0:
        yield f"{node.name}: {more} more findings (--json has all)"
    if node.next:
        yield f"  next: {node.next}"


def footer(told: History) -> Iterator[str]:
    """What was looked at, how it was judged, and what is not known."""
    yield ""
    yield f"looked at {looked_at(told.reading)}"
    yield (
        f"judged   {told.tests} tests (Holm): at most {told.alpha:.0%} chance that any "
        f"node is accused that is like the others; late: {told.late_s:g} s after the "
        f"others' median; marks: ! more than chance, ~ mended, ? in fewer than "
        f"{told.least_jobs} jobs"
    )
    if told.never_seen:
        yield f"not seen {core.fold(told.never_seen)}: in no start and no check"
    yield from gaps(told.reading)


def looked_at(reading: Reading) -> str:
    """How much there was."""
    cluster = f" of cluster {reading.cluster}" if reading.cluster else ""
    between = f", {day(reading.oldest)} to {day(reading.newest)}"
    return (
        f"{reading.jobs} jobs{cluster}{between if reading.oldest else ''}: "
        f"{reading.starts} starts ({reading.refused} refused, {reading.not_compared} "
        f"not to be compared), {reading.checks} checks of nodes, in "
        f"{reading.places}"
    )


def gaps(reading: Reading) -> Iterator[str]:
    """What is missing in the answer."""
    if reading.note:
        yield f"incomplete: {reading.note}"
    if reading.other_clusters:
        yield (
            f"left out {reading.other_clusters} starts of other clusters "
            "(--cluster NAME chooses)"
        )
    if reading.left_out:
        yield f"left out {reading.left_out} further steps of jobs with very many"
    if reading.unreadable or reading.broken:
        yield (
            f"not read {reading.unreadable} files or folders that you must not read, "
            f"{reading.broken} that are no report: {'; '.join(reading.examples)}"
        )
