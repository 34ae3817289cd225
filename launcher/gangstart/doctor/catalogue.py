"""Every finding that doctor can make: what is right, and what to do if it is not.

To add one: a row here, a function in a judge_* module that yields its findings, the
function's name in that module's JUDGES, a test in tests/doctor.
"""

from __future__ import annotations

from typing import NamedTuple


class Check(NamedTuple):
    """One thing that is looked at."""

    id: str
    title: str
    limit: str
    action: str
    source: str = "gangstart"


CHECKS = (
    Check(
        "slurm",
        "Slurm's commands work here and the controller answers",
        "",
        "run scontrol ping; on a login node see that slurm.conf (or sackd) and "
        "munge are those of the cluster",
        "scontrol(1)",
    ),
    Check(
        "auth",
        "the authentication service answers",
        "",
        "systemctl start munge (one key everywhere: munge -n | ssh NODE unmunge)",
        "munge(7)",
    ),
    Check(
        "nodes",
        "every node tells its facts",
        "",
        "look at the node with scontrol show node NODE and at its slurmd's log",
    ),
    Check(
        "plugstack",
        "plugstack.conf names the plugin, with keys that it knows",
        "optional",
        "gangstart plugin install writes the line; keep it optional: with required a "
        "missing file stops every job",
        "plugstack.conf, spank(7)",
    ),
    Check(
        "twice",
        "the plugin is listed once",
        "1 line",
        "remove all lines but one from plugstack.conf",
    ),
    Check(
        "order",
        "the plugin comes after plugins that start containers",
        "last",
        "gangstart plugin install puts it behind them; else their work is not waited "
        "for and is not covered by the start",
    ),
    Check(
        "plugin",
        "the plugin's file is there, and only root can change it",
        "root, not writable for others",
        "copy spank_gangstart.so there with owner root and mode 755 (replace it by mv, "
        "never overwrite it: running steps have it mapped)",
    ),
    Check(
        "line",
        "the plugin was compiled for the release line of its Slurm",
        "the same YY.MM",
        "gangstart plugin path prints the file for this Slurm; gangstart plugin "
        "install puts it in place",
        "spank(7): the plugin must match Slurm's release",
    ),
    Check(
        "build",
        "every node has the same build",
        "one SHA-256 per release line",
        "copy the same spank_gangstart.so to all nodes",
    ),
    Check(
        "probe",
        "gangstart-probe lies beside the plugin, of the same version",
        "",
        "copy gangstart-probe to the nodes, beside the plugin (or name it by probe=)",
    ),
    Check(
        "option",
        "srun --help shows --gang-start",
        "",
        "see the lines plugstack, plugin and line of this table; srun -vvv --help 2>&1 "
        "| grep -i spank says what Slurm thinks of the file",
    ),
    Check(
        "restarted",
        "slurmd was started after the plugin and its line were changed",
        "",
        "restart slurmd on these nodes (running jobs live on): until then its prolog "
        "and epilog hooks, which move reports to archive=, are the old ones",
        "slurmd reads plugstack.conf when it starts",
    ),
    Check(
        "prolog_flags",
        "PrologFlags let the hooks of the plugin run in time",
        "",
        "without RunInJob the hooks run; PrologFlags=Alloc runs the prolog of all of a "
        "job's nodes before its first step",
        "slurm.conf(5), PrologFlags",
    ),
    Check(
        "proctrack",
        "ProctrackType finds every process of a job",
        "proctrack/cgroup",
        "ProctrackType=proctrack/cgroup: linuxproc cannot signal a task that is called "
        "slurmstepd, and loses processes that daemonize",
        "slurm.conf(5), ProctrackType",
    ),
    Check(
        "ports",
        "nodes reach an srun on this machine",
        "",
        "let the firewalls pass SrunPortRange (or ports=) from the compute nodes to "
        "this machine; without it a start goes by way of the step's first node",
        "slurm.conf(5), SrunPortRange",
    ),
    Check(
        "iface",
        "every node has an address for MASTER_ADDR",
        "",
        "set master-iface= in plugstack.conf to an interface or network that all nodes "
        "have",
    ),
    Check(
        "mtu",
        "the chosen interfaces have one MTU",
        "equal",
        "ip link set dev NAME mtu N: with unequal ones large messages stall while "
        "small ones pass",
        "RFC 4821",
    ),
    Check(
        "clock",
        "the clocks agree",
        "0.5 s",
        "start chronyd or systemd-timesyncd; munge refuses credentials that are 300 s "
        "off, and times in reports are of each node's own clock",
        "munged(8), adjtimex(2)",
    ),
    Check(
        "gpu",
        "the GPU driver answers where Slurm has GPUs",
        "",
        "gangstart check on the node says more; nvidia-smi there",
        "NVML",
    ),
    Check(
        "spool",
        "the spool can be written",
        "16 MiB free",
        "mount a writable /run, or name another folder by spool=",
    ),
    Check(
        "archive",
        "the archive is reachable",
        "",
        "mount it, create it with mode 755 and owner root, or set archive=none",
    ),
    Check(
        "nofile",
        "srun may open enough files for the largest start",
        "2 per node and 64",
        "raise the hard limit of open files (limits.conf, LimitNOFILE) for users here",
        "srun and the plugin keep connections to every node",
    ),
    Check(
        "memlock",
        "slurmd may lock memory where there is RDMA",
        "unlimited",
        "LimitMEMLOCK=infinity in slurmd's unit, then restart it; "
        "PropagateResourceLimitsExcept=MEMLOCK keeps users' shells out of it",
        "slurm.conf(5), PropagateResourceLimits",
    ),
)


def find(name: str) -> Check:
    """Return the row with this id."""
    return next(row for row in CHECKS if row.id == name)
