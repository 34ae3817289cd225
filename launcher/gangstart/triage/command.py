"""``gangstart triage``: why a job died, with proof and the next thing to type."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentTypeError
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from gangstart import report_find
from gangstart.errors import GangstartError
from gangstart.page import write
from gangstart.triage import byjob, offline, prefix, story
from gangstart.triage.answer import answer
from gangstart.triage.judge import judge
from gangstart.triage.source import promoptions
from gangstart.triage.source.record import parse_wanted
from gangstart.usage import Parser

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator

    from gangstart.triage.model import Verdict

PIPE_WIDTH = 10_000
LEAST_S, MOST_S = 1.0, 3600.0
SHOW_BAR = 50_000_000  # bytes: less is read at once
STYLES = {
    "": "bold",
    "evidence": "",
    "next": "green",
    "ruled out": "dim",
    "looked at": "dim",
}


def parser() -> Parser:
    """Build the command line of this verb."""
    made = Parser(
        prog="gangstart triage",
        description="Say why a job ended: the cause, the evidence with FILE:LINE, what "
        "only followed from it, what was ruled out, and what to do next. With JOB it "
        "joins what Slurm, the job's own files, gangstart's reports and Prometheus "
        "have; without, it works on the named files alone.",
    )
    made.add_argument(
        "of",
        nargs="?",
        metavar="JOB",
        help="7877, a task 7877_3, a component 7877+1, a step 7877.0; its last run",
    )
    made.add_argument(
        "--deadline",
        metavar="SECONDS",
        type=float,
        default=byjob.DEADLINE_S,
        help="answer by then, with what there is (default: %(default)g)",
    )
    report_find.add_options(made)
    promoptions.add(made)
    made.add_argument(
        "--log",
        metavar="PATH",
        type=named,
        nargs="+",
        action="extend",
        default=[],
        help="logs of the job, plain, .gz or .zst; a folder stands for the logs below",
    )
    made.add_argument(
        "--kmsg",
        metavar="NODE=FILE",
        action="append",
        default=[],
        help="a node's kernel log (dmesg, journalctl -k); may be given several times",
    )
    made.add_argument(
        "--sacct-json",
        metavar="FILE",
        type=named,
        help="what sacct --json -j JOB printed: states, exit codes, times, nodes",
    )
    made.add_argument("--job", metavar="JOB", default="", help="which job it is about")
    made.add_argument(
        "--report",
        metavar="FILE",
        type=named,
        help="the start report (start.json): which rank ran where, clocks",
    )
    made.add_argument("--json", action="store_true", help="docs/triage.schema.json")
    write.add_option(made)
    return made


def named(text: str) -> Path:
    """A file's name; "" would be the folder where one is: other jobs' logs."""
    if not text:
        raise ArgumentTypeError("an empty name; is a variable not set?")
    return Path(text)


def kernel_logs(given: list[str]) -> list[tuple[str, Path]]:
    """Pairs out of NODE=FILE.

    Raises:
        GangstartError: one has no "=", or its file does not exist.

    """
    made = []
    for one in given:
        node, found, name = one.partition("=")
        if not found or not prefix.HOST.fullmatch(node) or not Path(name).is_file():
            raise GangstartError(
                f"triage: --kmsg {one[:200]!r} is not NODE=FILE with a node's name and "
                "a file that exists, for example --kmsg cn01=dmesg.cn01.txt",
                exit_code=2,
            )
        made.append((node, Path(name)))
    return made


def main(argv: list[str]) -> int:
    """Run the verb."""
    options = parser().parse_args(argv)
    if not any((options.of, options.log, options.kmsg)) and not any(
        (options.report, options.sacct_json)
    ):
        raise GangstartError(
            "triage: nothing to look at: give JOB, --log PATH, --kmsg NODE=FILE, "
            "--sacct-json FILE or --report start.json (see gangstart triage --help)",
            exit_code=2,
        )
    if not LEAST_S <= options.deadline <= MOST_S:
        raise GangstartError(
            f"triage: --deadline {options.deadline:g} is not {LEAST_S:g} to {MOST_S:g} "
            "seconds",
            exit_code=2,
        )
    if options.html is not None:
        write.check("triage", options.html, json=options.json)
        spare(options)
    tell(ask_all(options) if options.of else look(options), options)
    return 0


def spare(options: Namespace) -> None:
    """Refuse to write the page over what it is about."""
    page = Path(options.html)
    named_files = [*options.log, *(path for _, path in kernel_logs(options.kmsg))]
    named_files += [one for one in (options.report, options.sacct_json) if one]
    read = next((p for p in named_files if p.exists() and _same(p, page)), None)
    if options.html != write.STDOUT and read is not None:
        raise write.refused("triage", options.html, f"{read} is to be read: it stays")


def _same(one: Path, other: Path) -> bool:
    return other.exists() and one.samefile(other)


def tell(verdict: Verdict, options: Namespace) -> None:
    """Print the verdict, and write its page."""
    if options.json:
        sys.stdout.write(json.dumps(answer(verdict), ensure_ascii=True) + "\n")
    elif options.html != write.STDOUT:
        show(verdict)
    if options.html is not None:
        from gangstart.page import triagepage  # noqa: PLC0415 - templates are slow

        page = triagepage.triage_page(answer(verdict))
        write.write("triage", options.html, page)


def ask_all(options: Namespace) -> Verdict:
    """Ask every source about a job, and judge.

    Raises:
        GangstartError: options that do not fit, or a job that nobody knows of.

    """
    if options.report or options.sacct_json or options.job:
        raise GangstartError(
            "triage: --report, --sacct-json and --job are for files alone: with JOB "
            "they are found by themselves, leave them out",
            exit_code=2,
        )
    asked = byjob.Asked(
        options.of,
        report_find.places(options.archive, options.spool, options.cluster),
        tuple(offline.log_files(options.log)),
        tuple(kernel_logs(options.kmsg)),
        promoptions.server(options),
        options.deadline,
    )
    return byjob.verdict(asked, progress)


def look(options: Namespace) -> Verdict:
    """Read what the options name, and judge."""
    end = time.monotonic() + options.deadline
    trace = offline.empty(str(parse_wanted(options.job)) if options.job else "")
    if options.sacct_json:
        offline.read_accounting(options.sacct_json, trace, options.job)
    if options.report:
        offline.read_report(options.report, trace)
    logs = offline.log_files(options.log)
    with progress(sum(path.stat().st_size for path in logs)) as seen:
        until = offline.until(end, seen)
        facts = offline.read_all(trace, logs, kernel_logs(options.kmsg), until)
    return judge(facts)


@contextmanager
def progress(total: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal's standard error for logs that take a while."""
    console = Console(stderr=True)
    if not console.is_terminal or total < SHOW_BAR:
        yield lambda _: None
        return
    from rich.progress import Progress  # noqa: PLC0415 - slow to import

    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("reading logs", total=total)
        before = 0

        def seen(now: int) -> None:
            nonlocal before
            bar.advance(task, now - before if now >= before else now)
            before = now

        yield seen


def show(verdict: Verdict) -> None:
    """Print the verdict: colour on a terminal, plain text in a pipe."""
    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console = Console(markup=False, emoji=False, highlight=False, width=PIPE_WIDTH)
    for title, lines in story.paragraphs(verdict):
        if not lines:
            continue
        if title:
            console.print(Text(f"\n{title}", "bold"))
        style = STYLES.get(title, "")
        for line in lines:
            console.print(Text(f"  {line}" if title else line, style))
