"""What a person is told of a start, and what is kept: story.h and gangodd.h."""

from __future__ import annotations

import time

from gangstart._core import ffi, lib
from gangstart.core import Keeper, c_text, check, taken
from gangstart.gpupolicy import Policy
from gangstart.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gangstart._core import CData
    from gangstart.gang import Gang
    from gangstart.iface import Candidate


def c_spec(keep: Keeper, canonical: str) -> CData:
    """``struct gs_spec *`` of a canonical SPEC."""
    spec, error = keep.new("struct gs_spec *"), keep.new("struct gs_error *")
    lib.gs_spec_init(spec)
    check(lib.gs_spec_parse(spec, c_text(canonical), error), error)
    return spec


class Offer(Record):
    """Rank 0's node offers a meeting place: a held port and addresses to try."""

    node: str
    port: int
    candidates: Sequence[Candidate]
    name: str = ""  # what MASTER_ADDR shall say, "" = the address
    user_address: bool = False  # name is the user's own MASTER_ADDR
    user_port: bool = False
    must_match: bool = False  # name must resolve to the address on every node

    def address(self, tried: int) -> str:
        """What MASTER_ADDR says when candidate ``tried`` is used."""
        return self.name or self.candidates[tried].address


class Story(Record):
    """The facts of a start beside its gang; times in seconds of the gang's clock."""

    begun: float = 0.0
    spec: str = ""
    offer: Offer | None = None
    tried: int = 0  # index of the candidate in use
    version: str = ""
    slurm_version: str = ""
    cluster: str = ""
    submit_host: str = ""
    program: str = ""
    user_id: int = 0

    def message(self, gang: Gang) -> str:
        """The line of a good start with its warnings, or those of a refusal."""
        keep = Keeper()
        story = self._made(keep, gang)
        released = gang.outcome == "released"
        return taken(
            lib.gs_story_start(story) if released else lib.gs_story_refusal(story)
        )

    def report(self, gang: Gang) -> str:
        """The report as docs/report.schema.json has it, one JSON object."""
        keep = Keeper()
        story = self._made(keep, gang)
        head = lib.gs_story_head(story)
        try:
            return taken(lib.gs_story_report(story, head, lib.GS_NO_RANK))
        finally:
            lib.gs_text_free(head)

    def _made(self, keep: Keeper, gang: Gang) -> CData:
        story = keep.new("struct gs_story *")
        story.gang, story.spec = gang.c, c_spec(keep, self.spec)
        story.begun_us = round(self.begun * 1e6)
        story.wall_us = time.time_ns() // 1000
        story.user_id = self.user_id
        story.master_addr = keep.string("")
        for name in ("version", "slurm_version", "cluster", "submit_host", "program"):
            setattr(story, name, keep.string(getattr(self, name)))
        if self.offer is not None:
            story.master = _c_master(keep, gang, self.offer)
            story.candidate = self.tried
            story.master_addr = keep.string(self.offer.address(self.tried))
        story.odd = _odd(keep, gang)
        return story


def _c_master(keep: Keeper, gang: Gang, offer: Offer) -> CData:
    made = keep.new("struct gs_master *")
    made.node_index, made.port = gang.names.index(offer.node), offer.port
    made.export_as = c_text(offer.name)[: lib.GS_NAME_SIZE - 1]
    made.user_address, made.user_port = offer.user_address, offer.user_port
    made.must_match = offer.must_match
    made.candidate_count = len(offer.candidates)
    for slot, one in zip(made.candidates, offer.candidates, strict=False):
        slot.address = c_text(one.address)
        slot.interface, slot.why = c_text(one.interface), c_text(one.why)
    return made


def _odd(keep: Keeper, gang: Gang) -> CData:
    """GPUs that are not like the others, by the default policy as in the plugin."""
    found = ffi.gc(ffi.new("struct gs_gpuverdict *"), lib.gs_gpuverdict_free)
    policy = Policy()
    keep.hold(policy)
    keep.hold(found)
    if lib.gs_gangodd_compare(gang.c, policy.c, found) < 0:
        raise MemoryError
    return found
