"""The C core for Python: the only importer of ``gangstart._core``.

Each function is one call of the core, with Python's types on the outside; what the
core refuses becomes a ``GangstartError`` with the core's own sentence.
"""

from __future__ import annotations

from types import MappingProxyType

from gangstart._core import ffi, lib
from gangstart.errors import GangstartError
from gangstart.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from gangstart._core import CData

EXIT_CONFIG = 78  # bad option, configuration or environment
PORT_MIN = lib.GS_PORT_MIN
PORT_MAX = lib.GS_PORT_MAX


def text(value: CData) -> str:
    """Python text of a C string; bytes that are not UTF-8 survive a round trip."""
    raw = ffi.string(value)
    return raw if isinstance(raw, str) else raw.decode(errors="surrogateescape")


def c_text(value: str) -> bytes:
    """Bytes for a ``const char *`` argument; refuses what C cannot hold."""
    raw = value.encode(errors="surrogateescape")
    if b"\0" in raw:
        raise GangstartError(
            f"{value[:60]!r} contains a NUL character; remove it",
            exit_code=EXIT_CONFIG,
        )
    return raw


class Keeper:
    """Makes C objects for one call and keeps their memory alive until it is over."""

    def __init__(self) -> None:
        """Start empty."""
        self._alive: list[object] = []

    def new(self, ctype: str, init: object = None) -> CData:
        """Like ``ffi.new``; the memory lives as long as the keeper."""
        made = ffi.new(ctype, init)
        self._alive.append(made)
        return made

    def hold(self, thing: object) -> None:
        """Keep something alive that owns memory which C code points to."""
        self._alive.append(thing)

    def string(self, value: str | None) -> CData:
        """``const char *``, NULL for None."""
        return ffi.NULL if value is None else self.new("char[]", c_text(value))

    def strings(self, values: Iterable[str], *, end: bool = False) -> CData:
        """``const char *const *``; with ``end`` the last entry is NULL."""
        made = [self.string(v) for v in values]
        return self.new("const char *[]", [*made, ffi.NULL] if end else made)


def check(rc: int, error: CData) -> None:
    """Raise the core's sentence when it returned a negative errno."""
    if rc < 0:
        raise GangstartError(text(error.text), exit_code=EXIT_CONFIG)


def publish(spool: Path, archive: Path, job: int, node: str) -> None:
    """Bring what a job left in the spool to the archive; see spool.h."""
    error = ffi.new("struct gs_error *")
    paths = (c_text(str(spool)), c_text(str(archive)))
    check(lib.gs_spool_publish(*paths, job, c_text(node), error), error)


def expand(nodelist: str) -> list[str]:
    """Expand a compressed node list into names, in Slurm's order, duplicates kept."""
    names = ffi.new("struct gs_names *")
    error = ffi.new("struct gs_error *")
    check(lib.gs_hostlist_expand(c_text(nodelist), names, error), error)
    try:
        return [text(names.name[i]) for i in range(names.count)]
    finally:
        lib.gs_names_free(names)


def taken(made: CData) -> str:
    """Take over a text that the core made; raises MemoryError if it could not."""
    if made == ffi.NULL:
        raise MemoryError
    try:
        return text(made)
    finally:
        lib.gs_text_free(made)


def fold(names: Sequence[str]) -> str:
    """Fold names into the shortest node list, sorted, each once."""
    keep = Keeper()
    return taken(lib.gs_hostlist_fold(keep.strings(names), len(names)))


def fold_ranks(ranks: Sequence[int]) -> str:
    """Fold ranks into the shortest text: ``0-7,9``."""
    return taken(lib.gs_ranks_fold(list(ranks), len(ranks)))


def task_counts(counts: str) -> list[int]:
    """Tasks of each node, from Slurm's ``2(x3),1``."""
    made = ffi.new("uint32_t **")
    nodes = ffi.new("uint32_t *")
    error = ffi.new("struct gs_error *")
    check(lib.gs_taskmap_counts(c_text(counts), made, nodes, error), error)
    try:
        return [made[0][i] for i in range(nodes[0])]
    finally:
        lib.gs_counts_free(made[0])


class Spec(Record):
    """How a gang start is asked for; ``canonical`` is the user's part as one SPEC."""

    on: bool
    timeout_s: int
    health: str
    env_presets: int
    env_without: int
    master_name: bool
    master_port: int
    master_iface: str
    report: str
    slack_s: float
    canonical: str
    ports: tuple[int, int] = (0, 0)  # of the site, 0 0 = any
    conf: str | None = None  # the site's GPU policy, "" = none, None = the usual one
    probe: str | None = None  # likewise


HEALTH = {
    lib.GS_HEALTH_OFF: "off",
    lib.GS_HEALTH_RECORD: "record",
    lib.GS_HEALTH_REQUIRE: "require",
}


USUAL = b"-"  # no path that a site can write: those are absolute


def parse_spec(*specs: str | None, arguments: Sequence[str] = ()) -> Spec:
    """Built-in defaults, then plugstack.conf arguments, then each SPEC in turn.

    Later ones win key by key: pass the environment's before the flag's. None and ""
    are a bare flag.
    """
    spec = ffi.new("struct gs_spec *")
    error = ffi.new("struct gs_error *")
    out = ffi.new(f"char[{lib.GS_SPEC_TEXT_SIZE}]")
    lib.gs_spec_init(spec)
    spec.conf = spec.probe = USUAL
    for argument in arguments:
        check(lib.gs_spec_arg(spec, c_text(argument), error), error)
    for given in specs:
        check(lib.gs_spec_parse(spec, c_text(given or ""), error), error)
    if lib.gs_spec_format(spec, out, lib.GS_SPEC_TEXT_SIZE) < 0:
        raise GangstartError("the SPEC is too long", exit_code=EXIT_CONFIG)
    return Spec(
        on=spec.on,
        timeout_s=spec.timeout_s,
        health=HEALTH[spec.health],
        env_presets=spec.env_presets,
        env_without=spec.env_without,
        master_name=spec.master_addr == lib.GS_MASTER_NAME,
        master_port=spec.master_port,
        master_iface=text(spec.master_iface),
        report=text(spec.report),
        slack_s=spec.slack_s,
        canonical=text(out),
        ports=(spec.port_lo, spec.port_hi),
        conf=chosen(spec, "conf"),
        probe=chosen(spec, "probe"),
    )


def chosen(spec: CData, field: str) -> str | None:
    """A path of the site's; None if it says nothing of it."""
    said = text(getattr(spec, field))
    return None if said == USUAL.decode() else said


def spec_help() -> str:
    """All keys of a SPEC with what they take and mean."""
    return text(lib.gs_spec_help())


def visible(value: str | None, gpus: int, uuids: Sequence[str]) -> list[int]:
    """Physical indices of the GPUs CUDA shows for a CUDA_VISIBLE_DEVICES value."""
    keep = Keeper()
    index = keep.new("uint32_t[]", lib.GS_VISIBLE_MAX)
    known = keep.strings(uuids) if len(uuids) >= gpus else ffi.NULL
    n = lib.gs_visible_index(keep.string(value), gpus, known, index)
    return list(index[0:n])


class PortRules(Record):
    """Which ports MASTER_PORT may be; None and empty: the defaults."""

    ephemeral: tuple[int, int] | None = None
    allowed: Sequence[tuple[int, int]] = ()
    avoid: Sequence[tuple[int, int]] = ()


def port_candidates(rules: PortRules, job_id: int, step_id: int) -> Iterator[int]:
    """Ports to try for a step, best first, each once; then a ``GangstartError``."""
    c_rules = ffi.new("struct gs_portrules *")
    port = ffi.new("uint16_t *")
    error = ffi.new("struct gs_error *")
    lib.gs_portrules_init(c_rules)
    if rules.ephemeral:
        c_rules.eph_lo, c_rules.eph_hi = rules.ephemeral
    if len(rules.allowed) > lib.GS_PORT_RANGES:
        raise GangstartError(
            f"{len(rules.allowed)} port ranges; up to {lib.GS_PORT_RANGES} are allowed",
            exit_code=EXIT_CONFIG,
        )
    for i, (lo, hi) in enumerate(rules.allowed):
        c_rules.allowed[i].lo, c_rules.allowed[i].hi = lo, hi
    c_rules.allowed_count = len(rules.allowed)
    for lo, hi in rules.avoid:
        c_rules.avoid[c_rules.avoid_count].lo = lo
        c_rules.avoid[c_rules.avoid_count].hi = hi
        c_rules.avoid_count += 1
    attempt = 0
    while True:
        rc = lib.gs_port_candidate(c_rules, job_id, step_id, attempt, port, error)
        check(rc, error)
        yield port[0]
        attempt += 1


def read_port(value: str) -> int:
    """Read a MASTER_PORT that a user set."""
    port = ffi.new("uint16_t *")
    error = ffi.new("struct gs_error *")
    check(lib.gs_port_read(c_text(value), port, error), error)
    return int(port[0])


class SpankItems(Record):
    """SPANK items as Slurm gave them, -1 = not known."""

    rank: int = -1
    local_rank: int = -1
    world: int = -1
    local_world: int = -1
    node_rank: int = -1
    nodes: int = -1


class EnvFacts(Record):
    """What is known about a task besides its environment; see envplan.h."""

    gang_on: bool = True
    step_id: int = lib.GS_STEP_UNKNOWN
    step: str | None = None
    items: SpankItems = SpankItems()
    master_addr: str | None = None
    master_port: int = 0
    rank0_node: str | None = None
    rank_node: Sequence[str] = ()
    resolved: Sequence[tuple[str, str, Sequence[str]]] = ()  # node, name, addresses
    resolvable: Sequence[str] | None = None
    report: str | None = None
    t0: float = 0.0
    presets: int = lib.GS_ENV_TORCH
    without: int = 0
    ports: tuple[int, int] = (0, 0)  # ports= of the site, 0 0 = any
    gpus_required: bool = False
    visible: Sequence[str] | None = None
    local_gpus: Mapping[int, Sequence[str]] = MappingProxyType({})


class EnvPlan(Record):
    """What one task gets: variables to set, to keep and to remove, or a refusal."""

    outcome: str  # inject, noop, fail
    reason: str
    exit_code: int
    warnings: tuple[str, ...]
    message: str
    set: Mapping[str, str]
    keep: Mapping[str, str]
    unset: tuple[str, ...]
    why: Mapping[str, str]  # of each of these, what it is and where it comes from

    def apply(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment after the plan; a refused start changes nothing."""
        kept = {k: v for k, v in env.items() if k not in self.unset}
        return {**kept, **self.set}


OUTCOMES = {
    lib.GS_PLAN_INJECT: "inject",
    lib.GS_PLAN_NOOP: "noop",
    lib.GS_PLAN_FAIL: "fail",
}


def _c_env(keep: Keeper, env: Mapping[str, str]) -> CData:
    return keep.strings((f"{k}={v}" for k, v in env.items()), end=True)


def _c_facts(keep: Keeper, facts: EnvFacts) -> CData:
    made = keep.new("struct gs_envfacts *")
    lib.gs_envfacts_init(made)
    made.gang_on = facts.gang_on
    made.step_id = facts.step_id
    made.step = keep.string(facts.step)
    for name, value in vars(facts.items).items():
        setattr(made.items, name, value)
    made.master_addr = keep.string(facts.master_addr)
    made.master_port = facts.master_port
    made.rank0_node = keep.string(facts.rank0_node)
    made.rank_node = keep.strings(facts.rank_node)
    made.rank_nodes = len(facts.rank_node)
    rows = keep.new("struct gs_resolved[]", len(facts.resolved))
    for row, (node, name, addresses) in zip(rows, facts.resolved, strict=True):
        row.node, row.name = keep.string(node), keep.string(name)
        row.address, row.count = keep.strings(addresses), len(addresses)
    made.resolved, made.resolved_count = rows, len(facts.resolved)
    if facts.resolvable is not None:
        made.resolvable = keep.strings(facts.resolvable)
        made.resolvable_count = len(facts.resolvable)
    made.report = keep.string(facts.report)
    made.t0 = facts.t0
    made.presets, made.without = facts.presets, facts.without
    made.port_lo, made.port_hi = facts.ports
    made.gpus_required = facts.gpus_required
    if facts.visible is not None:
        made.visible = keep.strings(facts.visible)
        made.visible_count = len(facts.visible)
    tasks = keep.new("struct gs_taskgpus[]", len(facts.local_gpus))
    for task, (local_rank, uuids) in zip(tasks, facts.local_gpus.items(), strict=True):
        task.local_rank = local_rank
        task.uuid, task.count = keep.strings(uuids), len(uuids)
    made.local_gpus, made.local_gpus_count = tasks, len(facts.local_gpus)
    return made


def env_plan(env: Mapping[str, str], facts: EnvFacts) -> EnvPlan:
    """Plan the variables of one task from its environment and the facts."""
    keep = Keeper()
    plan = keep.new("struct gs_envplan *")
    error = keep.new("struct gs_error *")
    c_facts = _c_facts(keep, facts)
    check(lib.gs_envplan_make(_c_env(keep, env), c_facts, plan, error), error)
    rows = [
        (row.action, text(row.name), text(row.value), row.var)
        for row in plan.var[0 : plan.vars]
    ]
    lib.gs_envplan_clear(plan)
    bits = [1 << i for i in range(32) if plan.warnings & 1 << i]
    return EnvPlan(
        outcome=OUTCOMES[plan.outcome],
        reason=text(lib.gs_plan_reason_name(plan.reason)),
        exit_code=plan.exit_code,
        warnings=tuple(text(lib.gs_plan_warning_name(b)) for b in bits),
        message=text(plan.text),
        set={n: v for a, n, v, _ in rows if a == lib.GS_VAR_SET},
        keep={n: v for a, n, v, _ in rows if a == lib.GS_VAR_KEEP},
        unset=tuple(n for a, n, _, _ in rows if a == lib.GS_VAR_UNSET),
        why={
            n: text(lib.gs_env_value_why(lib.gs_env_var_value(v)))
            for _, n, _, v in rows
        },
    )


def env_stale(env: Mapping[str, str], step: str | None = None) -> list[str]:
    """Variables that the gang start of another step left in this environment."""
    keep = Keeper()
    out = keep.new(f"char[{lib.GS_VAR_COUNT}][{lib.GS_ENV_NAME_SIZE}]")
    n = lib.gs_envplan_stale(
        _c_env(keep, env), keep.string(step), out, lib.GS_VAR_COUNT
    )
    return [text(out[i]) for i in range(n)]
