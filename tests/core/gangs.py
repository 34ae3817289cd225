"""A gang for tests: nodes of equal size, fed by name of what happened."""

from __future__ import annotations

import json
from typing import Any

from core.c import NOBODY, Struct, ffi, lib, new, taken, text

SECOND = 1_000_000
T0 = 1000 * SECOND  # the clock of a host that has been up for a while

JOB = 7877
STEP = 0


class Gang:
    """A gs_gang of `nodes` times `per_node` tasks, ranks in blocks."""

    def __init__(
        self,
        nodes: int = 2,
        per_node: int = 2,
        timeout_s: int = 60,
        *,
        wiring: bool = False,
        known: bool = True,
    ) -> None:
        """Create it; `known` says which node has which ranks before any hello."""
        self.nodes, self.per_node = nodes, per_node
        raw = lib.gs_gang_create(nodes, nodes * per_node, timeout_s * SECOND)
        assert raw != ffi.NULL
        self.c = ffi.gc(raw, lib.gs_gang_destroy)
        self.c.job_id, self.c.step_id, self.c.restart_count = JOB, STEP, 0
        self.c.wiring = wiring
        for node in range(nodes) if known else []:
            assert self.expect(node, self.ranks(node)) == 0

    def ranks(self, node: int) -> list[int]:
        """Ranks of a node."""
        first = node * self.per_node
        return list(range(first, first + self.per_node))

    def expect(self, node: int, ranks: list[int]) -> int:
        """Say which ranks a node has."""
        name = f"n{node + 1}".encode()
        code: int = lib.gs_gang_expect(self.c, node, name, ranks, len(ranks))
        return code

    def hello(self, node: int, now: int = T0, **odd: object) -> tuple[int, str]:
        """A node's hello, with fields that differ from the truth; code and sentence."""
        given = odd.pop("ranks", None)
        ranks = given if isinstance(given, list) else self.ranks(node)
        body = b"".join(rank.to_bytes(4, "big") for rank in ranks)
        held = ffi.from_buffer(body) if body else ffi.NULL
        fields: dict[str, object] = {
            "job_id": JOB,
            "step_id": STEP,
            "node_index": node,
            "node_count": self.nodes,
            "task_count": self.nodes * self.per_node,
            "node_name": f"n{node + 1}",
            "rank_count": len(ranks),
            "ranks": held,
        }
        error = new("gs_error")
        rc = lib.gs_gang_hello(self.c, new("gs_hello", **(fields | odd)), now, error)
        return rc, text(error.text)

    def arrive(self, rank: int, now: int = T0, claim: int = 0) -> int:
        """A task reaches the barrier on its own node."""
        code: int = lib.gs_gang_arrive(self.c, rank // self.per_node, rank, claim, now)
        return code

    def end(self, rank: int, kind: int, status: int, now: int = T0, **more: int) -> int:
        """A task ends before the start."""
        fail = new(
            "gs_fail",
            node_index=rank // self.per_node,
            rank=rank,
            kind=kind,
            status=status,
            **more,
        )
        code: int = lib.gs_gang_fail(self.c, fail, now)
        return code

    def fail_node(self, node: int, kind: int, why: str, now: int = T0) -> None:
        """A node as a whole cannot start."""
        fail = new("gs_fail", node_index=node, rank=NOBODY, kind=kind, text=why)
        assert lib.gs_gang_fail(self.c, fail, now) == 0

    def reach(self, node: int, result: int = 0, detail: int = 0) -> None:
        """Result of a node's probe."""
        lib.gs_gang_reach(
            self.c, new("gs_reach", node_index=node, result=result, detail=detail)
        )

    def tick(self, now: int = T0) -> int:
        """Outcome at a moment."""
        outcome: int = lib.gs_gang_tick(self.c, now)
        return outcome

    def everybody(self, now: int = T0) -> None:
        """All nodes connect and all tasks arrive."""
        for node in range(self.nodes):
            assert self.hello(node, now)[0] == 0
        for rank in range(self.nodes * self.per_node):
            assert self.arrive(rank, now) == 0

    def decision(self) -> tuple[int, int, int, int, int]:
        """Outcome, reason, exit code, node and task that it is about."""
        c = self.c
        return (c.outcome, c.reason, c.code, c.fail_node, c.fail_rank)

    def report(self, **fields: object) -> dict[str, Any]:
        """The complete report."""
        return Story(self, **fields).report()

    def blamed(self, **fields: object) -> str:
        """Nodes that the refusal names, folded."""
        return str(self.report(**fields)["blamed_nodes"])


def offer(*addresses: str, **fields: object) -> Struct:
    """What rank 0's node offers."""
    master = new("gs_master", **({"port": 29500} | fields))
    master.candidate_count = len(addresses)
    for i, address in enumerate(addresses):
        master.candidates[i].address = address.encode()
        master.candidates[i].interface = f"ib{i}".encode()
        master.candidates[i].why = b"carries Slurm's own traffic to srun"
    return master


class Story:
    """The facts beside a gang, and what is told from them."""

    def __init__(self, gang: Gang, **fields: object) -> None:
        """Take the gang as it is; fields override the plain facts."""
        spec = new("gs_spec")
        lib.gs_spec_init(spec)
        facts: dict[str, object] = {
            "gang": gang.c,
            "spec": spec,
            "master_addr": "",
            "version": "0.1.0",
            "slurm_version": "22.05.8",
            "cluster": "test",
            "submit_host": "login",
            "user_id": 1000,
            "begun_us": T0,
            "wall_us": 1_700_000_000_123_456,
        } | fields
        self._alive = [gang, spec, *facts.values()]
        for name, value in facts.items():
            if isinstance(value, str | bytes):
                raw = value if isinstance(value, bytes) else value.encode()
                facts[name] = ffi.new("char[]", raw)
        self._alive += facts.values()
        self.gang, self.spec = gang, spec
        self.c = new("gs_story", **facts)

    def start(self) -> str:
        """What srun says of a good start."""
        return taken(lib.gs_story_start(self.c))

    def refusal(self) -> str:
        """What srun says of a refusal."""
        return taken(lib.gs_story_refusal(self.c))

    def raw_report(self, node: int = NOBODY) -> str:
        """The report as it is written; one node's own, or the complete one."""
        head = lib.gs_story_head(self.c)
        assert head != ffi.NULL
        try:
            return taken(lib.gs_story_report(self.c, head, node))
        finally:
            lib.gs_text_free(head)

    def report(self, node: int = NOBODY) -> dict[str, Any]:
        """The report, read."""
        read: dict[str, Any] = json.loads(self.raw_report(node))
        return read
