"""The causes that triage knows: what each means, and what helps.

Each row: what it is in a word, whether the node is to be drained,
what to do next ({node} and {job} are filled in), and why that helps.
"""

from __future__ import annotations

from typing import NamedTuple


class Code(NamedTuple):
    """One cause."""

    title: str
    drain: str  # "yes", "no", or "depends"
    command: str
    why: str
    nowhere: str = ""  # the command where no node is known, in place of {node}

    @property
    def drains(self) -> bool | None:
        """Whether the node is to be drained; None: it depends."""
        return {"yes": True, "no": False}.get(self.drain)


DRAIN = "scontrol update NodeName={node} State=DRAIN Reason='{code}: {job}'"
EXCLUDE = "sbatch --exclude={node} …"
UNPLACED = "look for where the program says that, fix it, then start again"
NODELESS = (
    "srun --label --gang-start …",
    "no node is known from what was looked at: says of each line whose it is",
)
PROGRAM = "fix the program at the place named above, then start again"

CODES: dict[str, Code] = {
    "APP_EXCEPTION": Code("the program raised", "no", PROGRAM, "a bug or bad input"),
    "APP_EXIT": Code(
        "the program ended itself",
        "no",
        "read the program's own message above",
        "it chose to stop",
    ),
    "APP_ILLEGAL_ACCESS": Code(
        "illegal GPU memory access of the program",
        "no",
        "CUDA_LAUNCH_BLOCKING=1 srun …",
        "names the kernel that does it",
    ),
    "SEGFAULT": Code(
        "a process crashed",
        "no",
        "PYTHONFAULTHANDLER=1 srun …",
        "prints the Python stack of the crash",
    ),
    "CUDA_OOM": Code(
        "GPU memory ran out",
        "no",
        "use a smaller batch, activation checkpointing or more GPUs",
        "the job needs more GPU memory than there is",
    ),
    "HOST_OOM": Code(
        "host memory ran out",
        "no",
        "sbatch --mem=… (more), or fewer DataLoader workers (num_workers)",
        "the limit of the job's cgroup or the node's RAM was reached",
    ),
    "SHM_FULL": Code(
        "/dev/shm is full",
        "no",
        "df -h /dev/shm; ls -la /dev/shm on {node}",
        "shows what fills it; raise its size or remove leftovers",
        "srun df -h /dev/shm",
    ),
    "DISK_FULL": Code(
        "a file system is full", "no", "df -h the path above", "shows how full it is"
    ),
    "DISK_QUOTA": Code(
        "the quota is used up", "no", "quota -s; lfs quota -h PATH", "shows the use"
    ),
    "FS_STALE": Code(
        "a mount is stale or lost",
        "depends",
        "stat the path above on {node}; remount it",
        "a stale handle stays until the mount is renewed",
        "srun stat the path above",
    ),
    "FD_LIMIT": Code(
        "too many open files",
        "no",
        "ulimit -n 65536 before srun",
        "the limit of open files was reached",
    ),
    "CHECKPOINT_CORRUPT": Code(
        "the checkpoint cannot be read",
        "no",
        "resume from the checkpoint before it",
        "this one was cut while it was written",
    ),
    "GPU_FELL_OFF_BUS": Code(
        "a GPU has fallen off the bus", "yes", DRAIN, "only a reboot brings it back"
    ),
    "GPU_ECC": Code(
        "GPU memory error", "yes", DRAIN, "reset the GPU; replace if again"
    ),
    "GPU_NVLINK": Code("NVLink error", "yes", DRAIN, "reset the GPUs; check the link"),
    "GPU_HW": Code("a GPU is broken", "yes", DRAIN, "reset the GPU or reboot the node"),
    "GPU_BUSY": Code(
        "a GPU is taken", "depends", EXCLUDE, "see who holds it: gangstart check there"
    ),
    "GPU_COUNT": Code("GPUs are missing", "yes", DRAIN, "the node lacks a GPU"),
    "GPU_LEFTOVER_MEMORY": Code(
        "GPU memory held by a stranger",
        "depends",
        "gangstart check on {node}",
        "names the leftover process; end it or exclude the node",
    ),
    "GPU_BINDING": Code(
        "visible GPUs and LOCAL_RANK do not fit",
        "no",
        "srun --gpus-per-task=1 with device 0, or no binding with LOCAL_RANK",
        "each rank must see the GPU it asks for",
    ),
    "DUPLICATE_GPU": Code(
        "two ranks on one GPU",
        "no",
        "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))",
        "gives each rank its own GPU",
    ),
    "FABRIC_MANAGER": Code(
        "NVSwitch fabric not initialised",
        "yes",
        "systemctl restart nvidia-fabricmanager on {node}",
        "error 802 goes away when it runs in the driver's version",
    ),
    "NODE_SOFTWARE": Code(
        "software missing on a node",
        "depends",
        EXCLUDE,
        "the other nodes have it; tell the administrators",
        "install or load what is missing in the job script, then start again",
    ),
    "NODE_FAIL": Code("a node failed", "yes", EXCLUDE, "the node went away"),
    "LAUNCH_FAILED": Code(
        "Slurm could not launch", "depends", EXCLUDE, "look at slurmd's log of the node"
    ),
    "PROLOG_FAIL": Code(
        "the prolog failed",
        "depends",
        "scontrol release {job}",
        "the job is held; the user did nothing wrong",
    ),
    "CRED_EXPIRED": Code(
        "credential expired",
        "depends",
        "chronyc tracking on {node}",
        "credentials need clocks that agree",
    ),
    "CONTAINER_START": Code(
        "the container did not start",
        "depends",
        "srun --nodelist={node} --container-image=… true",
        "shows the runtime's own message",
    ),
    "KILL_TASK_FAILED": Code(
        "processes survived SIGKILL",
        "yes",
        "ps -eo pid,stat,wchan:30,cmd | grep ' D' on {node}",
        "shows what they wait for: mostly storage or the driver",
    ),
    "BARRIER_TIMEOUT": Code(
        "the gang start gave up waiting",
        "depends",
        "gangstart report {job}",
        "tells of every node how far it came",
    ),
    "RENDEZVOUS_TIMEOUT": Code(
        "ranks did not meet",
        "depends",
        "srun --gang-start …",
        "says who is missing, and why",
    ),
    "BAD_MASTER_ADDR": Code(
        "wrong MASTER_ADDR",
        "no",
        "srun --gang-start … without MASTER_ADDR of your own",
        "it chooses an address that every node has reached",
    ),
    "PORT_IN_USE": Code(
        "MASTER_PORT is taken",
        "no",
        "srun --gang-start … without MASTER_PORT of your own",
        "it holds a free port until the program takes it",
    ),
    "RANK0_LATE": Code(
        "rank 0 came too late",
        "no",
        "call init_process_group before the long work, or raise its timeout",
        "the others wait only that long",
    ),
    "STALE_INCARNATION": Code(
        "a process of an earlier run interfered",
        "depends",
        "gangstart check on the nodes",
        "finds leftovers of ended jobs",
    ),
    "MPI_SINGLETON": Code(
        "every rank is alone",
        "no",
        "srun --mpi=pmix …",
        "the MPI library must speak the PMI that srun offers",
    ),
    "NET_IB": Code(
        "InfiniBand or RoCE failed",
        "depends",
        "ibdiagnet; gangstart check on {node}",
        "counters and link state tell which cable or port",
    ),
    "NET_SOCKET": Code(
        "a TCP connection broke",
        "depends",
        "look at the log of {node}",
        "the end that closed first knows why",
    ),
    "NCCL_INTERNAL": Code(
        "NCCL failed",
        "depends",
        "NCCL_DEBUG=INFO srun …",
        "says what NCCL was doing",
    ),
    "NCCL_FIRST_COLLECTIVE": Code(
        "the first collective never completed",
        "depends",
        "NCCL_DEBUG=INFO NCCL_P2P_DISABLE=1 srun …",
        "if that works, P2P (ACS, IOMMU) is at fault; else the interface or firewall",
    ),
    "NCCL_TIMEOUT": Code(
        "a collective timed out",
        "depends",
        "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 srun …",
        "the flight recorder names the rank that did not come",
    ),
    "COLLECTIVE_MISMATCH": Code(
        "ranks called different collectives",
        "no",
        "TORCH_DISTRIBUTED_DEBUG=DETAIL srun …",
        "names the call in which the ranks differ",
    ),
    "THERMAL_STRAGGLER": Code(
        "one GPU or node is slow", "depends", EXCLUDE, "check its cooling and power"
    ),
    "TIME_LIMIT": Code(
        "the time limit was reached",
        "no",
        "sbatch --time=… (more), or resume from the last checkpoint",
        "the job was still at work",
    ),
    "PREEMPTED": Code(
        "preempted",
        "no",
        "sbatch --requeue, and save a checkpoint on the warning signal",
        "nothing is wrong with the job",
    ),
    "USER_CANCEL": Code(
        "cancelled by a person", "no", "start it again if that was not meant", "-"
    ),
    "WAITTIME_KILL": Code(
        "srun ended the step after the first task ended",
        "no",
        "srun --wait=0 …, and make all ranks do the same number of steps",
        "uneven data lets one rank finish early",
    ),
    "NO_FAILURE": Code("nothing is wrong", "no", "", ""),
    "UNKNOWN": Code(
        "not known",
        "depends",
        "start again with srun --label --gang-start",
        "what would settle it is said above",
    ),
}
