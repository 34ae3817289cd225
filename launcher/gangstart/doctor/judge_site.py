"""Verdicts on what Slurm and plugstack.conf say. Pure: no I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangstart import plugstack
from gangstart.doctor.scene import finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangstart.check.result import Finding
    from gangstart.doctor.scene import Scene

LINUXPROC = "proctrack/linuxproc"


def slurm(scene: Scene) -> Iterator[Finding]:
    """Whether the controller told its configuration."""
    site = scene.site
    if site.config:
        said = f"Slurm {site.version or '?'}, cluster {site.setting('ClusterName')}"
        yield finding("slurm", "ok", said)
    else:
        yield finding("slurm", "unknown", f"scontrol: {site.config_problem}")


def plugged(scene: Scene) -> Iterator[Finding]:
    """Whether plugstack.conf names the plugin, and well."""
    site = scene.site
    if not site.ours:
        what = "names no gangstart" if site.stack.exists() else "does not exist"
        yield finding("plugstack", "fail", f"{site.stack} {what}")
        return
    for sentence in site.argument_errors:
        yield finding("plugstack", "fail", sentence)
    required = [str(row) for row in site.ours if row.mode != "optional"]
    if required:
        said = f"{required[0]} says {site.ours[0].mode}"
        yield finding("plugstack", "warn", said)
    if not site.argument_errors and not required:
        yield finding("plugstack", "ok", str(site.ours[0]))


def twice(scene: Scene) -> Iterator[Finding]:
    """Whether it is listed once."""
    lines = scene.site.ours
    if len(lines) > 1:
        where = " and ".join(map(str, lines))
        yield finding("twice", "warn", f"{len(lines)} lines: {where}")
    elif lines:
        yield finding("twice", "ok", "one line")


def order(scene: Scene) -> Iterator[Finding]:
    """Whether it comes after plugins that start containers."""
    rows = list(scene.site.rows)
    mine = plugstack.ours(rows)
    if not mine:
        return
    first = rows.index(mine[0])
    behind = plugstack.containers(rows[first:])
    before = plugstack.containers(rows[:first])
    if behind:
        said = f"{mine[0]} comes before {behind[0].name} ({behind[0]})"
        yield finding("order", "warn", said)
    else:
        names = ", ".join(row.name for row in before) or "there are none"
        yield finding("order", "ok", f"after container plugins: {names}")


def option(scene: Scene) -> Iterator[Finding]:
    """Whether users can see it."""
    site = scene.site
    if site.option is None:
        yield finding("option", "unknown", f"srun --help: {site.option_problem}")
    elif site.option:
        yield finding("option", "ok", "srun --help shows --gang-start")
    else:
        yield finding("option", "fail", "srun --help does not show --gang-start")


def flags(scene: Scene) -> Iterator[Finding]:
    """Whether the hooks run, and when."""
    site = scene.site
    if not site.config:
        yield finding("prolog_flags", "unknown", "slurm.conf is not known")
        return
    told = site.setting("PrologFlags")
    words = {word.strip().lower() for word in told.split(",")}
    hooks = site.arguments.get("hooks", "off")
    early = words & {"alloc", "contain", "deferbatch", "nohold", "x11"}
    said = f"PrologFlags={told or 'none'}, hooks={hooks}"
    if "runinjob" in words:
        why = f"{said}: with RunInJob Slurm calls no SPANK prolog or epilog"
        yield finding("prolog_flags", "warn", why)
    elif hooks == "drain" and not early:
        why = f"{said}: other nodes than a job's first look when a step comes"
        yield finding("prolog_flags", "warn", why)
    else:
        yield finding("prolog_flags", "ok", said)


def proctrack(scene: Scene) -> Iterator[Finding]:
    """Whether Slurm finds a job's processes."""
    told = scene.site.setting("ProctrackType")
    if not told:
        yield finding("proctrack", "unknown", "ProctrackType is not known")
    else:
        verdict = "warn" if told == LINUXPROC else "ok"
        yield finding("proctrack", verdict, f"ProctrackType={told}")


def nofile(scene: Scene) -> Iterator[Finding]:
    """Whether a start on all nodes would run out of descriptors."""
    nodes = len(scene.site.nodes) or len(scene.nodes)
    need = 2 * nodes + 64
    told = scene.here.one("limit_nofile")
    limit = scene.here.number("limit_nofile")
    if told == "unlimited" or (limit is not None and limit >= need):
        yield finding("nofile", "ok", f"{told} for {nodes} nodes")
    elif limit is None:
        yield finding("nofile", "unknown", "the limit here is not known")
    else:
        why = f"{limit} here; a start on all {nodes} nodes may need {need}"
        yield finding("nofile", "warn", why)


JUDGES = (slurm, plugged, twice, order, option, flags, proctrack, nofile)
