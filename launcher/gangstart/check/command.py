"""``gangstart check``: a node before a job, after it, or as it is now."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gangstart import job
from gangstart.check.leftover import Job
from gangstart.errors import GangstartError
from gangstart.usage import Parser

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from gangstart.check.node import Request, World

    Event = dict[str, Any]

EXIT_USAGE = 2
#: Nagios' codes, and those of --stage node.
EXIT_OF = {"ok": 0, "warn": 1, "fail": 2, "unknown": 3}
NAGIOS = {"ok": "OK", "warn": "WARNING", "fail": "CRITICAL", "unknown": "UNKNOWN"}
#: A hook that ends in another code than 0 has its node drained by Slurm.
EXIT_DRAIN = 69
STAGES = ("prolog", "epilog", "node")
CLEANUPS = ("off", "report", "kill")
FORMATS = ("table", "nagios")
DEADLINE_S = 30.0
DEADLINES = (1.0, 3600.0)
EVERYTHING = ""  # --explain without a name
INDICES = re.compile(r"\d{1,4}(?:-\d{1,4})?(?:,\d{1,4}(?:-\d{1,4})?)*")
CONTROLLER = re.compile(r"slurmctld", re.IGNORECASE)


def parser() -> Parser:
    """Build the command line of this verb."""
    made = Parser(
        prog="gangstart check",
        description="Look at this node: GPUs, what ended jobs left behind, dashboards "
        "that anybody can open, RDMA links. With --stage prolog or epilog it is the "
        "check of a Slurm Prolog or Epilog and calls no Slurm command.",
        epilog="Exit codes of --stage node and of --format nagios: 0 ok, 1 warn, 2 "
        "fail, 3 unknown. Of prolog and epilog: 69 if the node should take no further "
        "job, otherwise 0.",
    )
    add = made.add_argument
    add("--stage", choices=STAGES, default="node", help="when this is (default: node)")
    add("--json", action="store_true", help="print everything as one JSON object")
    add("--format", choices=FORMATS, default="table", help="nagios: one line")
    add(
        "--explain",
        nargs="?",
        const=EVERYTHING,
        metavar="ID",
        help="say what a check means; without ID list all",
    )
    add("--conf", metavar="FILE", help="limits of the GPU checks (gangstart.conf)")
    add("--probe", metavar="PATH", help="the program that looks at the GPUs")
    add(
        "--cleanup",
        choices=CLEANUPS,
        default="report",
        help="what to do about leftovers (default: report); kill needs --stage epilog",
    )
    add("--job", metavar="ID", help="the job (default: SLURM_JOB_ID in a hook)")
    add("--spool", metavar="DIR", help="in place of /run/gangstart")
    add(
        "--deadline",
        type=float,
        default=DEADLINE_S,
        metavar="SECONDS",
        help="be done by then (default: 30)",
    )
    add(
        "--reasons",
        nargs="+",
        metavar="FILE",
        help="only print node and reason of each drain in these records",
    )
    return made


def main(argv: list[str]) -> int:
    """Check, or explain a check."""
    options = parser().parse_args(argv)
    if options.explain is not None:
        return explain(options.explain)
    if options.reasons:
        return reasons(options.reasons)
    return check(options, job.environ())


def explain(name: str) -> int:
    """Print what a check means, or all there are."""
    from gangstart.check import catalogue  # noqa: PLC0415 - only for this

    told = catalogue.listed() if name == EVERYTHING else None
    shown = told or catalogue.explained(catalogue.find(name))
    sys.stdout.write(shown + "\n")
    return 0


def reasons(files: Sequence[str]) -> int:
    """Print the drains in some records, for whoever sets Slurm's reason."""
    from gangstart.check import drain, record  # noqa: PLC0415 - only for this

    for name in files:
        refuse_unreadable(name)
        events = record.read_events(Path(name))
        for line in drain.lines(events):
            sys.stdout.write(line + "\n")
    return 0


def refuse_unreadable(name: str) -> None:
    """Refuse what is no file, or not ours to read: nothing found would look as well."""
    what = "is no file"
    try:
        if Path(name).is_file():
            with Path(name).open("rb"):
                return
    except OSError as error:
        what = f"cannot be read ({error.strerror})"
    raise GangstartError(
        f"check: {name[:200]!r} {what}: --reasons takes events.jsonl files"
    )


def check(
    options: argparse.Namespace,
    env: Mapping[str, str],
    world: Callable[[], World] | None = None,
) -> int:
    """Check as asked, record it, print it; the exit code is Slurm's or Nagios'."""
    refuse(options)
    in_hook = options.stage != "node"
    try:
        request = request_of(options, env)
        event = measured(request, world)
    except (GangstartError, OSError) as error:
        if options.format == "nagios":
            return nagios_error(getattr(error, "message", None) or str(error))
        if not in_hook:
            raise
        # A mistake in a file or a hook must not drain every node of the cluster.
        sys.stderr.write(f"gangstart: {getattr(error, 'message', error)}\n")
        return 0
    if in_hook:
        sys.stderr.write(log_line(event) + "\n")
        keep(request, event)
    if options.stage == "epilog":
        publish(request)
    show(event, options)
    if in_hook and options.format != "nagios":
        return EXIT_DRAIN if event["drain"] else 0
    return EXIT_OF[event["verdict"]]


def refuse(options: argparse.Namespace) -> None:
    """Refuse what does not fit together."""
    low, high = DEADLINES
    wrong = (
        (
            options.cleanup == "kill" and options.stage != "epilog",
            "--cleanup kill needs --stage epilog, when the job is known to be over",
        ),
        (
            not low <= options.deadline <= high,
            f"--deadline {options.deadline:g} is not {low:g} to {high:g} seconds",
        ),
        (
            options.job is not None
            and not re.fullmatch(r"[1-9]\d{0,9}", options.job, re.ASCII),
            f"--job {str(options.job)[:40]!r} is not a job's number such as 7877",
        ),
        (options.json and options.format == "nagios", "--json or --format nagios?"),
    )
    for is_wrong, why in wrong:
        if is_wrong:
            raise GangstartError(f"check: {why}", exit_code=EXIT_USAGE)


def request_of(options: argparse.Namespace, env: Mapping[str, str]) -> Request:
    """What is asked for, by options, the hook's environment and plugstack.conf."""
    from gangstart import plugstack  # noqa: PLC0415 - not for --explain
    from gangstart.check import node  # noqa: PLC0415 - not for --explain

    if CONTROLLER.search(env.get("SLURM_SCRIPT_CONTEXT", "")):
        raise GangstartError(
            "check: this is a hook of slurmctld, which runs on the controller: use "
            "Prolog= and Epilog= in slurm.conf, not those that end in Slurmctld"
        )
    site = {k: v for k, v in plugstack.arguments().items() if v != "none"}
    return node.Request(
        stage=options.stage,
        node=env.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0],
        job=job_of(options, env),
        gpus=indices(env.get("SLURM_JOB_GPUS", ""))
        if options.stage != "node"
        else None,
        conf=options.conf or site.get("conf"),
        probe=options.probe or site.get("probe"),
        cleanup=options.cleanup,
        archive=Path(site["archive"]) if "archive" in site else None,
        spool=Path(options.spool or site.get("spool", "/run/gangstart")).absolute(),
        deadline_s=options.deadline,
    )


def job_of(options: argparse.Namespace, env: Mapping[str, str]) -> Job | None:
    """The job in question; its user and start only if the environment is of it."""
    told = env.get("SLURM_JOB_ID", "") if options.stage != "node" else ""
    chosen = options.job or told
    if options.stage != "node" and not chosen:
        raise GangstartError(
            f"check: --stage {options.stage} needs --job ID where Slurm has set no "
            "SLURM_JOB_ID"
        )
    if not chosen:
        return None
    if not number(chosen):
        raise GangstartError(f"check: SLURM_JOB_ID {chosen[:40]!r} is no number")
    ours = env if chosen == told else {}
    uid, begun = (
        number(ours.get("SLURM_JOB_UID")),
        number(ours.get("SLURM_JOB_START_TIME")),
    )
    return Job(int(chosen), uid=uid, started=None if begun is None else float(begun))


def number(text: str | None) -> int | None:
    """A decimal number of sensible size."""
    return int(text) if text and re.fullmatch(r"\d{1,12}", text, re.ASCII) else None


def indices(text: str) -> list[str] | None:
    """GPUs of SLURM_JOB_GPUS: ``0,1`` or ``0-3``; None if it does not tell."""
    if not INDICES.fullmatch(text):
        return None
    found: list[str] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += map(str, range(int(first), int(last or first) + 1))
    return found


def measured(request: Request, world: Callable[[], World] | None) -> Event:
    """Do the check."""
    from gangstart.check import node  # noqa: PLC0415 - not for --explain

    return node.Check(request, world() if world else node.World()).run()


def keep(request: Request, event: Event) -> None:
    """Record the check; what cannot be recorded is said, and changes nothing else."""
    from gangstart.check import record  # noqa: PLC0415 - not for --explain

    try:
        if request.job is not None:
            record.Spool(request.spool, request.job.job_id).append(event)
        if request.stage != "node":
            record.prune(request.spool)
    except OSError as error:
        hint = "" if os.geteuid() == 0 else ": run it as root"
        sys.stderr.write(
            f"gangstart: this check could not be recorded in {error.filename}: "
            f"{error.strerror}{hint}\n"
        )


def publish(request: Request) -> None:
    """Bring the job's records to the archive, if the site has one."""
    if request.archive is None or request.job is None:
        return
    from gangstart import core  # noqa: PLC0415 - the C core

    try:
        core.publish(request.spool, request.archive, request.job.job_id, request.node)
    except GangstartError as error:
        sys.stderr.write(f"gangstart: {error.message}\n")


def log_line(event: Event) -> str:
    """The check in one line, for slurmd's log and syslog."""
    drain = ", drain" if event["drain"] else ""
    return (
        f"gangstart: check {event['stage']} node={event['node']} job={event['job']} "
        f"verdict={event['verdict']}{drain}: {event['reason']}"
    )


def nagios_line(event: Event) -> str:
    """The check as Nagios and NHC read it; | would begin performance data."""
    reason = str(event["reason"]).replace("|", "/")
    counted = len(event["gpu"]["event"].get("gpus", ()))
    left = event["leftovers"]
    return (
        f"GANGSTART {NAGIOS[event['verdict']]} - {reason} | gpus={counted} "
        f"leftovers={len(left['processes'])} shm={len(left['shm'])} "
        f"took={event['took_ms']}ms"
    )


def nagios_error(why: str) -> int:
    """A check that cannot be made is UNKNOWN to Nagios, which knows no other codes."""
    say(f"GANGSTART {NAGIOS['unknown']} - {why.replace('|', '/')}")
    return EXIT_OF["unknown"]


def say(line: str) -> None:
    """Print a line, whatever the terminal's encoding lacks."""
    encoding = sys.stdout.encoding or "utf-8"
    safe = line.encode(encoding, errors="replace").decode(encoding)
    sys.stdout.write(safe + "\n")


def show(event: Event, options: argparse.Namespace) -> None:
    """Print the check: for programs, for Nagios, for people; a hook prints nothing."""
    if options.json:
        sys.stdout.write(json.dumps(event, indent=1) + "\n")
    elif options.format == "nagios":
        say(nagios_line(event))
    elif options.stage == "node":
        from gangstart.check import view  # noqa: PLC0415 - rich is slow to import

        view.show(event)
