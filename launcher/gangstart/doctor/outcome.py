"""All findings of a scene, and the outcome as one JSON object. Pure: no I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gangstart import core
from gangstart.check.result import VERDICTS, clean, worst
from gangstart.doctor import catalogue, judge_files, judge_node, judge_site

if TYPE_CHECKING:
    from gangstart.check.result import Finding
    from gangstart.doctor.scene import Scene

SCHEMA = "gangstart.doctor"
VERSION = 1
JUDGES = (*judge_site.JUDGES, *judge_files.JUDGES, *judge_node.JUDGES)
ORDER = [row.id for row in catalogue.CHECKS]


def findings(scene: Scene) -> list[Finding]:
    """Judge everything: the worst first, then in the catalogue's order."""
    found = [one for judge in JUDGES for one in judge(scene)]
    return sorted(
        found,
        key=lambda one: (-VERDICTS.index(one.verdict), ORDER.index(one.check)),
    )


def outcome(scene: Scene, found: list[Finding], when: float) -> dict[str, Any]:
    """Everything that --json prints; docs/doctor.schema.json describes it."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "time": when,
        "here": clean(scene.here.node),
        "slurm": scene.site.version,
        "cluster": scene.site.setting("ClusterName"),
        "verdict": worst(one.verdict for one in found),
        "findings": [
            {
                "check": one.check,
                "verdict": one.verdict,
                "reason": one.reason,
                "nodes": core.expand(one.subject) if one.subject else [],
                "limit": one.limit,
                "action": one.action,
                "source": one.source,
            }
            for one in found
        ],
        "facts": {
            told.node: {
                "problem": clean(told.problem, 400),
                "values": {key: list(told.all(key)) for key in sorted(told.values)},
            }
            for told in [scene.here, *scene.nodes.values()]
        },
    }
