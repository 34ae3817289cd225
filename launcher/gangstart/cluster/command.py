"""gangstart cluster: the command line of the private Slurm."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, NoReturn

from gangstart.cluster import config, enter, lifecycle, removal, state
from gangstart.cluster.config import HEAD, Spec
from gangstart.cluster.handle import SIGNALS, Cluster
from gangstart.progress import Progress
from gangstart.usage import Parser

if TYPE_CHECKING:
    from collections.abc import Callable

EXIT_TERMINATED = 128 + signal.SIGTERM

DESCRIPTION = """\
A private Slurm of several nodes on this one machine, for trying and testing. Every node
is a set of namespaces with its own address, host name, /tmp, /dev/shm and /run; no
Slurm or munge configured on the machine is read or touched, and `down` leaves nothing.
Works as root, and as an ordinary user where the kernel lets users create namespaces
(only that user exists in the cluster then).
"""
EXAMPLES = """\
try:
  gangstart cluster up -n 4
  gangstart cluster run -- srun -N4 hostname
  gangstart cluster run --user alice -- bash      a shell on the head, as alice
  gangstart cluster run --node n2 -- ip address
failure modes:
  gangstart cluster node stop n3      slurmd hangs: connects, never answers; node cont
  gangstart cluster node kill n3      slurmd dies; start it again with: node start n3
  gangstart cluster link down n3      the cable is pulled, nobody is told; link up n3
"""


def main(argv: list[str]) -> int:
    """Parse the line and do what its verb says."""
    options = parser().parse_args(argv)
    handler: Callable[[argparse.Namespace], int] = options.handler
    return handler(options)


def parser() -> Parser:
    """Build the parser: one subparser per verb."""
    top = Parser(
        prog="gangstart cluster",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = top.add_subparsers(required=True, metavar="VERB", parser_class=Parser)

    def verb(
        name: str, handler: Callable[[argparse.Namespace], int], text: str
    ) -> Parser:
        made = verbs.add_parser(name, help=text, description=f"{text}.")
        made.set_defaults(handler=handler)
        made.add_argument("--name", default="default", help="which cluster [default]")
        return made

    add_up_options(verb("up", up, "bring a cluster up"))
    made = verb("run", run, "run a command inside, in place of this one")
    made.add_argument("--node", default=HEAD, help="where: n1, n2 … [head]")
    made.add_argument("--user", default="", help="as whom (root only)")
    made.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD …")
    made = verb("down", down, "end every process of a cluster and remove it")
    made.add_argument("--all", action="store_true", help="every cluster of this user")
    made = verb("status", status, "show nodes, states, addresses and daemons")
    made.add_argument("--json", action="store_true", help="for programs")
    made = verb("node", node, "stop, continue, kill or start a node's slurmd")
    made.add_argument("action", choices=[*SIGNALS, "start"])
    made.add_argument("node", metavar="NODE")
    made = verb("link", link, "pull a node's network cable, or plug it in")
    made.add_argument("action", choices=["down", "up"])
    made.add_argument("node", metavar="NODE")
    return top


def add_up_options(made: Parser) -> None:
    """Give `up` its options."""
    add = made.add_argument
    add("-n", dest="nodes", type=int, default=4, metavar="NODES", help="how many [4]")
    add("--cpus", type=int, default=8, metavar="N", help="CPUs each node claims [8]")
    add("--dir", default="", metavar="DIR", help="where its files go (a new directory)")
    add("--root", default="", metavar="DIR", help="run the Slurm in this folder")
    add(
        "--bind",
        action="append",
        default=[],
        metavar="PATH",
        help="with --root: a path of this machine that the nodes see too (may be "
        "repeated; homes, Python and this package are)",
    )
    plugin = made.add_mutually_exclusive_group()
    plugin.add_argument("--plugin", metavar="PATH", help="the plugin [the one built]")
    plugin.add_argument("--no-plugin", action="store_true", help="a bare Slurm")
    add(
        "--plugin-arg",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an argument of the plugin in plugstack.conf (may be repeated)",
    )
    add(
        "--plugin-mode",
        choices=config.PLUGIN_MODES,
        default=config.PLUGIN_MODES[0],
        help="first word of the plugstack.conf line [optional]",
    )
    add(
        "--slurm-conf-line",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a line of slurm.conf, replacing the same key (may be repeated)",
    )
    add(
        "--slurmd-arg",
        action="append",
        default=[],
        metavar="WORD",
        help="a word of slurmd's command line, such as --slurmd-arg=-vv",
    )
    add(
        "--etc-file",
        action="append",
        default=[],
        metavar="PATH",
        help="a file to put beside slurm.conf, such as gres.conf (may be repeated)",
    )


def up(options: argparse.Namespace) -> int:
    """Bring a cluster up and say how to use it."""
    plugin = options.plugin
    if plugin is None and not options.no_plugin:
        plugin = lifecycle.built_plugin(options.root)
    spec = Spec(
        name=options.name,
        directory=os.path.abspath(options.dir) if options.dir else "",  # noqa: PTH100  keeps symlinks, to be named as typed
        nodes=options.nodes,
        cpus=options.cpus,
        root=options.root,
        binds=tuple(options.bind),
        plugin=plugin,
        plugin_mode=options.plugin_mode,
        plugin_args=tuple(options.plugin_arg),
        slurm_lines=tuple(options.slurm_conf_line),
        slurmd_args=tuple(options.slurmd_arg),
        etc_files=tuple(options.etc_file),
    )
    signal.signal(signal.SIGTERM, terminated)
    problem = config.neighbour_problem(spec.nodes, None)
    if problem is not None and lifecycle.neighbour_limit() is None:
        sys.stderr.write(f"gangstart: cluster {spec.name}: {problem}\n")
    start = time.monotonic()
    with Progress(sys.stderr, f"cluster {spec.name}") as progress:
        cluster = Cluster.up(spec, progress.show)
    bare = "" if cluster.spec.plugin else " without the plugin"
    name = "" if spec.name == "default" else f"--name {spec.name} "
    sys.stdout.write(
        f"cluster {spec.name}: {spec.nodes} nodes {spec.node_range} up{bare} in "
        f"{time.monotonic() - start:.1f} s · try: gangstart cluster run {name}-- "
        f"srun -N{spec.nodes} hostname\n"
    )
    return 0


def terminated(_number: int, _frame: object) -> NoReturn:
    """Let SIGTERM unwind as Ctrl-C does, so that half a cluster is removed."""
    raise SystemExit(EXIT_TERMINATED)


def run(options: argparse.Namespace) -> NoReturn:
    """Become the command."""
    command = options.command
    if command and command[0] == "--":
        command = command[1:]
    if not command:
        raise config.refuse(
            "run needs a command: gangstart cluster run -- srun -N4 hostname"
        )
    enter.execute(lifecycle.existing(options.name), options.node, options.user, command)


def down(options: argparse.Namespace) -> int:
    """Take one cluster down, or all."""
    wanted = state.names(state.base()) if options.all else [options.name]
    for name in wanted:
        found = removal.down(name)
        sys.stdout.write(f"cluster {name}: {'down' if found else 'there was none'}\n")
    if not wanted:
        sys.stdout.write("there was no cluster\n")
    return 0


def status(options: argparse.Namespace) -> int:
    """Show a cluster."""
    facts = Cluster(options.name).status()
    if options.json:
        sys.stdout.write(json.dumps(facts, indent=1) + "\n")
        return 0
    head = facts["head"]
    daemons = " · ".join(
        f"{name} {head[name + '_pid'] or 'not running'}"
        for name in ("slurmctld", "munged", "keeper")
    )
    rows = [("NODE", "STATE", "ADDRESS", "SLURMD")]
    rows += [
        (n["name"], n["state"], n["address"], str(n["slurmd_pid"] or "not running"))
        for n in facts["nodes"]
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    table = [
        "  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True))
        for row in rows
    ]
    sys.stdout.write(
        f"cluster {facts['name']}: {facts['phase']} · {facts['directory']}\n"
        f"{HEAD} {head['address']} · {daemons}\n"
        + "".join(f"{row.rstrip()}\n" for row in table)
    )
    return 0


def node(options: argparse.Namespace) -> int:
    """Do something to a node's slurmd."""
    cluster = Cluster(options.name)
    if options.action == "start":
        cluster.start_slurmd(options.node)
    else:
        cluster.signal_slurmd(options.node, options.action)
    return 0


def link(options: argparse.Namespace) -> int:
    """Do something to a node's cable."""
    Cluster(options.name).set_cable(options.node, up=options.action == "up")
    return 0
