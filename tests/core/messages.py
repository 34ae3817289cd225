"""The messages of the wire as Python sees them: fields in, bytes out, and back.

One generic codec drives every test: a message is a dict of its fields, and each field
has a strategy that makes values for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from core.c import Struct, ffi, image, lib, new, text
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Mapping

Fields = dict[str, Any]


def word(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, 2**bits - 1)


def line(room: int) -> st.SearchStrategy[str]:
    """Printable text of any script that fits a C array of `room` bytes."""
    letters = st.characters(codec="utf-8", exclude_categories=["C"])
    return st.text(letters, max_size=room - 1).filter(
        lambda s: len(s.encode()) <= room - 1
    )


CANDIDATE = st.fixed_dictionaries(
    {"address": line(64), "interface": line(64), "why": line(64)}
)


class Message(NamedTuple):
    """A message: its struct's name and a strategy for each of its fields."""

    ctype: str
    fields: Mapping[str, st.SearchStrategy[Any]]

    def encode(self, fields: Fields) -> bytes:
        """Body of the message."""
        fields = dict(fields)
        ranks = fields.pop("ranks", [])
        candidates = fields.pop("candidates", [])
        record = fields.pop("record", b"")
        made = new(f"gs_{self.ctype}", **fields)
        for i, one in enumerate(candidates):
            for name, value in one.items():
                setattr(
                    made.candidates[i], name, value.encode(errors="surrogateescape")
                )
        extra = [ffi.new("uint32_t[]", ranks)] if self.ctype == "hello" else []
        if record:
            held = ffi.from_buffer(record)
            made.record, made.record_size = held, len(record)
        if extra:
            made.rank_count = len(ranks)
        elif self.ctype == "master":
            made.candidate_count = len(candidates)
        return finish(getattr(lib, f"gs_{self.ctype}_encode"), made, *extra)

    def decode(self, body: bytes) -> tuple[int, Struct, bytes]:
        """Return code, the struct, and what the struct held before."""
        room = ffi.from_buffer(body) if body else ffi.new("uint8_t[1]")
        into = new(f"gs_{self.ctype}")
        ffi.memmove(into, b"\xa5" * len(image(into)), len(image(into)))
        before, error = image(into), new("gs_error")
        rc = getattr(lib, f"gs_{self.ctype}_decode")(room, len(body), into, error)
        assert (rc == 0) == (error.text[0] == b"\0"), "a refusal has a sentence"
        KEPT[into] = room  # a hello points into its body
        return rc, into, before

    def read(self, body: bytes) -> Fields:
        """Fields of a body that must be good."""
        rc, got, _ = self.decode(body)
        assert rc == 0
        found = {n: plain(getattr(got, n)) for n in self.fields if n not in LISTS}
        if "ranks" in self.fields:
            found["ranks"] = [lib.gs_hello_rank(got, i) for i in range(got.rank_count)]
        if "record" in self.fields:
            found["record"] = bytes(ffi.buffer(got.record, got.record_size))
        if "candidates" in self.fields:
            found["candidates"] = [
                {n: text(getattr(got.candidates[i], n)) for n in CANDIDATE_FIELDS}
                for i in range(got.candidate_count)
            ]
        return found

    def refuses(self, body: bytes) -> bool:
        """Whether the body is refused with the outputs as they were."""
        rc, got, before = self.decode(body)
        assert rc == 0 or image(got) == before, "a refusal wrote into its output"
        return rc < 0


LISTS = {"ranks", "candidates", "record"}
CANDIDATE_FIELDS = ("address", "interface", "why")
KEPT: dict[Struct, Struct] = {}


def plain(value: object) -> object:
    """Python value of a field."""
    if not isinstance(value, ffi.CData):
        return value
    if ffi.typeof(value).item.cname == "char":
        return text(value)
    if ffi.typeof(value).item.cname == "uint32_t":
        return list(value)
    return bytes(ffi.buffer(value))


def finish(encode: Struct, *arguments: object) -> bytes:
    """Bytes that an encoder appends."""
    buffer = new("gs_buffer")
    encode(buffer, *arguments)
    try:
        assert not buffer.failed
        return bytes(ffi.buffer(buffer.data, buffer.size)) if buffer.size else b""
    finally:
        lib.gs_wire_free(buffer)


MESSAGES = {
    "hello": Message(
        "hello",
        {
            "nonce": st.binary(min_size=16, max_size=16),
            "job_id": word(32),
            "step_id": word(32),
            "restart_count": word(32),
            "node_index": word(32),
            "node_count": word(32),
            "task_count": word(32),
            "wall_us": st.integers(-(2**63), 2**63 - 1),
            "node_name": line(256),
            "version": line(32),
            "ranks": st.lists(word(32), max_size=20),
        },
    ),
    "fail": Message(
        "fail",
        {
            "node_index": word(32),
            "rank": word(32),
            "kind": st.integers(lib.GS_FAIL_EXIT, lib.GS_FAIL_LOST),
            "status": word(32),
            "siblings": word(32),
            "text": line(512),
        },
    ),
    "state": Message(
        "state",
        {
            "node_index": word(32),
            "rank": word(32),
            "pid": word(32),
            "letter": st.integers(ord("A"), ord("z")),
            "wchan": line(32),
            "command": line(32),
            "child": line(32),
            "ahead": line(128),
        },
    ),
    "health": Message(
        "healthmsg",
        {
            "node_index": word(32),
            "verdict": st.integers(0, lib.GS_VERDICTS - 1),
            "none": st.booleans(),
            "shared_gpu": st.booleans(),
            "counts": st.lists(word(32), min_size=4, max_size=4),
            "took_us": word(32),
            "alike": word(64),
            "why": line(512),
            "binding": line(512),
            "record": st.builds(lambda s: f"{{{s}}}".encode(), line(300)),
        },
    ),
    "master": Message(
        "master",
        {
            "node_index": word(32),
            "port": word(16),
            "export_as": line(256),
            "user_address": st.booleans(),
            "user_port": st.booleans(),
            "must_match": st.booleans(),
            "candidates": st.lists(CANDIDATE, max_size=lib.GS_CANDIDATE_MAX),
        },
    ),
    "probe": Message(
        "probe",
        {
            "round": word(32),
            "port": word(16),
            "must_match": st.booleans(),
            "address": line(64),
            "name": line(256),
        },
    ),
    "reach": Message(
        "reach",
        {
            "node_index": word(32),
            "round": word(32),
            "result": st.integers(0, lib.GS_REACH_ELSEWHERE),
            "detail": word(32),
            "rtt_us": word(32),
            "text": line(64),
        },
    ),
    "go": Message(
        "go",
        {
            "master_addr": line(256),
            "master_port": word(16),
            "t0_us": st.integers(-(2**63), 2**63 - 1),
        },
    ),
    "abort": Message("abort", {"code": word(8), "text": line(512)}),
}
#: Any message with its fields.
ANY = st.sampled_from(sorted(MESSAGES)).flatmap(
    lambda name: st.tuples(
        st.just(MESSAGES[name]), st.fixed_dictionaries(dict(MESSAGES[name].fields))
    )
)
