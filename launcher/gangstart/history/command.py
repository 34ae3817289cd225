"""``gangstart history``: nodes across jobs, the worst first."""

from __future__ import annotations

import json
import math
import sys
import time
from typing import TYPE_CHECKING

from gangstart import core, report_find
from gangstart.errors import GangstartError
from gangstart.history.assemble import Options, collect
from gangstart.history.model import LATE_S
from gangstart.history.start import NAME
from gangstart.history.when import moment
from gangstart.progress import Progress
from gangstart.usage import Parser

if TYPE_CHECKING:
    from argparse import Namespace

    from gangstart.history.model import History

EXIT_STANDS_OUT, EXIT_USAGE, EXIT_NOTHING = 1, 2, 3
SINCE = "30d"
LIMIT = 20
DEADLINE_S = 60.0
LEAST_S, MOST_S = 0.001, 86400.0
SHOWN_EVERY = 50  # jobs


def parser() -> Parser:
    """Build the command line of this verb."""
    made = Parser(
        prog="gangstart history",
        description="Show nodes across jobs, the worst first: how often each was late "
        "at a start, had a start refused, and what was found on it. Nobody is accused "
        "for what chance would do.",
        epilog="Exit code: 0 no node stands out, 1 one does, 2 a bad option, 3 there "
        "is nothing to judge. WHEN: 7d, 12h, 90m, now-7days, today, 2026-11-01, "
        "2026-11-01T08:00, 11/01, 08:00, as sacct takes it.",
    )
    made.add_argument("--nodes", metavar="NODELIST", help="only these: n[001-064]")
    made.add_argument(
        "--since",
        metavar="WHEN",
        default=SINCE,
        help="starts and checks from then on (default: %(default)s, 30 days)",
    )
    made.add_argument("--until", metavar="WHEN", help="starts and checks before then")
    made.add_argument(
        "--limit",
        metavar="N",
        type=int,
        default=LIMIT,
        help="rows, 0 for all (default: %(default)s); who stands out is always shown",
    )
    made.add_argument(
        "--late",
        metavar="SECONDS",
        type=float,
        default=LATE_S,
        help="how long after the others' median is late (default: %(default)g)",
    )
    report_find.add_options(made)
    made.add_argument(
        "--deadline",
        metavar="SECONDS",
        type=float,
        default=DEADLINE_S,
        help="answer by then, with the newest jobs (default: %(default)g)",
    )
    made.add_argument(
        "--json", action="store_true", help="as docs/history.schema.json has it"
    )
    return made


def main(argv: list[str]) -> int:
    """Read, judge, show."""
    options = parser().parse_args(argv)
    check(options)
    now = time.time()
    since = moment(options.since, now)
    until = moment(options.until, now, "--until") if options.until else None
    if until is not None and until <= since:
        raise bad("--until is not after --since, so no time is left")
    nodes = None if options.nodes is None else expand(options.nodes)
    with Progress(sys.stderr, "history") as line:

        def progress(done: int, jobs: int) -> None:
            if done % SHOWN_EVERY == 0:
                line.show(f"{done} of {jobs} jobs")

        told = collect(
            places(options),
            nodes,
            since=since,
            until=until,
            deadline_s=options.deadline,
            options=Options(late_s=options.late, progress=progress),
        )
    if options.json:
        sys.stdout.write(json.dumps(told.as_json()) + "\n")
    else:
        from gangstart.history import view  # noqa: PLC0415 - rich is slow to import

        view.show(told, options.limit)
    return exit_code(told)


def exit_code(told: History) -> int:
    """Return what a script is told."""
    if not told.nodes:
        return EXIT_NOTHING
    return EXIT_STANDS_OUT if any(n.verdict == "fail" for n in told.nodes) else 0


def bad(what: str) -> GangstartError:
    """Make the sentence of a bad option."""
    return GangstartError(f"history: {what}", exit_code=EXIT_USAGE)


def check(options: Namespace) -> None:
    """Refuse numbers that cannot be."""
    if options.limit < 0:
        raise bad(f"--limit {options.limit} is below 0: use 0 for all rows")
    for name in ("late", "deadline"):
        value = getattr(options, name)
        if not (math.isfinite(value) and LEAST_S <= value <= MOST_S):
            raise bad(
                f"--{name} {value:g} is not between {LEAST_S:g} and {MOST_S:g} seconds"
            )


def expand(text: str) -> list[str]:
    """Names of a node list."""
    try:
        names = core.expand(text)
    except GangstartError as error:
        raise bad(f"--nodes: {error.message}") from error
    wrong = next((name for name in names if not NAME.fullmatch(name)), None)
    if wrong is not None or not names:
        raise bad(
            f"--nodes {text[:60]!r} is no list of nodes as Slurm writes it, such as "
            "n[001-064],login1"
        )
    return list(dict.fromkeys(names))


def places(options: Namespace) -> report_find.Places:
    """Where to look, as ``gangstart report`` does."""
    try:
        return report_find.places(options.archive, options.spool, options.cluster)
    except GangstartError as error:
        raise bad(error.message.removeprefix("report: ")) from error
