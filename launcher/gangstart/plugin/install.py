"""``gangstart plugin install``: the plugin in place, and its line in plugstack.conf."""

from __future__ import annotations

import contextlib
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import gangstart
from gangstart import core, job, plugstack, stackfile
from gangstart.doctor import facts
from gangstart.doctor.site import line_of
from gangstart.doctor.tools import Commands
from gangstart.errors import GangstartError
from gangstart.plugin import apply, path, place, plan
from gangstart.usage import Parser

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from gangstart.doctor.tools import Tools
    from gangstart.plugin.place import Place
    from gangstart.plugin.plan import Change
    from gangstart.plugin.recipe import Line

EXIT_USAGE = 2
PROBE_S = 15.0
PLUGIN_BYTES_MAX = 64 << 20  # ours has half a MiB


def add_place(made: Parser) -> None:
    """Give a parser the options that say where things are."""
    add = made.add_argument
    add("--conf-dir", default="", metavar="DIR", help="folder of plugstack.conf")
    add("--root", default="/", metavar="DIR", help="the image of another machine")
    add("--dry-run", action="store_true", help="show what would be done")


def parser() -> Parser:
    """Build the command line of this verb."""
    made = Parser(
        prog="gangstart plugin install",
        description="Copy spank_gangstart.so and gangstart-probe, and name the plugin "
        "in plugstack.conf.d/gangstart.conf, after plugins that start containers. Run "
        "again it changes nothing; given KEY=VALUE it changes that key. Compute nodes "
        "need the two files and the line, nothing else.",
        epilog="KEY=VALUE are the keys of plugstack.conf: see spank_gangstart(8).",
    )
    add = made.add_argument
    add("arguments", nargs="*", metavar="KEY=VALUE", help="as in plugstack.conf")
    add(
        "--libdir", default="", metavar="DIR", help="where the two files go (PluginDir)"
    )
    add("--plugin", metavar="PATH", help="the .so to install (gangstart plugin path)")
    add("--release", default="", metavar="YY.MM", help="Slurm's, if it is not here")
    add("--files-only", action="store_true", help="leave plugstack.conf alone")
    add("--replace", action="store_true", help="take over files of somebody else")
    add_place(made)
    return made


def main(argv: list[str]) -> int:
    """Install, or show what would be."""
    options = parser().parse_args(argv)
    return install(options, Commands(), job.environ())


def install(options: argparse.Namespace, tools: Tools, env: Mapping[str, str]) -> int:
    """Plan, show, do."""
    site = read_arguments(options.arguments)
    wanted = place.Wanted(
        options.root, options.conf_dir, options.libdir, options.release
    )
    where = as_listed(place.find(wanted, tools, env), wanted)
    source = Path(options.plugin) if options.plugin else path.find(line_for(where))
    files = read_files(source, where)
    check_line(source, where, tools, env)
    with contextlib.nullcontext() if options.dry_run else apply.alone(where):
        record = apply.load(where)
        changes = plan.changes(where, files, site, record.files)
        if options.files_only:
            changes = [one for one in changes if one.mode == plan.PROGRAM]
        refuse_foreign(changes, record, replace=options.replace)
        show(changes, dry=options.dry_run)
        if not options.dry_run:
            remember_include(where, changes, record)
            apply.carry_out(where, changes, record)
    advise(where, changes)
    return 0


def read_arguments(words: Sequence[str]) -> dict[str, str]:
    """Read KEY=VALUE of the command line; the core says what is allowed."""
    try:
        core.parse_spec("off", arguments=words)
    except GangstartError as error:
        raise GangstartError(f"plugin: {error.message}", exit_code=EXIT_USAGE) from None
    return dict(word.partition("=")[::2] for word in words)


def read_files(plugin: Path, where: Place) -> plan.Files:
    """Read what is to be installed."""
    package = Path(gangstart.__file__).parent
    template = (package / "plugin" / plan.CONF).read_text()
    told = plugin.stat()
    if not stat.S_ISREG(told.st_mode) or told.st_size > PLUGIN_BYTES_MAX:
        raise GangstartError(
            f"plugin: {plugin} is no SPANK plugin: name another --plugin"
        )
    commented = f"optional {stackfile.PLUGIN}\n"
    return plan.Files(
        plugin=plugin.read_bytes(),
        probe=(package / plan.PROBE).read_bytes(),
        template=template.replace(f"\n{commented}", f"\noptional {where.named}\n"),
    )


def as_listed(where: Place, wanted: place.Wanted) -> Place:
    """Keep the folder that plugstack.conf names already, a package's for instance."""
    listed = plugstack.ours(plan.rows(where))
    if wanted.libdir or not listed or not listed[0].file.startswith("/"):
        return where
    return replace(where, libdir=Path(listed[0].file).parent)


def line_for(where: Place) -> Line:
    """Return the release line that a plugin is wanted for."""
    if where.line:
        return path.read(where.line)
    if where.root != Path("/"):
        raise GangstartError(
            f"plugin: --root {where.root} needs --release, the Slurm there, such as "
            "--release 24.11",
            exit_code=EXIT_USAGE,
        )
    return path.local()


def check_line(
    plugin: Path, where: Place, tools: Tools, env: Mapping[str, str]
) -> None:
    """Refuse a plugin that this Slurm would not load, by what the probe says of it."""
    probe = Path(gangstart.__file__).with_name(plan.PROBE)
    argv = [str(probe), "--facts", "--plugin", str(plugin)]
    told = facts.parse("here", tools.run(argv, PROBE_S, env).out)
    built = line_of(told.one("plugin_slurm"))
    if not built:
        raise GangstartError(
            f"plugin: {plugin} is no SPANK plugin: name another --plugin"
        )
    if where.line and built != where.line:
        raise GangstartError(
            f"plugin: {plugin} is for Slurm {built}, and here is {where.line}: Slurm "
            "loads only its own release's; gangstart plugin build compiles one"
        )


def refuse_foreign(
    changes: Sequence[Change], record: apply.Record, *, replace: bool
) -> None:
    """Refuse to overwrite a program that this command did not write."""
    for one in changes:
        foreign = one.old is not None and one.path not in record.files
        if one.mode == plan.PROGRAM and one.needed and foreign and not replace:
            raise GangstartError(
                f"plugin: {one.path} was not written by this command (a package, or "
                "somebody by hand): --replace takes it over, --libdir DIR puts ours "
                "elsewhere"
            )


def show(changes: Sequence[Change], *, dry: bool) -> None:
    """Print what changes."""
    for one in changes:
        lines = plan.describe(one) if one.needed else [f"{one.path}: unchanged"]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    if dry:
        sys.stdout.write("nothing was changed (--dry-run)\n")


def remember_include(
    where: Place, changes: Sequence[Change], record: apply.Record
) -> None:
    """Note the line that plugstack.conf gets; one that was there is not ours."""
    for one in changes:
        if one.path != where.stack or not one.needed:
            continue
        was = set((one.old or b"").decode(errors="surrogateescape").splitlines())
        now = (one.new or b"").decode(errors="surrogateescape").splitlines()
        (added,) = [line for line in now if line not in was]
        own = record.includes.get(one.path)
        if own in was or not any(plan.OWN_LINE.match(line) for line in was):
            record.includes[one.path] = added.strip()


def advise(where: Place, changes: Sequence[Change]) -> None:
    """Say what is left to do."""
    files = (
        f"login and compute nodes need {where.libdir}/{stackfile.PLUGIN}, "
        f"{plan.PROBE} beside it and {where.stack}; compute nodes need no Python"
    )
    rows = [
        "steps use it at once; restart slurmd for its prolog and epilog hooks",
        files,
        "gangstart doctor --nodes all looks whether it is right everywhere",
    ]
    if where.configless:
        rows[1:1] = ["configless: scontrol reconfigure hands plugstack.conf out"]
    if any(one.needed for one in changes):
        sys.stdout.write("".join(f"next: {row}\n" for row in rows))
