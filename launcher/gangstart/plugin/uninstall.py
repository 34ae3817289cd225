"""``gangstart plugin uninstall``: takes back what install wrote, and nothing else."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from gangstart import job, plugstack, stackfile
from gangstart.doctor.tools import Commands
from gangstart.errors import GangstartError
from gangstart.plugin import apply, place, plan
from gangstart.plugin.install import add_place
from gangstart.usage import Parser

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

    from gangstart.doctor.tools import Tools
    from gangstart.plugin.place import Place

EXIT_LEFT = 1
REQUIRED = "required"


def parser() -> Parser:
    """Build the command line of this verb."""
    made = Parser(
        prog="gangstart plugin uninstall",
        description="Remove what gangstart plugin install wrote. A file that was "
        "changed since, or that somebody else wrote, is left and named; of a text only "
        "the plugin's line is taken out.",
        epilog="Exit code 1 if something of the plugin is left.",
    )
    add_place(made)
    return made


def main(argv: list[str]) -> int:
    """Remove, or show what would be."""
    options = parser().parse_args(argv)
    return uninstall(options, Commands(), job.environ())


def uninstall(options: argparse.Namespace, tools: Tools, env: Mapping[str, str]) -> int:
    """Plan, show, do; say what is left."""
    wanted = place.Wanted(options.root, options.conf_dir)
    where = place.find(wanted, tools, env)
    left: list[str] = []
    with contextlib.nullcontext() if options.dry_run else apply.alone(where):
        record = apply.load(where)
        changes = [*includes(where, record), *files(where, record, left)]
        refuse_required(where, changes)
        if not changes:
            sys.stdout.write("plugin: this command has installed nothing here\n")
        for one in changes:
            sys.stdout.write("".join(f"{line}\n" for line in plan.describe(one)))
        if options.dry_run:
            sys.stdout.write("nothing was changed (--dry-run)\n")
        else:
            finish(where, changes, record)
            left += listed(where)
    sys.stdout.write("".join(f"left: {line}\n" for line in left))
    return EXIT_LEFT if left else 0


def refuse_required(where: Place, changes: list[plan.Change]) -> None:
    """Keep the plugin's file while a line that stays would stop jobs without it."""
    edited = {one.path for one in changes}
    stay = [
        row
        for row in plugstack.ours(plan.rows(where))
        if row.mode == REQUIRED and row.path not in edited
    ]
    if changes and stay:
        raise GangstartError(
            f"plugin: {stay[0]} says {REQUIRED}, and without the file no job would "
            "start: this command did not write that line, so take it out first"
        )


def finish(where: Place, changes: list[plan.Change], record: apply.Record) -> None:
    """Do it; afterwards nothing is recorded."""
    for one in changes:
        path = where.real(one.path)
        if one.new is None:
            apply.remove(path)
        else:
            apply.write(path, one.new, one.mode)
    record.files.clear()
    record.includes.clear()
    apply.save(where, record)


def includes(where: Place, record: apply.Record) -> list[plan.Change]:
    """Take our include line out; a file that then is empty was ours as a whole."""
    made = []
    for path, line in record.includes.items():
        old = plan.read(where, path)
        if old is None:
            continue
        lines = old.decode(errors="surrogateescape").splitlines(keepends=True)
        kept = "".join(one for one in lines if one.strip() != line)
        new = kept.encode(errors="surrogateescape") or None
        if new != old:
            made.append(plan.Change(path, old, new, plan.TEXT))
    return made


def files(where: Place, record: apply.Record, left: list[str]) -> list[plan.Change]:
    """Remove files that are as they were written; the others are left and named."""
    made = []
    for path, told in record.files.items():
        old = plan.read(where, path)
        if old is None:
            continue
        if plan.digest(old) == told and path != where.stack:
            mode = plan.PROGRAM if is_program(path) else plan.TEXT
            made.append(plan.Change(path, old, None, mode))
        elif is_program(path):
            left.append(f"{path}, changed since it was installed")
        else:
            made.append(without_line(path, old))
            left.append(f"{path}, without the plugin's line: somebody has edited it")
    return made


def is_program(path: Path) -> bool:
    """Whether it is one of the two files."""
    return path.name in (stackfile.PLUGIN, plan.PROBE)


def without_line(path: Path, old: bytes) -> plan.Change:
    """Take the plugin's line out of a text."""
    lines = old.decode(errors="surrogateescape").splitlines(keepends=True)
    kept = "".join(line for line in lines if not plan.OWN_LINE.match(line))
    return plan.Change(path, old, kept.encode(errors="surrogateescape"), plan.TEXT)


def listed(where: Place) -> list[str]:
    """Lines of the plugin that are still in plugstack.conf: not ours."""
    return [f"{row}: {' '.join(row.words)}" for row in plugstack.ours(plan.rows(where))]
