"""What a cluster is made of, and the files it is configured by. Pure: no I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from gangstart.errors import GangstartError
from gangstart.plugin import recipe
from gangstart.plugin.recipe import Line

HEAD = "head"
HEAD_ADDRESS = "10.98.0.1"
PREFIX_LENGTH = 16
NODES_PER_SUBNET = 250
#: A Linux bridge has 1024 ports; the last ones stay free.
NODES_MAX = 1000
CPUS_MAX = 4096
SLURMCTLD_PORT = 6817
SLURMD_PORT = 6818
EXIT_USAGE = 2

#: Each node has its own of these, so nothing shared may lie below them.
PRIVATE_DIRECTORIES = ("/tmp", "/var/run", "/run", "/dev", "/proc", "/sys")  # noqa: S108  names, no file is created

#: The same paths on every node, whatever the cluster's directory is called: a Unix
#: socket's path must be short, and an ordinary user must be able to reach it.
SPOOL = "/run/gangstart"
MUNGE_SOCKET = "/run/munge/munge.socket.2"
SLURMD_SPOOL = "/run/slurmd"

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
DIRECTORY = re.compile(r"/[A-Za-z0-9_./+@-]*")
ARGUMENT = re.compile(r"[A-Za-z][A-Za-z0-9_-]*=[!-\"$-~]*")
SLURM_LINE = re.compile(r"([A-Za-z][A-Za-z0-9]*)\s*=[ -\"$-~]*")
CGROUP_CAN_BE_DISABLED = Line(24, 5)
PARTITION = "all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES"
PLUGIN_MODES = ("optional", "required")

#: How many neighbour-table entries a cluster of this size may need, and from which
#: size on that is more than Linux's default of 1024, shared by all namespaces.
NEIGHBOURS_PER_NODE = 16
NEIGHBOURS_MATTER_FROM = 200


@dataclass(frozen=True)
class Spec:
    """One cluster as asked for: everything its files are rendered from."""

    name: str = "default"
    #: Where it lives; "" is the default place (see state.default_base).
    directory: str = ""
    nodes: int = 4
    cpus: int = 8
    memory_mb: int = 1000
    #: The plugin to load (a copy of it is), or None for a Slurm without it.
    plugin: str | None = None
    plugin_mode: str = "optional"
    plugin_args: tuple[str, ...] = ()
    slurm_lines: tuple[str, ...] = ()
    slurmd_args: tuple[str, ...] = ()
    #: Slurm's release line, such as (22, 5).
    release: Line = CGROUP_CAN_BE_DISABLED
    #: Who the daemons run as: "root", or an ordinary user's numeric id.
    owner: str = "root"
    #: The folder whose programs the nodes run; "" is this machine's own.
    root: str = ""
    #: Paths of this machine that nodes with another root see too.
    binds: tuple[str, ...] = ()
    #: Where the programs were looked for when the cluster came up.
    search_path: str = ""

    @property
    def node_names(self) -> tuple[str, ...]:
        """The compute nodes, in order."""
        return tuple(f"n{i}" for i in range(1, self.nodes + 1))

    @property
    def node_range(self) -> str:
        """The compute nodes as Slurm writes them."""
        return node_range(self.nodes)

    def path(self, *parts: str) -> str:
        """Return a path inside the cluster's directory."""
        return str(PurePosixPath(self.directory, *parts))


def node_range(nodes: int) -> str:
    """Write n1..nN as Slurm does."""
    return "n1" if nodes == 1 else f"n[1-{nodes}]"


def address(index: int) -> str:
    """IPv4 address of the node with this number, counted from 1."""
    subnet, host = divmod(index - 1, NODES_PER_SUBNET)
    return f"10.98.{subnet + 1}.{host + 1}"


def refuse(sentence: str) -> GangstartError:
    """Return the error for a bad option: exit code 2."""
    return GangstartError(f"cluster: {sentence}", exit_code=EXIT_USAGE)


def check_name(name: str) -> str:
    """Return a usable cluster name or say what one looks like."""
    if NAME.fullmatch(name):
        return name
    raise refuse(
        f"--name {name[:70]!r} is not usable: 1 to 32 letters, digits, '-' or '_', "
        "starting with a letter or digit"
    )


def check_range(option: str, value: int, largest: int) -> int:
    """Return `value` if it lies in 1..largest."""
    if 1 <= value <= largest:
        return value
    raise refuse(f"{option} {value} is out of range: 1 to {largest}")


def check_directory(directory: str, option: str = "--dir") -> str:
    """Return an absolute directory that every node can share."""
    path = PurePosixPath(directory)
    if ".." in path.parts or not DIRECTORY.fullmatch(directory):
        raise refuse(
            f"{option} {directory!r} is not usable: an absolute path of letters, "
            "digits and '_./+@-' (Slurm's files cannot quote others), without '..'"
        )
    for private in PRIVATE_DIRECTORIES:
        if path.is_relative_to(private):
            raise refuse(
                f"{option} {directory} lies below {private}, and each node has its own "
                f"{private}: choose a directory elsewhere, such as /var/tmp/gangstart"
            )
    return str(path)


def check_plugin_arg(argument: str) -> str:
    """Return one key=value of plugstack.conf."""
    if ARGUMENT.fullmatch(argument):
        return argument
    raise refuse(
        f"--plugin-arg {argument!r} is not KEY=VALUE without spaces and '#', "
        "such as auto=gpu"
    )


def check_slurm_line(line: str) -> str:
    """Return one KEY=VALUE line of slurm.conf."""
    if SLURM_LINE.fullmatch(line):
        return line
    raise refuse(
        f"--slurm-conf-line {line!r} is not KEY=VALUE in one line without '#', "
        "such as KillWait=5"
    )


def neighbour_problem(nodes: int, limit: int | None) -> str | None:
    """Say why so many nodes would lose each other, or None if they would not."""
    need = nodes * NEIGHBOURS_PER_NODE
    if nodes < NEIGHBOURS_MATTER_FROM or (limit or 0) >= need:
        return None
    sysctls = " ".join(
        f"net.ipv4.neigh.default.gc_thresh{i}={value}"
        for i, value in ((1, need), (2, need * 2), (3, need * 4))
    )
    found = "may hold less" if limit is None else f"holds {limit}"
    return (
        f"{nodes} nodes need a neighbour (ARP) table of {need} entries and this "
        f"machine's {found}: run `sysctl -w {sysctls}` in its initial network namespace"
    )


def render_hosts(spec: Spec) -> str:
    """/etc/hosts of every node."""
    rows = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
    rows.append(f"{HEAD_ADDRESS} {HEAD}")
    rows += [f"{address(i)} {name}" for i, name in enumerate(spec.node_names, 1)]
    return lines(rows)


def settings(spec: Spec) -> list[tuple[str, str]]:
    """slurm.conf as key and value, before the user's own lines."""
    hardware = f"CPUs={spec.cpus} RealMemory={spec.memory_mb}"
    return [
        ("ClusterName", spec.name),
        ("SlurmctldHost", f"{HEAD}({HEAD_ADDRESS})"),
        ("SlurmctldPort", str(SLURMCTLD_PORT)),
        ("SlurmdPort", str(SLURMD_PORT)),
        ("SlurmUser", spec.owner),
        ("SlurmdUser", spec.owner),
        ("AuthType", "auth/munge"),
        ("AuthInfo", f"socket={MUNGE_SOCKET}"),
        ("StateSaveLocation", spec.path("state")),
        ("SlurmdSpoolDir", SLURMD_SPOOL),
        ("SlurmctldPidFile", "/run/slurmctld.pid"),
        ("SlurmdPidFile", "/run/slurmd.pid"),
        ("SlurmctldLogFile", spec.path("log", "slurmctld.log")),
        ("SlurmdLogFile", spec.path("log", "slurmd.%n.log")),
        ("SlurmctldDebug", "info"),
        ("SlurmdDebug", "verbose"),
        # One machine plays many: nothing here may look at, or limit, its hardware.
        ("ProctrackType", "proctrack/linuxproc"),
        ("TaskPlugin", "task/none"),
        ("SlurmdParameters", "config_overrides"),
        ("SelectType", "select/cons_tres"),
        ("SelectTypeParameters", "CR_Core"),
        ("ReturnToService", "2"),
        ("MpiDefault", "none"),
        ("PlugStackConfig", spec.path("etc", "plugstack.conf")),
        ("NodeName", f"{spec.node_range} {hardware} State=UNKNOWN"),
        ("PartitionName", PARTITION),
    ]


def render_slurm(spec: Spec) -> str:
    """slurm.conf: the settings, each replaced by a user's line of the same key."""
    own = {line.partition("=")[0].strip().lower() for line in spec.slurm_lines}
    kept = [f"{k}={v}" for k, v in settings(spec) if k.lower() not in own]
    return lines(kept + list(spec.slurm_lines))


def render_cgroup(spec: Spec) -> str:
    """cgroup.conf: no cgroup, so that nothing of the machine's is needed or touched.

    Before 24.05 slurmd insists on a plugin; that of v1 does nothing until it is used.
    """
    plugin = "disabled" if spec.release >= CGROUP_CAN_BE_DISABLED else "cgroup/v1"
    return lines([f"CgroupPlugin={plugin}"])


def parse_release(text: str) -> Line:
    """Read the release out of `slurmd -V`; one that says nothing counts as new."""
    words = text.split()
    return (recipe.parse(words[-1]) if words else None) or CGROUP_CAN_BE_DISABLED


def render_plugstack(spec: Spec) -> str:
    """plugstack.conf: the plugin with its archive, or nothing."""
    if spec.plugin is None:
        return ""
    given = {argument.partition("=")[0] for argument in spec.plugin_args}
    archive = () if "archive" in given else (f"archive={spec.path('archive')}",)
    words = (spec.plugin_mode, spec.plugin, *archive, *spec.plugin_args)
    return lines([" ".join(words)])


def lines(rows: list[str]) -> str:
    """Text of a file with these lines."""
    return "".join(f"{row}\n" for row in rows)


#: File in the cluster's etc directory -> what it holds.
FILES = {
    "hosts": render_hosts,
    "slurm.conf": render_slurm,
    "cgroup.conf": render_cgroup,
    "plugstack.conf": render_plugstack,
}
