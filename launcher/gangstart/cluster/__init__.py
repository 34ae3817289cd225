"""A private Slurm of several nodes on this one machine, to try and to test with.

    up ──▶ lifecycle ──starts──▶ keeper ──builds──▶ space (namespaces) ── net (cables)
                                   │ ──starts──▶ daemons: munged slurmctld slurmd…
    run, node, link ──▶ enter ─────┘ through the keeper's open namespaces
    down ──▶ removal ──▶ process: who belongs to it, verified, ended

`config` renders the files and is pure; `state` is the cluster's directory; `handle` is
the same for Python: `Cluster.up(Spec(nodes=4))`.
"""

from __future__ import annotations

from gangstart.cluster.config import Spec
from gangstart.cluster.handle import Cluster

__all__ = ["Cluster", "Spec"]
