"""Verdicts on the files that nodes have. Pure: no I/O."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gangstart.doctor.scene import HERE, finding, judged
from gangstart.doctor.site import line_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangstart.check.result import Finding
    from gangstart.doctor.facts import Facts
    from gangstart.doctor.scene import Scene

GROUP_OR_OTHERS_WRITE = 0o022
SHORT = 12
#: Both times are whole seconds, and a process's start is counted back from now.
SLACK_S = 2
TOLD_AS_MISSING = "missing"


def nodes(scene: Scene) -> Iterator[Finding]:
    """Which nodes said nothing, and why."""
    if scene.srun_problem:
        why = f"srun cannot be used, this machine only: {scene.srun_problem}"
        yield finding("nodes", "unknown", why, scene.nodes)
        return
    if scene.asked:
        names = [told.node for told in scene.asked]
        yield finding("nodes", "ok", f"{len(names)} told their facts", names)
    silent = [t for t in scene.nodes.values() if not t.told and not no_probe(t)]
    yield from judged("nodes", silent, silence)


def silence(told: Facts) -> tuple[str, str]:
    """Judge a node that said nothing: one that was not asked is not known."""
    busy = "busy" in told.problem or "Immediate" in told.problem
    away = told.problem.startswith("not asked")
    return ("unknown" if away or busy else "fail"), told.problem


def no_probe(told: Facts) -> bool:
    """Whether a node said only that it has no probe."""
    return told.problem == TOLD_AS_MISSING


def probe(scene: Scene) -> Iterator[Finding]:
    """Whether the probe is there, and of this version."""
    lacking = [told.node for told in scene.nodes.values() if no_probe(told)]
    if lacking:
        why = f"there is no {scene.site.probe}"
        yield finding("probe", "fail", why, lacking)
    own = scene.here.one("version")

    def judge(told: Facts) -> tuple[str, str]:
        version = told.one("version")
        if not own or version == own:
            return "ok", f"gangstart-probe {version}"
        return "warn", f"gangstart-probe {version}, here it is {own}"

    yield from judged("probe", scene.asked, judge)


def plugin(scene: Scene) -> Iterator[Finding]:
    """Whether the file is there and safe."""
    told_missing = [
        t.node
        for t in scene.nodes.values()
        if no_probe(t) and t.one("plugin_state") == TOLD_AS_MISSING
    ]
    if told_missing:
        why = f"there is no {scene.site.plugin}"
        yield finding("plugin", "fail", why, told_missing)
    yield from judged("plugin", scene.everywhere, plugin_of)
    if not scene.everywhere:
        yield finding("plugin", "unknown", f"{HERE}: {scene.here.problem}")


def plugin_of(told: Facts) -> tuple[str, str]:
    """Judge one node's file."""
    path, state = told.one("plugin"), told.one("plugin_state")
    if not path:
        return "unknown", "where it should be is not known: see plugstack"
    if state == TOLD_AS_MISSING:
        return "fail", f"there is no {path}"
    if state != "ok":
        return "fail", f"{path}: {state}"
    mode = told.one("plugin_mode")
    others = mode.isdigit() and int(mode, 8) & GROUP_OR_OTHERS_WRITE
    if told.one("plugin_owner") != "0" or others:
        owner = told.one("plugin_owner")
        return "warn", f"{path} is of user {owner}, mode {mode}: root runs it"
    return "ok", path


def present(scene: Scene) -> list[Facts]:
    """Nodes whose file could be read."""
    return [told for told in scene.everywhere if told.one("plugin_sha256")]


def line(scene: Scene) -> Iterator[Finding]:
    """Whether each file is of its Slurm's release line."""

    def judge(told: Facts) -> tuple[str, str]:
        node = scene.known.get(told.node)
        running = node.line if node and node.line else scene.site.line
        built = line_of(told.one("plugin_slurm"))
        if not built:
            return "unknown", "the file does not say for which Slurm it was compiled"
        if not running:
            return "unknown", f"for Slurm {built}; which one runs is not known"
        if built != running:
            return "fail", f"the plugin is for Slurm {built}, and {running} runs"
        return "ok", f"Slurm {running}"

    yield from judged("line", present(scene), judge)


def build(scene: Scene) -> Iterator[Finding]:
    """Whether all have the same build, of each release line."""
    found = present(scene)
    lines = sorted({line_of(told.one("plugin_slurm")) for told in found})
    for name in lines:
        same = [t for t in found if line_of(t.one("plugin_slurm")) == name]
        sums = Counter(told.one("plugin_sha256") for told in same)
        here = scene.here.one("plugin_sha256")
        usual = max(sums, key=lambda one: (sums[one], one == here))

        def judge(told: Facts, usual: str = usual) -> tuple[str, str]:
            own = told.one("plugin_sha256")
            if own == usual:
                return "ok", f"SHA-256 {usual[:SHORT]}…"
            return "warn", f"SHA-256 {own[:SHORT]}…, most have {usual[:SHORT]}…"

        yield from judged("build", same, judge)


def restarted(scene: Scene) -> Iterator[Finding]:
    """Whether slurmd has seen the latest files."""
    yield from judged("restarted", scene.compute, restarted_of)


def restarted_of(told: Facts) -> tuple[str, str]:
    """Judge one node."""
    began = told.number("slurmd_began")
    if began is None or began < 0:
        return "unknown", "slurmd's process cannot be seen there"
    newer = sorted(
        path for path, when in told.changed.items() if when > began + SLACK_S
    )
    if newer:
        return "warn", f"slurmd was started before {', '.join(newer)} changed"
    if not told.changed:
        return "unknown", "none of its files can be seen"
    return "ok", "slurmd is younger than the plugin and plugstack.conf"


JUDGES = (nodes, plugin, line, build, probe, restarted)
