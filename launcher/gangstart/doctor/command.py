"""``gangstart doctor``: whether gang start is installed right, here and everywhere."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import gangstart
from gangstart import core, job
from gangstart.check.command import EXIT_OF
from gangstart.check.result import worst
from gangstart.doctor import ask, outcome, site
from gangstart.doctor.greeter import Greeter
from gangstart.doctor.scene import Scene
from gangstart.doctor.site import Node
from gangstart.doctor.tools import Commands, Until
from gangstart.errors import GangstartError
from gangstart.progress import Progress
from gangstart.usage import Parser

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from gangstart.doctor.facts import Facts
    from gangstart.doctor.site import Site
    from gangstart.doctor.tools import Tools

EXIT_USAGE = 2
DEADLINE_S = 60.0
DEADLINES = (5.0, 3600.0)
ALL = "all"
#: A step of ours must not start a gang, and no option of the user's shell counts.
QUIET = {"SLURM_GANG_START": "off"}


def parser() -> Parser:
    """Build the command line of this verb."""
    made = Parser(
        prog="gangstart doctor",
        description="Look whether gang start is installed right: on this machine, and "
        "with --nodes on others, by a short srun that needs no Python there.",
        epilog="Exit codes: 0 ok, 1 warn, 2 fail, 3 unknown, as of gangstart check.",
    )
    add = made.add_argument
    add("--nodes", metavar="LIST", help="nodes to ask, such as n[1-8], or all")
    add("--json", action="store_true", help="print everything as one JSON object")
    add(
        "--srun-arg",
        action="append",
        default=[],
        metavar="WORD",
        help="a word of srun's command line, such as --srun-arg=--account=ops "
        "(repeatable)",
    )
    add("--probe", metavar="PATH", help="the gangstart-probe of this machine")
    add(
        "--deadline",
        type=float,
        default=DEADLINE_S,
        metavar="SECONDS",
        help="nodes that have not answered by then are not waited for (default: 60)",
    )
    return made


def main(argv: list[str]) -> int:
    """Look, judge, print."""
    options = parser().parse_args(argv)
    low, high = DEADLINES
    if not low <= options.deadline <= high:
        raise GangstartError(
            f"doctor: --deadline {options.deadline:g} is not {low:g} to {high:g} "
            "seconds",
            exit_code=EXIT_USAGE,
        )
    signal.signal(signal.SIGTERM, stop)
    scene = look(options, Commands(), job.environ())
    found = outcome.findings(scene)
    if options.json:
        told = outcome.outcome(scene, found, time.time())
        sys.stdout.write(json.dumps(told, indent=1) + "\n")
    else:
        from gangstart.doctor import view  # noqa: PLC0415 - rich is slow to import

        view.show(scene, found)
    return EXIT_OF[worst(one.verdict for one in found)]


def stop(number: int, _frame: object) -> None:
    """End in order, as at Ctrl-C: no job of ours stays."""
    sys.exit(128 + number)


def look(options: argparse.Namespace, tools: Tools, env: Mapping[str, str]) -> Scene:
    """Gather everything."""
    until = time.monotonic() + options.deadline
    tools = Until(tools, until)
    name = env.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]
    calm = job.child_env(env, **QUIET)
    with Progress(sys.stderr, "doctor") as progress:
        progress.show("asking Slurm")
        seen = site.read(tools, calm)
        way = ask.Way(
            site=seen,
            env=calm,
            tools=tools,
            in_job="SLURM_JOB_NODELIST" in env,
            srun=tuple(options.srun_arg),
            until=until,
            progress=progress.show,
        )
        here = ask.here(way, local_probe(options.probe, seen), name)
        if options.nodes is None:
            return Scene(site=seen, here=here)
        return ask_nodes(way, here, wanted(options.nodes, seen))


def ask_nodes(way: ask.Way, here: Facts, nodes: list[Node]) -> Scene:
    """Ask the nodes, while this machine answers them."""
    with Greeter(*way.site.srun_ports) as greeter:
        asked = ask.nodes(replace(way, port=greeter.port), nodes)
    return Scene(
        site=way.site,
        here=here,
        nodes=asked.facts,
        nonce=greeter.nonce,
        greeter_problem=greeter.problem,
        srun_problem=asked.srun_problem,
    )


def wanted(text: str, seen: Site) -> list[Node]:
    """Nodes that a list names; the controller has to know them."""
    known = {node.name: node for node in seen.nodes}
    if text == ALL:
        if not known:
            raise GangstartError(
                f"doctor: --nodes all: sinfo named no nodes ({seen.config_problem}); "
                "name them, or leave --nodes out to look at this machine only"
            )
        return list(known.values())
    names = list(dict.fromkeys(core.expand(text)))
    strange = [name for name in names if known and name not in known]
    if strange:
        raise GangstartError(
            f"doctor: --nodes names {core.fold(strange)}, which sinfo does not know",
            exit_code=EXIT_USAGE,
        )
    return [known.get(name, Node(name)) for name in names]


def local_probe(given: str | None, seen: Site) -> str:
    """Return the probe to run here: as told, as installed, or the package's own."""
    own = str(Path(gangstart.__file__).with_name("gangstart-probe"))
    for path in (given, seen.probe, own):
        if path and (path == given or os.access(path, os.X_OK)):
            return path
    return own
