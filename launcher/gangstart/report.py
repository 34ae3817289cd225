"""``gangstart report``: the start report of a step, for people or as it is stored."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NoReturn

from gangstart import report_find
from gangstart.errors import GangstartError
from gangstart.page import write
from gangstart.usage import Parser

SCHEMA = "gangstart.start"
VERSION = 1
SENSIBLE = 1e15  # no number of a report comes near

#: Fields that are shown, with the types they must have.
FIELDS: dict[str, tuple[type, ...]] = {
    "complete": (bool,),
    "step": (dict,),
    "outcome": (str,),
    "message": (list,),
    "decided_at": (int, float, type(None)),
    "elapsed_s": (int, float, type(None)),
    "spec": (str,),
    "expected": (dict,),
    "arrived": (dict,),
    "stale_arrivals": (int,),
    "master": (dict, type(None)),
    "kept_from_user": (list,),
    "warnings": (list,),
    "versions": (dict,),
    "nodes": (list,),
}
STEP_FIELDS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "cluster": (str,),
    "user_id": (int,),
    "submit_host": (str,),
}
COUNT_FIELDS: dict[str, tuple[type, ...]] = {"nodes": (int,), "tasks": (int,)}
VERSION_FIELDS: dict[str, tuple[type, ...]] = {
    "plugin": (str,),
    "slurm": (str,),
    "wire": (int,),
}
NODE_FIELDS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "ranks": (str,),
    "phase": (str,),
    "detail": (str,),
    "connected_s": (int, float, type(None)),
    "tasks": (list,),
}
TASK_FIELDS: dict[str, tuple[type, ...]] = {
    "rank": (int,),
    "arrived_s": (int, float, type(None)),
}
MASTER_FIELDS: dict[str, tuple[type, ...]] = {
    "node": (str,),
    "address": (str,),
    "port": (int,),
    "address_from": (str,),
    "port_from": (str,),
    "tried": (list,),
}
TRIED_FIELDS: dict[str, tuple[type, ...]] = {
    "address": (str,),
    "interface": (str,),
    "why": (str,),
}


def parser() -> Parser:
    """Build the command line of this verb."""
    made = Parser(
        prog="gangstart report",
        description="Show the start report of a step: its outcome, who came when, and "
        "where rank 0 is and why there. Without STEP it is the job's newest step, "
        "without JOB the newest report of all.",
        epilog="Looked at in this order: the archive (--archive, else archive= of this "
        "machine's plugstack.conf), the node's spool, and your own copies below "
        "$XDG_STATE_HOME/gangstart.",
    )
    made.add_argument(
        "step", nargs="?", metavar="JOB[.STEP]", help="as squeue -s shows"
    )
    made.add_argument("--file", metavar="FILE", help="read this report")
    report_find.add_options(made)
    made.add_argument("--all", action="store_true", help="show every node")
    made.add_argument("--json", action="store_true", help="print the report as stored")
    write.add_option(made)
    return made


def main(argv: list[str]) -> int:
    """Find the report and show it."""
    options = parser().parse_args(argv)
    wanted = report_find.parse_wanted(options.step)
    report_find.refuse_empty({"--file": options.file})
    if options.file and options.step:
        raise GangstartError("report: give JOB.STEP or --file, not both", exit_code=2)
    if options.html is not None:
        write.check("report", options.html, json=options.json)
    if options.file:
        path, remark = Path(options.file), ""
    else:
        where = report_find.places(options.archive, options.spool, options.cluster)
        path, remark = report_find.find(wanted, where)
    stored = report_find.read(path)
    report = parse(stored, path)
    # Lazy: rich and templates are slow to import.
    if options.json:
        sys.stdout.flush()
        sys.stdout.buffer.write(stored)
        sys.stdout.buffer.flush()
    elif options.html != write.STDOUT:
        from gangstart import report_view  # noqa: PLC0415

        report_view.show(report, path, remark, every_node=options.all)
    if options.html is not None:
        from gangstart.page import reportpage  # noqa: PLC0415

        page = reportpage.report_page(report, path, remark, every_node=options.all)
        write.write("report", options.html, page)
    return 0


def parse(stored: bytes, path: Path) -> dict[str, Any]:
    """Read a report and check that every field that is shown is what it should be."""
    try:
        report = json.loads(stored, parse_constant=no_number)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, json.JSONDecodeError) else "malformed"
        raise GangstartError(
            f"report: {path} is not valid JSON: {reason[:120]}"
        ) from error
    if not isinstance(report, dict) or report.get("schema") != SCHEMA:
        raise GangstartError(
            f"report: {path} is not a start report: it lacks "
            f'"schema":"{SCHEMA}" at the top'
        )
    if report.get("version") != VERSION:
        raise GangstartError(
            f"report: {path} has version {str(report.get('version'))[:20]!r} of the "
            f"report's schema, this gangstart reads version {VERSION}: install the "
            "gangstart that wrote it, or a newer one"
        )
    check_fields(report, path)
    return report


def no_number(name: str) -> NoReturn:
    """Refuse NaN and Infinity, which JSON does not have."""
    raise ValueError(name)


def check_fields(report: dict[str, Any], path: Path) -> None:
    """Check the parts of a report against the tables above."""
    check(report, FIELDS, "", path)
    check(report["step"], STEP_FIELDS, "step.", path)
    check(report["versions"], VERSION_FIELDS, "versions.", path)
    for name in ("expected", "arrived"):
        check(report[name], COUNT_FIELDS, f"{name}.", path)
    for name in ("message", "kept_from_user", "warnings"):
        if not all(isinstance(one, str) for one in report[name]):
            misfit(f"{name}[]", path)
    if report["master"] is not None:
        check(report["master"], MASTER_FIELDS, "master.", path)
        for one in report["master"]["tried"]:
            check(one, TRIED_FIELDS, "master.tried[].", path)
    for node in report["nodes"]:
        check(node, NODE_FIELDS, "nodes[].", path)
        for task in node["tasks"]:
            check(task, TASK_FIELDS, "nodes[].tasks[].", path)


def check(
    part: object, fields: dict[str, tuple[type, ...]], where: str, path: Path
) -> None:
    """Check that an object has the fields of a table, of the right types."""
    if not isinstance(part, dict):
        misfit(where.rstrip("."), path)
    for name, types in fields.items():
        value: object = part.get(name, misfit)
        if type(value) not in types:  # JSON has no subclasses, and bool is no int
            misfit(where + name, path)
        if isinstance(value, (int, float)) and not abs(value) < SENSIBLE:
            misfit(where + name, path)


def misfit(name: str, path: Path) -> NoReturn:
    """Refuse a report because of one field."""
    raise GangstartError(
        f"report: {path} is not a start report of version {VERSION}: its field {name} "
        "is missing or of another type"
    )
