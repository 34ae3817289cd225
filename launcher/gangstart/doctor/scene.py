"""Everything that is judged, and how a judgement of many nodes becomes few findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gangstart import core
from gangstart.check.result import Finding, clean
from gangstart.doctor import catalogue
from gangstart.doctor.facts import Facts
from gangstart.doctor.site import Node, Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

HERE = "here"


@dataclass(frozen=True)
class Scene:
    """What is known of a cluster."""

    site: Site = field(default_factory=Site)
    here: Facts = field(default_factory=lambda: Facts("here"))
    nodes: Mapping[str, Facts] = field(default_factory=dict)
    nonce: str = ""  # what the greeter of this machine answers
    greeter_problem: str = ""
    srun_problem: str = ""

    @property
    def known(self) -> dict[str, Node]:
        """Nodes as the controller knows them."""
        return {node.name: node for node in self.site.nodes}

    @property
    def asked(self) -> list[Facts]:
        """Nodes that told their facts."""
        return [told for told in self.nodes.values() if told.told]

    @property
    def compute(self) -> list[Facts]:
        """The same, and this machine if it runs a slurmd."""
        own = [self.here] if self.here.told and self.here.one("slurmd") else []
        return [t for t in own if t.node not in self.nodes] + self.asked

    @property
    def everywhere(self) -> list[Facts]:
        """The same, and this machine in any case."""
        own = [self.here] if self.here.told else []
        return [t for t in own if t.node not in self.nodes] + self.asked


def finding(
    check: str, verdict: str, reason: str, where: Iterable[str] = ()
) -> Finding:
    """One finding; what to do about it, and why, is in the catalogue."""
    row = catalogue.find(check)
    names = [clean(name, 64) for name in where]
    return Finding(
        check=check,
        verdict=verdict,
        reason=clean(reason, 400),
        subject=core.fold(names) if names else "",
        limit=row.limit,
        action="" if verdict == "ok" else row.action,
        source=row.source,
    )


def judged(
    check: str,
    facts: Iterable[Facts],
    judge: Callable[[Facts], tuple[str, str]],
) -> Iterator[Finding]:
    """Judge each node by itself; nodes of which the same is said are one finding."""
    found: dict[tuple[str, str], list[str]] = {}
    for told in facts:
        found.setdefault(judge(told), []).append(told.node)
    for (verdict, reason), names in found.items():
        yield finding(check, verdict, reason, names)
