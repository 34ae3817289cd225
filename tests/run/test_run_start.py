"""The start itself, all ranks in one process: who is missing, where, and the report."""

from __future__ import annotations

import json
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from gangstart import core
from gangstart.gpuanswer import GpuWord
from gangstart.run.client import Client
from gangstart.run.launched import Launched
from gangstart.run.member import Ready
from gangstart.run.root import Root, step_of_moment
from gangstart.run.userreport import Reports
from gangstart.run.worker import ROOT_KINDS
from repo import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text())
OK = GpuWord(verdict="ok", counts=(1, 0, 0, 0), why="")
BAD = GpuWord(verdict="fail", counts=(0, 0, 0, 1), why="GPU 0 fell off the bus")
SETTLED = 20  # turns after which nothing more comes
Mail = deque[tuple[int, dict[str, Any]]]


class Post:
    """A world whose messages are lists; what is sent has to be JSON."""

    def __init__(self, rank: int, boxes: list[Mail]) -> None:
        self.rank, self.size, self._boxes = rank, len(boxes), boxes

    def send(self, to: int, message: dict[str, Any]) -> None:
        self._boxes[to].append((self.rank, json.loads(json.dumps(message))))

    def poll(self) -> list[tuple[int, dict[str, Any]]]:
        came = list(self._boxes[self.rank])
        self._boxes[self.rank].clear()
        return came

    def busy(self) -> bool:
        return False

    def leave(self) -> None:
        """Nothing to end."""


class Said(Reports):
    """Keeps the lines instead of printing them."""

    def __init__(self, folder: Path) -> None:
        super().__init__({"XDG_STATE_HOME": str(folder)}, "")
        self.lines = ""

    def say(self, text: str) -> None:
        self.lines += text


class Play:
    """All ranks of a start; silent ones say hello and nothing more."""

    def __init__(
        self,
        folder: Path,
        nodes: list[str],
        *,
        spec: str = "timeout=30",
        gpu: GpuWord = OK,
        env: dict[int, dict[str, str]] | None = None,
        order: list[int] | None = None,
    ) -> None:
        size = len(nodes)
        boxes: list[Mail] = [deque() for _ in nodes]
        self.worlds = [Post(rank, boxes) for rank in range(size)]
        self.reports = Said(folder)
        self.folder = folder
        self.began = time.monotonic()
        self.clients: list[Client] = []
        for rank, node in enumerate(nodes):
            word = gpu if node not in nodes[:rank] else None
            told = Launched(
                "srun", order[rank] if order else rank, size, nodes[:rank].count(node),
                None, "", "PMIx", node, None, None,
            )  # fmt: skip
            ready = Ready(told, core.parse_spec(spec), "true", self.began, word, ())
            mine = {"PATH": "/bin:/usr/bin", **(env or {}).get(rank, {})}
            if rank == 0:
                self.root = Root(self.worlds[0], ready, self.reports)
            self.clients.append(Client(self.worlds[rank], ready, mine))

    def run(self, silent: tuple[int, ...] = (), at: float | None = None) -> None:
        """Pass messages until it is decided; ``at``: seconds from the beginning."""
        end = time.monotonic() + 20
        turns = 0
        while not self.root.told:
            assert time.monotonic() < end, "no decision"
            self._turn(silent)
            turns += 1
            over = at is not None and turns > SETTLED
            self.root.step(self.began + (at or 0) if over else time.monotonic())
        self._turn(silent)
        for client in self.clients:
            client.close()
            if client.control is not None:
                client.control.close()

    def _turn(self, silent: tuple[int, ...]) -> None:
        for world, client in zip(self.worlds, self.clients, strict=True):
            for source, message in world.poll():
                if message["k"] in ROOT_KINDS:
                    self.root.on(source, message, time.monotonic())
                elif world.rank not in silent:
                    client.on(message)
            client.step()

    @property
    def report(self) -> dict[str, Any]:
        (path,) = self.folder.glob("gangstart/local/*.json")
        made: dict[str, Any] = json.loads(path.read_text())
        jsonschema.validate(made, SCHEMA)
        return made


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    assert not list(tmp_path.rglob(".start-*")), "a half-written report is left"


def test_two_nodes_are_released_together(folder: Path) -> None:
    play = Play(folder, ["n001", "n001", "n002"])
    play.run()

    ranks = [client.started.plan.set for client in play.clients if client.started]
    assert [(r["RANK"], r["LOCAL_RANK"], r["NODE_RANK"]) for r in ranks] == [
        ("0", "0", "0"),
        ("1", "1", "0"),
        ("2", "0", "1"),
    ]
    assert len({(r["MASTER_ADDR"], r["MASTER_PORT"]) for r in ranks}) == 1
    assert "3/3 tasks on 2/2 nodes" in play.reports.lines
    assert "2 GPUs ok" in play.reports.lines
    assert play.report["master"]["proven"] is True
    assert [node["name"] for node in play.report["nodes"]] == ["n001", "n002"]


def test_a_rank_that_falls_silent_is_named_with_its_node(folder: Path) -> None:
    play = Play(folder, ["n001", "n001", "n002", "n003"])
    play.run(silent=(2,), at=31)

    assert [client.code for client in play.clients] == [75, 75, None, 75]
    assert "n002        rank 2" in play.reports.lines
    assert "n003" not in play.reports.lines
    report = play.report
    assert (report["outcome"], report["reason"]) == ("refused", "timeout")
    assert (report["blamed_nodes"], report["missing_ranks"]) == ("n002", "2")


def test_a_rank_that_never_says_hello_is_missing_and_the_others_are_told(
    folder: Path,
) -> None:
    play = Play(folder, ["n001", "n002"])
    play.worlds[0].poll()  # both hellos are lost; rank 0 says his again
    again = play.clients[0]
    play.clients[0] = Client(play.worlds[0], again.ready, again.env)
    play.run(at=31)

    assert play.clients[0].code == 75
    assert "(unknown)" in play.reports.lines
    assert play.report["missing_ranks"] == "1"


def test_a_bad_gpu_refuses_only_where_health_is_required(folder: Path) -> None:
    kept = Play(folder / "record", ["n001"], gpu=BAD)
    kept.run()
    strict = Play(folder / "require", ["n001"], gpu=BAD, spec="health=require")
    strict.run()

    assert kept.clients[0].started is not None
    assert "fell off the bus" in kept.reports.lines
    assert strict.clients[0].code == 69
    assert strict.report["reason"] == "health"


def test_the_users_own_meeting_place_is_kept_and_told(folder: Path) -> None:
    user = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517"}
    play = Play(folder, ["n001", "n001"], env={0: user, 1: user})
    play.run()

    started = play.clients[1].started
    assert started is not None
    assert dict(started.plan.keep) == user
    assert play.report["kept_from_user"] == ["MASTER_ADDR", "MASTER_PORT"]


def test_a_meeting_place_that_resolves_nowhere_is_refused(folder: Path) -> None:
    user = {"MASTER_ADDR": "no-such-host.invalid"}
    play = Play(folder, ["n001", "n002"], env={0: user, 1: user})
    play.run()

    assert {client.code for client in play.clients} == {78}, play.reports.lines
    assert "does not resolve no-such-host.invalid" in play.reports.lines


def test_ranks_in_another_order_than_mpis_are_one_numbering(folder: Path) -> None:
    play = Play(folder, ["n001", "n001", "n001"], order=[0, 2, 1])
    play.run()

    ranks = [c.started.plan.set["RANK"] for c in play.clients if c.started]
    assert ranks == ["0", "2", "1"]
    assert "MPI numbers ranks 1-2 differently" in play.reports.lines


def test_rank_0_need_not_be_mpis_first(folder: Path) -> None:
    play = Play(folder, ["n001", "n002"], order=[1, 0])
    play.run()

    assert [c.started.holds for c in play.clients if c.started] == [False, True]
    assert "master n002" in play.reports.lines


def test_a_rank_with_another_spec_contradicts_the_others(folder: Path) -> None:
    play = Play(folder, ["n001", "n002", "n002"])
    odd = play.clients[2].ready
    spec = core.parse_spec("timeout=77")
    play.worlds[0].poll()
    for rank in range(3):
        ready = play.clients[rank].ready
        if rank == 2:
            ready = Ready(odd.launched, spec, "true", odd.came, None, ())
        play.clients[rank] = Client(play.worlds[rank], ready, {"PATH": "/bin"})
    play.run()

    assert play.report["reason"] == "mismatch"
    assert "rank 2" in play.reports.lines


@pytest.mark.parametrize("job", [None, 7877])
def test_two_starts_of_one_second_are_two(job: int | None) -> None:
    second = 1_796_099_243 * 10**9
    first, other = (step_of_moment(job, second + i * 2_000_000) for i in (0, 1))

    assert first != other
    assert first[0] == (job or 1_796_099_243)
    assert all(made[1] < 0xFFFFFFF0 for made in (first, other))
