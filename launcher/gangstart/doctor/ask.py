"""Asks nodes for their facts: this one directly, others by srun.

A node needs its two files and /bin/sh, no Python. Free nodes are asked in groups by one
srun each, so that the controller is not flooded; busy ones, and those of a group that
could not be had, one by one.
"""

from __future__ import annotations

import re
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

from gangstart import core
from gangstart.doctor import facts
from gangstart.doctor.facts import Facts
from gangstart.doctor.tools import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gangstart.doctor.site import Node, Site
    from gangstart.doctor.tools import Tools

GROUP = 64
AT_ONCE = 8
HERE_S = 15.0
JOB_NAME = "gangstart-doctor"
#: Kept of the time, for ending an srun that got no answer, and its job.
END_S = 3.0
LEAST_S = 0.5
CANCEL_S = 5.0
#: How long srun may wait for resources: a node that is busy is not waited for.
IMMEDIATE_S = 5
FREE = ("idle", "mix")
BUSY = ("alloc", "comp")
BASE_STATE = re.compile(r"[a-z]+")
#: Endings of a state, as in sinfo(1): srun would wake a node that is powered off.
AWAY = {
    "*": "does not respond",
    "~": "powered off",
    "#": "being powered up",
    "%": "being powered down",
    "^": "rebooting",
}
REFUSED = re.compile(
    r"Unable to allocate resources|job allocation|Unable to create step|queued"
)
#: Runs on the node. $1 probe, $2 port of the greeter or "", the rest goes to the probe.
REMOTE = (
    'echo "node=$SLURMD_NODENAME"; probe=$1; port=$2; shift 2; '
    '[ -e "$probe" ] || { echo problem=missing; '
    '[ -e "$2" ] || echo plugin_state=missing; exit 0; }; '
    'exec "$probe" --facts "$@" --node "$SLURMD_NODENAME" '
    '${port:+--connect "$SLURM_SRUN_COMM_HOST:$port"}'
)


@dataclass(frozen=True)
class Way:
    """How nodes are asked."""

    site: Site
    env: Mapping[str, str]
    tools: Tools
    port: int = 0
    in_job: bool = False  # steps go into the allocation that this runs in
    srun: Sequence[str] = ()  # options of the user
    until: float = 0.0  # time.monotonic()
    progress: Callable[[str], None] = lambda _text: None
    running: set[str] = field(default_factory=set)  # names of jobs

    @property
    def members(self) -> frozenset[str] | None:
        """Nodes of the job that this runs in, None outside of one."""
        if not self.in_job:
            return None
        return frozenset(core.expand(self.env.get("SLURM_JOB_NODELIST", "")))

    @property
    def left_s(self) -> float:
        """Seconds that there still are."""
        return self.until - time.monotonic()


@dataclass
class Asked:
    """What came of it."""

    facts: dict[str, Facts] = field(default_factory=dict)
    srun_problem: str = ""  # why srun could not be used at all


def probe_options(site: Site) -> list[str]:
    """Return what the probe is asked for; the plugin comes first: see REMOTE."""
    options = {
        "plugin": site.plugin,
        "spool": site.path("spool", "/run/gangstart"),
        "archive": site.path("archive"),
        "munge": site.munge_socket,
        "iface": site.arguments.get("master-iface", "").replace("auto", ""),
    }
    pairs = [("--" + key, value) for key, value in options.items() if value]
    pairs += [("--file", path) for path in site.files]
    return [word for pair in pairs for word in pair]


def here(way: Way, probe: str, name: str) -> Facts:
    """Facts of this machine; `probe` is the program to run."""
    argv = [probe, "--facts", *probe_options(way.site), "--node", name]
    answer = way.tools.run(argv, HERE_S, way.env)
    told = facts.parse(name, answer.out)
    if told.told:
        return told
    return replace(told, problem=told.problem or answer.problem)


def nodes(way: Way, wanted: Sequence[Node]) -> Asked:
    """Ask all of them; each has its facts or says why not, when the time is up."""
    done = Asked()
    for node in wanted:
        if reason := unfit(node, way.members):
            done.facts[node.name] = Facts(node.name, problem=reason)
    groups = list(grouped(n for n in wanted if n.name not in done.facts))
    total = len(wanted)

    def one(group: list[Node]) -> None:
        for name, told in ask(way, group).items():
            done.facts[name] = told
        way.progress(f"{len(done.facts)} of {total} nodes asked")

    way.progress(f"asking {total} nodes")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            list(pool.map(one, groups))
        except BaseException:  # Ctrl-C; the threads end when their jobs do
            pool.shutdown(wait=False, cancel_futures=True)
            for name in tuple(way.running):
                cancel(way, name)
            raise
    silent = [told for told in done.facts.values() if not told.told]
    if groups and len(silent) == total:
        done.srun_problem = most_common([told.problem for told in silent])
    return done


def unfit(node: Node, members: frozenset[str] | None) -> str:
    """Return why a node is not asked, "" if it is; `members`: of the job we are in."""
    if members is not None:
        return "" if node.name in members else "not asked: not in this allocation"
    match = BASE_STATE.match(node.state)
    base = match[0] if match else ""
    away = AWAY.get(node.state[-1:], "")
    if base in FREE + BUSY and not away:
        return ""
    meaning = f" ({away})" if away else ""
    return f"not asked: Slurm says it is {node.state or 'unknown'}{meaning}"


def grouped(wanted: Iterable[Node]) -> Iterable[list[Node]]:
    """Split into what one srun asks: a partition's free nodes, each busy one alone."""
    free: list[Node] = []
    for node in wanted:
        if node.state.startswith(BUSY):
            yield [node]
        else:
            free.append(node)
    free.sort(key=lambda node: node.partition)
    for _, same in groupby(free, key=lambda node: node.partition):
        members = list(same)
        for start in range(0, len(members), GROUP):
            yield members[start : start + GROUP]


def ask(way: Way, group: Sequence[Node]) -> dict[str, Facts]:
    """Ask a group by one srun; if it could not be had, its nodes one by one."""
    names = [node.name for node in group]
    answer = run(way, group)
    blocks = facts.by_label(answer.out)
    found = {n: facts.parse(n, blocks[n]) for n in names if n in blocks}
    if not found and len(group) > 1 and REFUSED.search(answer.err) and way.left_s > 1:
        for node in group:
            found |= ask(way, [node])
        return found
    for name in names:
        if name not in found:
            found[name] = Facts(name, problem=f"no answer: {why(answer, name)}")
        elif not found[name].told and not found[name].problem:
            found[name] = replace(found[name], problem=why(answer, name))
    return found


def run(way: Way, group: Sequence[Node]) -> Answer:
    """Ask a group; an srun that was ended leaves no job behind."""
    name = f"{JOB_NAME}-{secrets.token_hex(4)}"
    seconds = way.left_s - END_S
    if seconds < LEAST_S:
        return Answer(None, err="the time was up (--deadline) before it was asked")
    way.running.add(name)
    answer = way.tools.run(srun(way, group, name), seconds, way.env)
    way.running.discard(name)
    if answer.code is None:
        cancel(way, name)
    return answer


def cancel(way: Way, name: str) -> None:
    """Cancel a job of ours, or in an allocation a step: killing srun does not."""
    wanted = [f"--name={name}"]
    if way.in_job:
        job = f"--jobs={way.env.get('SLURM_JOB_ID', '')}"
        table = ["squeue", "--noheader", "--steps", job, "--format=%i %j"]
        rows = way.tools.run(table, CANCEL_S, way.env).out.split("\n")
        pairs = (row.partition(" ") for row in rows)
        wanted = [step for step, _, called in pairs if called.strip() == name]
    if wanted:
        way.tools.run(["scancel", *wanted], CANCEL_S, way.env)


def why(answer: Answer, name: str) -> str:
    """Return what srun said of a node, or at all."""
    named = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    lines = [line.strip() for line in answer.err.splitlines() if named.search(line)]
    said = lines[0] if lines else answer.problem or "its task said nothing"
    return said.removeprefix("srun: ").removeprefix("error: ")


def srun(way: Way, group: Sequence[Node], name: str) -> list[str]:
    """Command line that asks a group; `name` is the job's, or the step's."""
    names = core.fold([node.name for node in group])
    count = str(len(group))
    place = ["--overlap"] if way.in_job else [f"--immediate={IMMEDIATE_S}"]
    if group[0].partition and not way.in_job:
        place.append(f"--partition={group[0].partition}")
    words = [
        "srun",
        f"--nodelist={names}",
        f"--nodes={count}",
        f"--ntasks={count}",
        "--ntasks-per-node=1",
        "--mem=64M",
        "--time=5",
        "--label",
        "--mpi=none",
        "--kill-on-bad-exit=0",
        "--export=NONE",
        "--chdir=/",
        f"--job-name={name}",
        *place,
        *way.srun,
    ]
    remote = ["/bin/sh", "-c", REMOTE, "sh", way.site.probe, str(way.port or "")]
    return [*words, *remote, *probe_options(way.site)]


def most_common(texts: Sequence[str]) -> str:
    """Return the text that occurs most often."""
    return max(texts, key=texts.count, default="")
