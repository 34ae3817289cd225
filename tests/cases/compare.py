"""What is right about an answer: one function per kind, each a list of (claim, holds).

A claim is a sentence for the person who reads a failure. How to add a kind: one
function (given, expected, answer) -> claims, and its row in KINDS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]


RENDEZVOUS = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
)
# Our variable -> the one of Slurm it must repeat.
SAME_IN_SLURM = {
    "RANK": "SLURM_PROCID",
    "LOCAL_RANK": "SLURM_LOCALID",
    "WORLD_SIZE": "SLURM_STEP_NUM_TASKS",
}
QUOTED = 20  # characters of a bad node list that the sentence must repeat


def message_of(answer: Json) -> str:
    """The sentence of an answer, whatever it is called."""
    return str(answer.get("message") or answer.get("error") or answer.get("text") or "")


def codes_of(answer: Json) -> set[str]:
    """Warnings and the code of a failure together."""
    lists = (answer.get(key) or [] for key in ("warnings", "warn", "codes"))
    found = {code for some in lists for code in some}
    return found | ({answer["code"]} if answer.get("code") else set())


def nodelist(given: Json, expected: Json, answer: Json) -> Iterator[tuple[str, bool]]:
    """Names in order, or an error that quotes the list."""
    if not expected.get("error"):
        yield f"hosts are {expected['hosts']}", answer.get("hosts") == expected["hosts"]
        return
    quoted = given["nodelist"][:QUOTED].lower()
    yield "the list is refused", bool(answer.get("error")) and not answer.get("hosts")
    yield f"the sentence quotes {quoted}", quoted in message_of(answer).lower()


def env_injected(given: Json, expected: Json, env: Json) -> Iterator[tuple[str, bool]]:
    """What must hold of the environment of a task that starts."""
    for name in RENDEZVOUS:
        yield f"{name} is there", bool(env.get(name)) and isinstance(env[name], str)
    digits = str(env.get("MASTER_PORT"))
    in_range = digits.isdigit() and 1024 <= int(digits) <= 65535
    yield f"MASTER_PORT={digits} is 1024 to 65535", in_range
    for name, value in expected.get("env_if_inject", {}).items():
        yield f"{name} is {value}", env.get(name) == value
    for name, values in expected.get("env_if_inject_any", {}).items():
        yield f"{name} is one of {values}", env.get(name) in values
    for name, values in expected.get("must_not_equal", {}).items():
        yield f"{name} is none of {values}", env.get(name) not in values
    if expected.get("consistent_with_slurm"):
        for ours, slurms in SAME_IN_SLURM.items():
            yield f"{ours} is {slurms}", env.get(ours) == given["slurm"][slurms]


def env(given: Json, expected: Json, answer: Json) -> Iterator[tuple[str, bool]]:
    """Outcome, variables, warnings."""
    allowed = expected.get("outcome_any") or [expected["outcome"]]
    after = answer.get("env") or {}
    yield f"the outcome is {' or '.join(allowed)}", answer.get("outcome") in allowed
    for name, value in expected.get("env", {}).items():
        yield f"{name} is {value}", after.get(name) == value
    if answer.get("outcome") == "inject":
        yield from env_injected(given, expected, after)
    for name in expected.get("absent", []):
        yield f"{name} is absent", name not in after
    for name in expected.get("must_not_change", []):
        before = given["slurm"].get(name)
        yield f"{name} stays {before}", after.get(name, before) == before
    for code in expected.get("warn", []):
        yield f"it warns of {code}", code in codes_of(answer)


def port_chosen(each: Json, special: Json, port: object) -> Iterator[tuple[str, bool]]:
    """One port against the rules for all and for this request."""
    yield "the port is a number", isinstance(port, int)
    if not isinstance(port, int):
        return
    if "equals" in each:
        yield f"the port is {each['equals']}", port == each["equals"]
        return
    yield f"{port} is in range", each["min"] <= port <= each["max"]
    for lo, hi in each.get("not_in_ranges", []):
        yield f"{port} is outside {lo}-{hi}", not lo <= port <= hi
    yield f"{port} is free", port not in special.get("not_in", [])


def port(given: Json, expected: Json, answer: Json) -> Iterator[tuple[str, bool]]:
    """One result per request, in order."""
    results = answer.get("results") or []
    special = expected.get("per_request", {})
    yield "there is one result per request", len(results) == len(given["requests"])
    for i, result in enumerate(results):
        rules = special.get(str(i), {})
        if rules.get("outcome") == "fail":
            said = str(result.get("message")).lower()
            yield f"request {i} is refused", result.get("outcome") == "fail"
            for part in rules.get("message_contains", []):
                yield f"request {i} mentions {part}", str(part).lower() in said
        else:
            yield from port_chosen(expected["each"], rules, result.get("port"))
    if expected.get("pairwise_distinct"):
        ports = [result.get("port") for result in results]
        yield "all ports differ", len(set(ports)) == len(ports)


BARRIER_LISTS = (
    "missing_ranks",
    "missing_nodes",
    "partial_nodes",
    "mismatch_ranks",
    "released_ranks",
    "suspect_nodes",
)


def barrier(_given: Json, expected: Json, answer: Json) -> Iterator[tuple[str, bool]]:
    """Who was released or missed, when, and who was slowest."""
    yield (
        f"it ends in {expected['outcome']}",
        answer.get("outcome") == (expected["outcome"]),
    )
    for key in BARRIER_LISTS:
        if key in expected:
            same = sorted(answer.get(key) or []) == sorted(expected[key])
            yield f"{key} is {expected[key]}", same
    for key in ("arrived", "rejected_stale"):
        if key in expected:
            yield f"{key} is {expected[key]}", answer.get(key) == expected[key]
    if "by_s" in expected:
        at = answer.get("decided_at_s")
        yield (
            f"decided by {expected['by_s']} s",
            (at is not None and at <= expected["by_s"]),
        )
    innocent = set(expected.get("not_suspect", []))
    yield (
        "no innocent is suspected",
        not innocent & set(answer.get("suspect_nodes") or []),
    )
    wanted, found = expected.get("report"), answer.get("report") or {}
    if wanted:
        for key in ("slowest_rank", "slowest_node"):
            yield f"{key} is {wanted[key]}", found.get(key) == wanted[key]
        enough = (found.get("skew_s") or 0) >= wanted["skew_s_min"]
        yield f"the skew is at least {wanted['skew_s_min']} s", enough


def cvd(_given: Json, expected: Json, answer: Json) -> Iterator[tuple[str, bool]]:
    """Devices in CUDA's order for each value."""
    yield (
        f"visible is {expected['visible']}",
        (answer.get("visible") == expected["visible"]),
    )


def health_gpus(expected: Json, gpus: dict[int, Json]) -> Iterator[tuple[str, bool]]:
    """The records of single GPUs."""
    if "bad_gpus" in expected:
        bad = sorted(i for i, g in gpus.items() if g.get("ok") is False)
        yield (
            f"bad GPUs are {expected['bad_gpus']}",
            bad == sorted(expected["bad_gpus"]),
        )
    for i in expected.get("bad_or_warn_gpus", []):
        told = gpus.get(i, {})
        noted = told.get("ok") is False or bool(told.get("warn"))
        yield f"GPU {i} is not plainly ok", noted
    if "gpus_recorded" in expected:
        recorded = sum(1 for g in gpus.values() if g.get("uuid"))
        yield "the other GPUs are recorded", recorded >= expected["gpus_recorded"]
    for i, names in expected.get("null_fields", {}).items():
        for name in names:
            yield (
                f"{name} of GPU {i} is null",
                gpus.get(int(i), {}).get(name, 0) is None,
            )
    for i, reasons in expected.get("throttle_reasons", {}).items():
        said = gpus.get(int(i), {}).get("throttle_reasons")
        yield f"clock reasons of GPU {i} are {reasons}", said == reasons
    if expected.get("name_is_str"):
        yield (
            "every name is text",
            all(isinstance(g["name"], str) for g in gpus.values()),
        )


def health(_given: Json, expected: Json, answer: Json) -> Iterator[tuple[str, bool]]:
    """The node's verdict, the codes, what is recorded of which GPU."""
    yield "there is a verdict", isinstance(answer.get("node_ok"), bool)
    for name in ("node_ok", "drain", "kill_running"):
        if name in expected:
            yield f"{name} is {expected[name]}", answer.get(name) is expected[name]
    for code in expected.get("codes", []) + expected.get("warn", []):
        yield f"it says {code}", code in codes_of(answer)
    for code in expected.get("not_codes", []):
        yield f"it does not say {code}", code not in codes_of(answer)
    yield from health_gpus(expected, {g["index"]: g for g in answer.get("gpus") or []})
    mine = answer.get("job_gpus") or []
    if "job_gpus" in expected:
        yield "the job's GPUs are counted right", len(mine) == len(expected["job_gpus"])
    for told, wanted in zip(mine, expected.get("job_gpus", []), strict=False):
        for name, value in wanted.items():
            yield f"{name} of a GPU of the job is {value}", told.get(name) == value


def procs(_given: Json, expected: Json, answer: Json) -> Iterator[tuple[str, bool]]:
    """Who is left over, and nobody else."""
    listed = answer.get("orphans")
    found = set(listed or [])
    same = isinstance(listed, list) and found == set(expected["orphans"])
    yield f"orphans are {expected['orphans']}", same
    yield "no innocent is listed", not found & set(expected["not"])
    for code in expected.get("codes", []):
        yield f"it says {code}", code in codes_of(answer)
    for name in ("ports", "shm"):
        if name in expected:
            told = sorted(answer.get(name) or [])
            yield f"{name} are {expected[name]}", told == sorted(expected[name])
    spared = set(expected.get("shm_not", []))
    yield "no shared memory in use is listed", not spared & set(answer.get("shm") or [])


def mpi(given: Json, expected: Json, answer: Json) -> Iterator[tuple[str, bool]]:
    """Whether it starts, why not, and that no two processes have one rank."""
    outcome, envs = expected["outcome"], answer.get("env") or []
    yield f"the outcome is {outcome}", answer.get("outcome") == outcome
    wanted = [expected["code"]] if "code" in expected else []
    for code in (*wanted, *expected.get("warn", [])):
        yield f"{code} is said", code in codes_of(answer)
    for name, value in (expected.get("env") or {}).items():
        yield f"{name} is {value}", bool(envs) and envs[0].get(name) == value
    if expected.get("unique_ranks"):
        ranks = {env.get("RANK") for env in envs}
        yield "every process has its own rank", len(ranks) == len(given["procs"])


def triage(_given: Json, expected: Json, answer: Json) -> Iterator[tuple[str, bool]]:
    """The cause, whom it names, what the text says, and that no innocent is blamed."""
    code = answer.get("root_cause")
    wanted = expected["root_cause"]
    yield f"the cause is {wanted}, not {code}", code == wanted
    yield f"the cause is none of {expected['not']}", code not in expected["not"]
    for name in ("node", "rank", "drain", "training_completed"):
        if name in expected:
            told = answer.get(name)
            right = told == expected[name] and type(told) is type(expected[name])
            yield f"{name} is {expected[name]}, not {told}", right
    said = message_of(answer).lower()
    parts = [*expected.get("must_mention", []), *expected.get("evidence_contains", [])]
    for one in (*([part] for part in parts), *expected.get("mention_any", [])):
        there = any(str(part).lower() in said for part in one)
        yield f"the text has {' or '.join(map(str, one))}", there
    if expected.get("secondary_required"):
        listed = {code, *(answer.get("secondary") or [])}
        yield "the consequences are listed", set(expected["secondary"]) <= listed


KINDS = {
    "triage": triage,
    "mpi": mpi,
    "nodelist": nodelist,
    "env": env,
    "port": port,
    "barrier": barrier,
    "cvd": cvd,
    "health": health,
    "procs": procs,
}


def broken_claims(case: Json, answer: Json) -> list[str]:
    """Claims that do not hold; empty if the answer is right."""
    expected = case["expected"]
    said = message_of(answer).lower()
    broken = [
        f"the message mentions {part}"
        for part in expected.get("message_contains", [])
        if str(part).lower() not in said
    ]
    claims = KINDS[case["kind"]](case["input"], expected, answer)
    return broken + [claim for claim, holds in claims if not holds]
