"""What Slurm and plugstack.conf say about this cluster, seen from this machine."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gangstart import core, plugstack, stackfile
from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gangstart.doctor.tools import Tools
    from gangstart.plugstack import Row

ASK_S = 10.0
SETTING = re.compile(r"([A-Za-z_]+)\s+= (.*)")
VERSION = re.compile(r"\b(\d\d)\.(\d\d)\.(\d+)")
RANGE = re.compile(r"(\d{1,5})-(\d{1,5})")
GPUS = re.compile(r"gpu:(?:[^:,()]+:)?(\d{1,4})\b")
MUNGE_SOCKET = "/run/munge/munge.socket.2"
SPOOL = "/run/gangstart"
COLUMNS = ("NodeList:200", "Partition:200", "StateCompact:40", "Version:40", "Gres:400")
OPTION = "--gang-start"


@dataclass(frozen=True)
class Node:
    """A node as the controller knows it."""

    name: str
    state: str = "idle"
    version: str = ""
    gres: str = ""
    partition: str = ""

    @property
    def gpus(self) -> int:
        """How many GPUs Slurm gives out there."""
        return sum(int(count) for count in GPUS.findall(self.gres))

    @property
    def line(self) -> str:
        """Release line of its slurmd, "" if not known."""
        return line_of(self.version)


@dataclass(frozen=True)
class Site:
    """All that is known without asking a node."""

    config: Mapping[str, str] = field(default_factory=dict)
    config_problem: str = ""  # why there is none
    version: str = ""  # of the commands here: "22.05.8"
    option: bool | None = None  # whether srun --help shows it
    option_problem: str = ""
    stack: Path = Path("/etc/slurm/plugstack.conf")
    rows: tuple[Row, ...] = ()
    argument_errors: tuple[str, ...] = ()
    nodes: tuple[Node, ...] = ()

    @property
    def line(self) -> str:
        """Release line of the commands here."""
        return line_of(self.version)

    @property
    def ours(self) -> list[Row]:
        """Lines of the plugin."""
        return plugstack.ours(self.rows)

    @property
    def arguments(self) -> dict[str, str]:
        """What plugstack.conf sets, key by key."""
        return plugstack.pairs(self.ours[0]) if self.ours else {}

    def path(self, key: str, default: str = "") -> str:
        """Return a folder or file that plugstack.conf sets; "" for none."""
        value = self.arguments.get(key, default)
        return "" if value == "none" else value

    @property
    def plugin(self) -> str:
        """The plugin's file on every node, "" if that cannot be told."""
        name = self.ours[0].file if self.ours else stackfile.PLUGIN
        if name.startswith("/"):
            return name
        folder = self.setting("PluginDir").partition(":")[0]
        return f"{folder}/{name}" if folder else ""

    @property
    def probe(self) -> str:
        """The probe's file on every node."""
        told = self.path("probe")
        if told or not self.plugin:
            return told
        return str(Path(self.plugin).with_name("gangstart-probe"))

    def setting(self, key: str) -> str:
        """Return a value of slurm.conf, "" for one that is not set or not known."""
        value = self.config.get(key.lower(), "")
        return "" if value in ("(null)", "N/A", "none") else value

    @property
    def srun_ports(self) -> tuple[int, int]:
        """Ports that an srun of a gang start opens: ports=, SrunPortRange, any."""
        match = RANGE.fullmatch(self.arguments.get("ports", ""))
        match = match or RANGE.fullmatch(self.setting("SrunPortRange"))
        return (int(match[1]), int(match[2])) if match else (0, 0)

    @property
    def munge_socket(self) -> str:
        """Where munged listens; "" if Slurm does not use munge."""
        if self.setting("AuthType") not in ("", "auth/munge"):
            return ""
        told = dict(
            part.partition("=")[::2] for part in self.setting("AuthInfo").split(",")
        )
        return told.get("socket", MUNGE_SOCKET)

    @property
    def files(self) -> list[str]:
        """Files that slurmd reads when it starts."""
        found = [self.plugin, str(self.stack), *(str(row.path) for row in self.ours)]
        return [path for path in dict.fromkeys(found) if path]


def line_of(version: str) -> str:
    """Release line of a version: "22.05" of "22.05.8"; "" if it is none."""
    match = VERSION.search(version)
    return f"{match[1]}.{match[2]}" if match else ""


def settings(text: str) -> dict[str, str]:
    """Read `scontrol show config`; keys in lower case."""
    found = (SETTING.match(line) for line in text.splitlines())
    return {m[1].lower(): m[2].strip() for m in found if m}


def node_rows(text: str) -> list[Node]:
    """Read sinfo's table of COLUMNS; a node in several partitions comes once."""
    widths = [int(column.partition(":")[2]) for column in COLUMNS]
    ends = [sum(widths[: i + 1]) for i in range(len(widths))]
    found: dict[str, Node] = {}
    for line in text.splitlines():
        cells = [line[e - w : e].strip() for w, e in zip(widths, ends, strict=True)]
        name, partition, state, version, gres = cells
        if name:
            row = Node(name, state, version, gres, partition.rstrip("*"))
            # The default partition is the one that a user's srun would take.
            if name not in found or partition.endswith("*"):
                found[name] = row
    return list(found.values())


def errors_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """What the plugin would refuse of its arguments, one sentence per line."""
    told = ((row, error_of(argument)) for row in rows for argument in row.arguments)
    return tuple(f"{row}: {sentence}" for row, sentence in told if sentence)


def error_of(argument: str) -> str:
    """What the plugin would say of an argument, "" for one that it takes."""
    try:
        core.parse_spec("off", arguments=[argument])
    except GangstartError as error:
        return error.message
    return ""


def read(tools: Tools, env: Mapping[str, str]) -> Site:
    """Ask Slurm's commands, all at once: each may hang; and read plugstack.conf."""
    asked = (
        ["scontrol", "show", "config"],
        ["sinfo", "--noheader", "--Node", "-O", ",".join(COLUMNS)],
        ["srun", "--version"],
        ["srun", "--help"],
    )
    with ThreadPoolExecutor(len(asked)) as pool:
        answers = pool.map(lambda argv: tools.run(argv, ASK_S, env), asked)
    config, nodes, version, shown = answers
    known = settings(config.out) if config.code == 0 else {}
    stack = stack_path(known)
    rows = tuple(plugstack.rows(stack))
    match = VERSION.search(version.out) if version.code == 0 else None
    return Site(
        config=known,
        config_problem=config.problem,
        version=match[0] if match else "",
        option=OPTION in shown.out if shown.code == 0 else None,
        option_problem=shown.problem,
        stack=stack,
        rows=rows,
        argument_errors=errors_of(plugstack.ours(rows)),
        nodes=tuple(node_rows(nodes.out)) if nodes.code == 0 else (),
    )


def stack_path(config: Mapping[str, str]) -> Path:
    """Return the plugstack.conf that Slurm's commands read on this machine."""
    told = config.get("plugstackconfig", "")
    beside = Path(config.get("slurm_conf", "slurm.conf")).with_name(stackfile.NAME)
    paths = [Path(told)] if told.startswith("/") else []
    paths += [beside] if beside.is_absolute() else []
    for path in [*paths, *plugstack.candidates()]:
        if path.exists():
            return path
    return [*paths, *plugstack.candidates()][0]
