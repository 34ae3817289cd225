"""Every check there is: the GPU checks of the C core, and those of a node.

To add a check of a node: a row in OWN, a function that makes its findings, a test; see
docs/adding-a-check.md. GPU checks are rows of spank/core/gpucheck.c.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gangstart.check.result import Finding
from gangstart.errors import GangstartError

EXIT_USAGE = 2


@dataclass(frozen=True)
class Check:
    """What a check looks at and what is to be done about it."""

    id: str
    title: str
    severity: str  # off, info, warn, fail: what a hit counts as by default
    limit: str
    source: str
    action: str
    drains: str = ""


END_THEM = (
    "look at them with ps; let the epilog end them (--cleanup kill), or reboot the "
    "node if they cannot be ended"
)
OWN = (
    Check(
        "leftover_gpu",
        "no process of an ended job holds a GPU",
        "fail",
        "0 processes",
        "GCM",
        END_THEM,
        "when its cgroup or its environment names the ended job",
    ),
    Check(
        "leftover_process",
        "no process of an ended job runs",
        "warn",
        "0 processes",
        "GCM",
        END_THEM,
    ),
    Check(
        "leftover_stuck",
        "no process of an ended job hangs in the kernel (D state)",
        "warn",
        "0 processes",
        "slurm.conf(5), UnkillableStepTimeout",
        "look at /proc/PID/stack and the kernel log: a file system or a driver does "
        "not answer; reboot the node if it stays",
        "when it holds a GPU: no signal ends it",
    ),
    Check(
        "leftover_port",
        "no process of an ended job listens on MASTER_PORT or NCCL's RAS port 28028",
        "warn",
        "0 ports",
        "PyTorch, NCCL RAS",
        "end the process that listens, or let the next job take another MASTER_PORT",
    ),
    Check(
        "leftover_shm",
        "no shared memory of an ended job is in /dev/shm",
        "warn",
        "0 files",
        "NCCL, PyTorch, vLLM",
        "remove the files, or let the epilog do it (--cleanup kill)",
    ),
    Check(
        "leftover_tmp",
        "files of an ended job in /tmp, such as torchelastic_*",
        "info",
        "",
        "PyTorch",
        "remove them by hand, or use job_container/tmpfs; gangstart never does",
    ),
    Check(
        "running_jobs",
        "the running jobs of the node can be told without asking Slurm",
        "info",
        "",
        "gangstart",
        "run the check as root: slurmstepd processes, cgroups and records say it",
    ),
    Check(
        "scan",
        "processes, ports and shared memory can be read in time",
        "warn",
        "10 s",
        "gangstart",
        "look for processes in D state: reading /proc of one can hang",
    ),
    Check(
        "dashboard",
        "no dashboard of a job without a password listens beyond the node",
        "warn",
        "127.0.0.1",
        "CVE-2023-48022 (Ray), the programs' own documentation",
        "let it listen on 127.0.0.1 and reach it by ssh -L PORT:127.0.0.1:PORT NODE",
    ),
    Check(
        "rdma",
        "RDMA ports are as the others of the node: ACTIVE, and of the same rate",
        "warn",
        "ACTIVE",
        "nvidia-resiliency-ext, /sys/class/infiniband",
        "look at ibstat, the cable and the switch port; RoCE: ip link",
    ),
    Check(
        "run_in_job",
        "the prolog and epilog run outside of the job",
        "info",
        "",
        "slurm.conf(5), PrologFlags=RunInJob",
        "know that device limits of the job hide other GPUs from the check, and that "
        "Slurm calls no SPANK prolog or epilog hook then",
    ),
    Check(
        "clean_up",
        "what was left over could be ended and removed",
        "warn",
        "",
        "gangstart",
        END_THEM,
    ),
)
BY_ID = {check.id: check for check in OWN}
#: What a hit of a severity says.
VERDICT_OF = {"off": "ok", "info": "ok", "warn": "warn", "fail": "fail"}


def hit(check_id: str, reason: str, **other: Any) -> Finding:  # noqa: ANN401
    """A finding of a check, with its defaults where nothing else is said."""
    check = BY_ID[check_id]
    verdict = VERDICT_OF[check.severity]
    known: dict[str, Any] = {
        "verdict": verdict,
        "limit": check.limit,
        "action": check.action,
        "source": check.source,
    }
    known |= other
    known.setdefault("kind", "note" if known["verdict"] == "ok" else "hit")
    return Finding(check=check.id, reason=reason, **known)


def drains_when(severity: str, *, at_end: bool) -> str:
    """When a GPU check drains its node: count_finding() of spank/core/gpurule.c."""
    if severity == "fail":
        return "at any stage, once it has stayed for as long as the check waits"
    if severity == "warn" and at_end:
        return "only when it is found after a job's end, once it has stayed"
    return "never"


def everything() -> list[Check]:
    """Every check, GPUs first."""
    from gangstart import gpucheck  # noqa: PLC0415 - the C core is for --explain only

    of_gpus = [
        Check(
            c.id,
            c.title,
            c.severity,
            f"{c.limit} {c.unit}".strip() if c.unit else "",
            c.source,
            c.action,
            drains_when(c.severity, at_end=c.at_end),
        )
        for c in gpucheck.catalogue()
    ]
    return [*of_gpus, *OWN]


def find(name: str) -> Check:
    """The check of an id; an unknown one names its closest matches."""
    known = {check.id: check for check in everything()}
    if name in known:
        return known[name]
    import difflib  # noqa: PLC0415 - slow to import, and only mistakes need it

    close = difflib.get_close_matches(name[:60], list(known), n=3, cutoff=0.5)
    hint = (
        f"did you mean {' or '.join(close)}?"
        if close
        else "gangstart check --explain lists them"
    )
    raise GangstartError(
        f"check: there is no check {name[:60]!r}: {hint}", exit_code=EXIT_USAGE
    )


def explained(check: Check) -> str:
    """Everything about one check."""
    rows = (
        ("counts as", check.severity),
        ("limit", check.limit or "none to set"),
        ("drains", check.drains or "never"),
        ("source", check.source),
        ("what to do", check.action),
    )
    told = [f"  {name:<11} {text}" for name, text in rows if text]
    return "\n".join([f"{check.id}: {check.title}", *told])


def listed() -> str:
    """One line per check."""
    known = everything()
    width = max(len(check.id) for check in known)
    return "\n".join(f"{c.id:<{width}}  {c.severity:<4}  {c.title}" for c in known)
