"""What one rank tells rank 0 of itself, as plain data that can cross the network."""

from __future__ import annotations

import errno
import os
import socket
import time
from zlib import crc32

from gangstart import core, iface
from gangstart.errors import GangstartError
from gangstart.gpuanswer import GpuWord
from gangstart.record import Record, plain
from gangstart.run.judge import Proc
from gangstart.run.place import program_errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from gangstart.run.launched import Launched


class Member(Record):
    """One rank. Times are seconds; ``age_s`` = how long ago it was ready to start."""

    proc: Proc
    pid: int
    local_rank: int | None
    node_index: int | None  # by Slurm
    age_s: float
    address: str  # of its node, "" = it has none
    step: tuple[int, int, int] | None
    job: int | None
    claim: int  # hash of what it believes about the start
    gpu: GpuWord | None  # of the one rank of each node that looked
    uuids: tuple[str, ...]  # the node's GPUs, of the rank that looked
    visible: str | None  # CUDA_VISIBLE_DEVICES
    program: str
    program_errno: int  # of executing the program here, 0 = it can be
    user_address: str
    user_port: str

    def packed(self) -> dict[str, Any]:
        """As plain dicts and lists."""
        made: dict[str, Any] = plain(self)
        return made

    @classmethod
    def unpacked(cls, raw: Mapping[str, Any]) -> Member:
        """From what ``packed`` made."""
        gpu = GpuWord(**raw["gpu"]) if raw["gpu"] is not None else None
        step = tuple(raw["step"]) if raw["step"] is not None else None
        return cls(**{**raw, "proc": Proc(**raw["proc"]), "gpu": gpu, "step": step})


def own_master(env: Mapping[str, str]) -> tuple[str, str]:
    """MASTER_ADDR and MASTER_PORT that the user set himself, "" = he did not."""
    stale = core.env_stale(env)
    kept = {k: v for k, v in env.items() if k not in stale}
    return kept.get("MASTER_ADDR", ""), kept.get("MASTER_PORT", "")


def toward(env: Mapping[str, str]) -> str:
    """This node's address on the way to srun, where Slurm works; "" = not known."""
    srun = env.get("SLURM_SRUN_COMM_HOST", "")
    family = socket.AF_INET6 if ":" in srun else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((srun, 9))  # nothing is sent
            return str(probe.getsockname()[0]) if srun else ""
    except OSError:
        return ""


def own_address(env: Mapping[str, str]) -> str:
    """The address that this node is known by in a report; "" = it has none."""
    try:
        return toward(env) or iface.rank(iface.ifaces())[0].address
    except GangstartError:
        return ""


class Ready(Record):
    """What is known before MPI: from the launcher, the GPUs and the command line."""

    launched: Launched
    spec: core.Spec
    program: str
    came: float  # monotonic clock: looks are done, MPI_Init comes
    gpu: GpuWord | None
    uuids: tuple[str, ...]
    script: tuple[str, ...] = ()  # to run in this interpreter, empty = a command
    slurm_version: str = ""  # on rank 0 in Slurm


def missing_errno(ready: Ready, env: Mapping[str, str]) -> int:
    """The errno that starting the program would give here, 0 = it can be run."""
    if ready.script[:1] == ("-m",):
        return 0
    if ready.script:
        return 0 if os.path.exists(ready.script[0]) else errno.ENOENT
    return program_errno(ready.program, env)


def member(ready: Ready, env: Mapping[str, str], mpi: tuple[int, int]) -> Member:
    """Describe this process as rank ``mpi[0]`` of ``mpi[1]``."""
    told = ready.launched
    address, port = own_master(env)
    index = env.get("SLURM_NODEID", "") if told.step else ""
    return Member(
        proc=Proc(told.rank, told.size, mpi[0], mpi[1], told.node),
        pid=os.getppid(),
        local_rank=told.local_rank,
        node_index=int(index) if index.isdecimal() else None,
        age_s=time.monotonic() - ready.came,
        address=own_address(env),
        step=told.step,
        job=told.job,
        claim=crc32(ready.spec.canonical.encode()) or 1,
        gpu=ready.gpu,
        uuids=ready.uuids,
        visible=env.get("CUDA_VISIBLE_DEVICES"),
        program=ready.program,
        program_errno=missing_errno(ready, env),
        user_address=address,
        user_port=port,
    )
