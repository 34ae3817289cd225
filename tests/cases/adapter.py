"""One case (JSON on stdin) -> what the product says (one JSON object on stdout).

Only maps names: every answer is made by the product's own functions. How to add a
kind: one function input -> answer, and its row in KINDS.
"""

from __future__ import annotations

import json
import sys
import zlib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script

from cases.nodecase import health, procs
from cases.triagecase import triage
from gangstart import core
from gangstart.errors import GangstartError
from gangstart.gang import Gang
from gangstart.port import choose_port
from gangstart.run.judge import Proc, judge
from gangstart.run.plan import Layout, Meeting, plan

Json = dict[str, Any]

# SPANK items by Slurm's names -> fields of SpankItems.
ITEMS = {
    "S_TASK_GLOBAL_ID": "rank",
    "S_TASK_ID": "local_rank",
    "S_JOB_TOTAL_TASK_COUNT": "world",
    "S_JOB_LOCAL_TASK_COUNT": "local_world",
    "S_JOB_NODEID": "node_rank",
    "S_JOB_NNODES": "nodes",
}


def nodelist(given: Json) -> Json:
    """Expand a node list, or give the sentence that refuses it."""
    try:
        return {"hosts": core.expand(given["nodelist"])}
    except GangstartError as err:
        return {"error": err.message}


def spank_items(raw: Json) -> core.SpankItems:
    """Raw items; what is no number was not delivered."""
    known = {}
    for name, field in ITEMS.items():
        value = raw.get(name)
        if isinstance(value, int) and 0 <= value < 1 << 63:
            known[field] = value
    return core.SpankItems(**known)


def rank_nodes(layout: Json | list[str]) -> list[str]:
    """Node of each rank, from a list or from {"rank": "node"} without gaps."""
    if isinstance(layout, list):
        return layout
    named = {int(rank): node for rank, node in layout.items()}
    return [named[i] for i in range(len(named)) if i in named]


def resolved(tables: Json, wanted: str | None) -> list[tuple[str, str, list[str]]]:
    """What each node answers for each name that any node was asked for."""
    names = {name for table in tables.values() for name in table}
    names |= {wanted} if wanted else set()
    rows = []
    for node, table in tables.items():
        for name in sorted(names):
            answer = table.get(name) or []
            rows.append((node, name, [answer] if isinstance(answer, str) else answer))
    return rows


def env_facts(facts: Json, user: Json) -> core.EnvFacts:
    """Facts of an env case under the product's names."""
    layout = facts.get("rank_to_node") or {}
    known = rank_nodes(layout)
    return core.EnvFacts(
        gang_on=facts.get("gang_option", True),
        step_id=int(str(facts.get("spank_stepid", core.EnvFacts.step_id)), 0),
        items=spank_items(facts.get("spank_items") or {}),
        rank0_node=None if isinstance(layout, list) else layout.get("0"),
        rank_node=known if len(known) == len(layout) else (),
        resolved=resolved(facts.get("resolve") or {}, user.get("MASTER_ADDR")),
        resolvable=facts.get("resolve_ok"),
        visible=facts.get("visible_uuids"),
        local_gpus={
            int(task): uuids
            for task, uuids in (facts.get("all_local_tasks_visible") or {}).items()
        },
    )


def outer_marks(env: dict[str, str], inherited: list[str]) -> dict[str, str]:
    """What an outer gang step leaves besides the variables themselves."""
    if not inherited:
        return {}
    chosen = [
        env.get(name, "-") if name in inherited else "-"
        for name in ("MASTER_ADDR", "MASTER_PORT")
    ]
    return {"GANGSTART_STEP": "1.0", "GANGSTART_MASTER": " ".join(chosen)}


def env(given: Json) -> Json:
    """Plan one task's environment."""
    facts = given.get("facts") or {}
    user = given.get("user") or {}
    before = {name: str(value) for name, value in {**given["slurm"], **user}.items()}
    inherited = facts.get("inherited_from_gang") or []
    if isinstance(inherited, dict):
        before = {**before, **inherited}
    before |= outer_marks(before, list(inherited))
    plan = core.env_plan(before, env_facts(facts, user))
    return {
        "outcome": plan.outcome,
        "env": plan.apply(before),
        "warnings": list(plan.warnings),
        "code": plan.reason or None,
        "exit_code": plan.exit_code,
        "message": plan.message,
    }


def port(given: Json) -> Json:
    """Choose a port for each request; those chosen stay taken."""
    facts = given.get("facts") or {}
    taken = {node: set(f.get("in_use") or []) for node, f in facts.items()}
    results: list[Json] = []
    for request in given["requests"]:
        node = request["node"]
        known = facts.get(node) or {}
        busy = taken.setdefault(node, set())
        ephemeral = known.get("ip_local_port_range")
        rules = core.PortRules(
            ephemeral=tuple(ephemeral) if ephemeral else None,
            allowed=[(lo, hi) for lo, hi in known.get("allowed_ranges") or []],
        )
        try:
            chosen = choose_port(
                (request["job_id"], request["step_id"]),
                node,
                lambda p: p not in busy,  # noqa: B023 - called at once
                wanted=(request.get("user") or {}).get("MASTER_PORT"),
                rules=rules,
            )
        except GangstartError as err:
            results.append({"outcome": "fail", "message": err.message})
            continue
        busy.add(chosen)
        results.append({"outcome": "ok", "port": chosen})
    return {"results": results}


def cvd(given: Json) -> Json:
    """List the GPUs that CUDA shows for each value."""
    gpus, uuids = given["n_gpus"], given.get("uuids") or []
    return {"visible": [core.visible(v, gpus, uuids) for v in given["cases"]]}


def known_claims(given: Json, arrival: Json) -> Json:
    """Claims that the step itself answers, with the true value."""
    tasks, nodes = len(given["expected"]), len({e["node"] for e in given["expected"]})
    true = dict.fromkeys(("world_size", "ntasks", "size"), tasks)
    return (
        true
        | {"num_nodes": nodes, "nnodes": nodes}
        | {key: arrival[key] for key in ("rank", "node")}
    )


def claim(given: Json, arrival: Json) -> tuple[int, bool]:
    """Hash of what an arrival claims (0 = nothing), and whether it is plainly wrong."""
    claims = arrival.get("claims")
    if not claims:
        return 0, False
    if not isinstance(claims, dict):
        claims = {"world_size": claims}
    named = {k.lower().removeprefix("slurm_"): v for k, v in claims.items()}
    true = known_claims(given, arrival)
    wrong = any(str(named[k]) != str(true[k]) for k in true.keys() & named.keys())
    rest = {k: v for k, v in named.items() if k not in true}
    return zlib.crc32(json.dumps(rest, sort_keys=True).encode()) if rest else 0, wrong


def feed(gang: Gang, given: Json, arrival: Json, strangers: set[int]) -> None:
    """Let one arrival reach the barrier at its time."""
    now = arrival["t"]
    while (at := gang.next_at) is not None and at < now and gang.outcome == "waiting":
        gang.tick(at)
    if gang.outcome != "waiting":
        return
    job, step = (int(part) for part in arrival["job_step"].split("."))
    if not gang.is_ours(job, step, arrival.get("restart", 0)):
        return
    node, rank = arrival["node"], arrival["rank"]
    hashed, wrong = claim(given, arrival)
    if node in gang.ranks:
        gang.hello(node, now)
    if node not in gang.ranks or not gang.arrive(node, rank, now, hashed):
        strangers.add(rank)
        wrong = True
    if wrong:
        gang.mismatch(rank)
    gang.tick(now)


def barrier(given: Json) -> Json:
    """Play the arrivals against the real barrier."""
    layout: dict[str, list[int]] = {}
    for task in given["expected"]:
        layout.setdefault(task["node"], []).append(task["rank"])
    job, step = (int(part) for part in given["job_step"].split("."))
    restart = given.get("restart_count", 0)
    gang = Gang((job, step, restart), layout, given["timeout_s"])
    strangers: set[int] = set()
    for arrival in sorted(given["arrivals"], key=lambda a: a["t"]):
        feed(gang, given, arrival, strangers)
    while gang.outcome == "waiting" and (at := gang.next_at) is not None:
        gang.tick(at)
    if gang.outcome == "waiting":  # nobody of this step ever came
        gang.end(given["timeout_s"])
    there = gang.arrived()
    mismatch = sorted(set(gang.mismatches()) | strangers)
    missing = [t["rank"] for t in given["expected"] if t["rank"] not in there]
    absent = [n for n, ranks in layout.items() if not there.keys() & set(ranks)]
    partial = [
        n for n, r in layout.items() if n not in absent and set(r) - there.keys()
    ]
    contradicting = [n for n, r in layout.items() if set(r) & set(mismatch)]
    released = gang.outcome == "released"
    slowest = max(there, key=lambda r: there[r]) if there else None
    return {
        "outcome": "release" if released else "fail",
        "released_ranks": sorted(there) if released else [],
        "arrived": len(there),
        "missing_ranks": missing,
        "missing_nodes": absent,
        "partial_nodes": partial,
        "mismatch_ranks": mismatch,
        "suspect_nodes": []
        if released
        else list(dict.fromkeys(absent + partial + contradicting)),
        "rejected_stale": gang.stale,
        "decided_at_s": gang.decided_at,
        "report": {
            "slowest_rank": slowest,
            "slowest_node": next(
                (t["node"] for t in given["expected"] if t["rank"] == slowest), None
            ),
            "skew_s": max(there.values()) - min(there.values()) if there else 0.0,
        },
        "message": gang.message(),
    }


def mpi(given: Json) -> Json:
    """Judge what MPI says of its world beside what the launcher says."""
    procs = [
        Proc(p["procid"], p["slurm_ntasks"], p["mpi_rank"], p["mpi_size"], p["node"])
        for p in given["procs"]
    ]
    launched = any(proc.rank is not None for proc in procs)
    judged = judge(procs, "srun" if launched else None)
    nodes: dict[str, list[int]] = {}
    for proc, rank in zip(procs, judged.ranks, strict=False):
        nodes.setdefault(proc.node, []).append(rank)
    layout = Layout((1, 0), nodes)
    plans = [plan({}, layout, rank, Meeting()) for rank in judged.ranks]
    return {
        "outcome": "fail" if judged.code else "ok",
        "code": judged.code or None,
        "warnings": list(judged.warnings),
        "env": [made.apply({}) for made in plans],
        "message": judged.message,
    }


KINDS = {
    "mpi": mpi,
    "barrier": barrier,
    "nodelist": nodelist,
    "env": env,
    "port": port,
    "cvd": cvd,
    "health": health,
    "procs": procs,
    "triage": triage,
}


def main() -> int:
    """Answer the case on stdin."""
    case = json.load(sys.stdin)
    answer = KINDS.get(case.get("kind"))
    if answer is None:
        known = ", ".join(KINDS)
        print(
            json.dumps({"error": f"unknown kind {case.get('kind')!r}; known: {known}"})
        )
        return 2
    print(json.dumps(answer(case["input"])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
