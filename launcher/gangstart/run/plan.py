"""The environment of one rank's program: the plan of the C core, fed from an MPI world.

Under srun the core reads Slurm's own variables. Under any other launcher the same plan
is made from the variables that Slurm would have set for this layout.
"""

from __future__ import annotations

from types import MappingProxyType

from gangstart import core
from gangstart.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: What MPI launchers and libraries leave for the processes that they start. A program
#: that inherited it would take itself for a rank that has ended already.
MPI_PREFIXES = (
    "PMI_", "PMI2_", "PMIX_", "OMPI_", "MPI_LOCAL", "MPIR_", "MPICH_", "HYDRA_",
    "HYDI_", "HYD_", "PRTE_", "OPAL_", "ORTE_", "MPIEXEC_", "I_MPI_", "MV2_",
)  # fmt: skip
MPI_NAMES = ("PMI_FD", "PMI_RANK", "PMI_SIZE", "MPIRUN_RANK", "IPATH_NO_CPUAFFINITY")


class Meeting(Record):
    """What was settled at the release."""

    address: str = ""
    port: int = 0
    t0: float = 0.0  # Unix time
    report: str = ""


class Layout(Record):
    """Which node has which ranks, nodes in order; ``slurm``: by srun, else not."""

    step: tuple[int, int]
    nodes: Mapping[str, Sequence[int]]
    slurm: bool = False
    visible: Mapping[int, Sequence[str]] = MappingProxyType({})  # GPU UUIDs

    @property
    def world(self) -> int:
        """How many ranks."""
        return sum(len(ranks) for ranks in self.nodes.values())

    def rank_node(self) -> list[str]:
        """Node of each rank."""
        by_rank = {r: node for node, ranks in self.nodes.items() for r in ranks}
        return [by_rank[rank] for rank in range(self.world)]


def as_slurm(layout: Layout, rank: int) -> dict[str, str]:
    """Variables that Slurm would have set for a rank of this layout."""
    node = layout.rank_node()[rank]
    local = sorted(layout.nodes[node])
    counts = [str(len(ranks)) for ranks in layout.nodes.values()]
    return {
        "SLURM_JOB_ID": str(layout.step[0]),
        "SLURM_STEP_ID": str(layout.step[1]),
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(local.index(rank)),
        "SLURM_NODEID": str(list(layout.nodes).index(node)),
        "SLURM_STEP_NUM_TASKS": str(layout.world),
        "SLURM_NTASKS": str(layout.world),
        "SLURM_STEP_NUM_NODES": str(len(layout.nodes)),
        "SLURM_STEP_NODELIST": ",".join(layout.nodes),
        "SLURM_STEP_TASKS_PER_NODE": ",".join(counts),
        "SLURM_GTIDS": ",".join(map(str, local)),
        "SLURMD_NODENAME": node,
    }


def plan(
    env: Mapping[str, str],
    layout: Layout,
    rank: int,
    meeting: Meeting,
    spec: core.Spec | None = None,
) -> core.EnvPlan:
    """Plan one rank's variables; env is its environment as the launcher made it."""
    wanted = spec or core.parse_spec("on")
    base = dict(env)
    if not layout.slurm:
        base = {k: v for k, v in env.items() if not k.startswith("SLURM")}
        base |= as_slurm(layout, rank)
    nodes = layout.rank_node()
    local = sorted(layout.nodes[nodes[rank]])
    seen = layout.visible
    facts = core.EnvFacts(
        rank0_node=nodes[0],
        rank_node=nodes,
        master_addr=meeting.address or None,
        master_port=meeting.port,
        report=meeting.report or None,
        t0=meeting.t0,
        presets=wanted.env_presets,
        without=wanted.env_without,
        ports=wanted.ports,
        gpus_required=wanted.health == "require",
        visible=seen.get(rank),
        local_gpus={local.index(r): seen[r] for r in local if r in seen},
    )
    return core.env_plan(base, facts)


def clean(env: Mapping[str, str]) -> dict[str, str]:
    """Environment without what belongs to the MPI start that is over."""
    return {
        name: value
        for name, value in env.items()
        if not name.startswith(MPI_PREFIXES) and name not in MPI_NAMES
    }
