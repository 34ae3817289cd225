"""A rank's part of the start: says who it is, plans its environment, tries the address.

Whatever the decision is, it comes from rank 0 (root.py); this part only answers.
"""

from __future__ import annotations

import contextlib
import time

from gangstart import iface
from gangstart.errors import GangstartError
from gangstart.record import Record, plain, replace
from gangstart.run.member import member, own_master, toward
from gangstart.run.plan import Layout, Meeting, plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from gangstart.core import EnvPlan
    from gangstart.run.meet import Holder, Prober
    from gangstart.run.member import Ready
    from gangstart.run.world import Message, World

ROOT = 0  # MPI's rank of the place that decides


class Started(Record):
    """What a rank was given at the release."""

    step: tuple[int, int]
    rank: int
    node: str
    world: int
    plan: EnvPlan
    control: tuple[str, int]
    key: bytes
    holds: bool  # it is rank 0 and listens for the others


class Client:
    """One rank. ``started`` or ``code`` is set once the decision is known."""

    def __init__(self, world: World, ready: Ready, env: Mapping[str, str]) -> None:
        """Say hello."""
        self.world, self.ready, self.env = world, ready, env
        self.started: Started | None = None
        self.code: int | None = None
        self.control: socket.socket | None = None  # for failures, on rank 0
        self._layout: Layout | None = None
        self._rank = 0
        self._key = b""
        self._holder: Holder | None = None
        self._prober: Prober | None = None
        said = member(ready, env, (world.rank, world.size))
        world.send(ROOT, {"k": "hello", "member": said.packed()})

    def on(self, message: Message) -> None:
        """Take a message of the root."""
        handlers = {
            "layout": self._on_layout,
            "probe": self._on_probe,
            "go": self._on_go,
            "stop": self._on_stop,
        }
        handlers[message["k"]](message)

    def step(self) -> None:
        """Go on with what is under way; never blocks."""
        self._serve()
        done = self._prober.take() if self._prober is not None else None
        if done is not None:
            turn, reach = done
            self.world.send(ROOT, {"k": "reach", "round": turn, **plain(reach)})

    def _serve(self) -> None:
        """Answer who tries to reach rank 0; if that is over, the start is."""
        if self._holder is None:
            return
        try:
            self._holder.serve(self._key)
        except GangstartError as error:
            self._holder.close()
            self._holder = None
            self.world.send(ROOT, {"k": "unfit", "text": error.message})

    def close(self) -> None:
        """Give up what is held, but for ``control``."""
        if self._holder is not None:
            self._holder.close()

    def _on_layout(self, message: Message) -> None:
        began = time.monotonic()
        raw = message["layout"]
        visible = {int(rank): uuids for rank, uuids in raw["visible"].items()}
        step = (int(raw["step"][0]), int(raw["step"][1]))
        self._layout = Layout(step, raw["nodes"], raw["slurm"], visible)
        self._rank, self._key = message["rank"], bytes.fromhex(message["key"])
        planned = self._plan(Meeting())
        if planned.outcome == "fail" and planned.reason != "DUPLICATE_GPU":
            self.world.send(ROOT, {"k": "unfit", "text": planned.message})
            return
        if message["hold"]:
            try:
                self._hold(self._layout)
            except (GangstartError, OSError) as error:
                self.world.send(ROOT, {"k": "unfit", "text": str(error)})
                return
        held = time.monotonic() - began
        self.world.send(ROOT, {"k": "fit", "wall": time.time(), "held_s": held})

    def _plan(self, meeting: Meeting) -> EnvPlan:
        if self._layout is None:
            raise RuntimeError("the layout has not come")
        made = plan(self.env, self._layout, self._rank, meeting, self.ready.spec)
        fatal = made.outcome == "fail" and made.reason == "DUPLICATE_GPU"
        if fatal and meeting.port:  # the gang has decided that it may be
            spec = replace(self.ready.spec, health="record")
            made = plan(self.env, self._layout, self._rank, meeting, spec)
        return made

    def _hold(self, layout: Layout) -> None:
        """Rank 0: take MASTER_PORT, listen for failures, say where to meet."""
        from gangstart.run import meet  # noqa: PLC0415 - rank 0 alone

        spec, node = self.ready.spec, self.ready.launched.node
        user = own_master(self.env)
        fixed = user[1] or (str(spec.master_port) if spec.master_port else "")
        self._holder = meet.Holder(layout.step, node, fixed, spec.ports)
        made = meet.offer(
            node,
            self._holder.port,
            spec,
            found=iface.ifaces(),
            user=user,
            toward=toward(self.env),
            alone=len(layout.nodes) == 1,
        )
        if spec.ports[1]:
            self.control, _ = meet.listen_inside(layout.step, node, spec.ports)
        else:
            self.control = meet.listen(0)
        message = {"k": "offer", "offer": plain(made)}
        self.world.send(ROOT, {**message, "control": self.control.getsockname()[1]})

    def _on_probe(self, message: Message) -> None:
        if self._prober is None:
            from gangstart.run.meet import Prober  # noqa: PLC0415 - one of each node

            self._prober = Prober()
        self._prober.start(
            message["round"],
            message["address"],
            message["port"],
            self._key,
            (message["name"], message["match"]),
        )

    def _on_go(self, message: Message) -> None:
        meeting = Meeting(
            message["address"], message["port"], message["t0"], message["report"]
        )
        if self._layout is None:
            raise RuntimeError("released before the layout came")
        address, port = message["control"]
        self.started = Started(
            step=self._layout.step,
            rank=self._rank,
            node=self.ready.launched.node,
            world=self._layout.world,
            plan=self._plan(meeting),
            control=(address, port),
            key=self._key,
            holds=self._rank == 0,
        )

    def _on_stop(self, message: Message) -> None:
        self.code = message["code"]
        with contextlib.suppress(OSError):  # rank 0 has closed its end first
            self.close()
