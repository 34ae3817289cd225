"""Frames: what is written is what is read, and nothing else is taken."""

from __future__ import annotations

import struct

import pytest
from core.c import NOBODY, ffi, lib, new
from core.messages import ANY, KEPT, MESSAGES, Fields, Message, finish, word
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture(autouse=True)
def _forget_bodies() -> None:
    KEPT.clear()


@given(ANY)
def test_every_message_comes_out_as_it_went_in(one: tuple[Message, Fields]) -> None:
    message, fields = one
    assert message.read(message.encode(fields)) == fields


@given(ANY, st.data())
def test_a_body_cut_short_anywhere_is_refused(
    one: tuple[Message, Fields], data: st.DataObject
) -> None:
    message, fields = one
    body = message.encode(fields)
    assert message.refuses(body[: data.draw(st.integers(0, len(body) - 1))])


@given(ANY, st.binary(min_size=1, max_size=9))
def test_a_body_with_something_after_it_is_refused(
    one: tuple[Message, Fields], more: bytes
) -> None:
    message, fields = one
    assert message.refuses(message.encode(fields) + more)


@settings(max_examples=150)
@given(ANY, st.data())
def test_a_flipped_bit_is_refused_or_still_a_clean_message(
    one: tuple[Message, Fields], data: st.DataObject
) -> None:
    """Integrity is the seal's work; a decoder must stay within bounds and tables."""
    message, fields = one
    body = bytearray(message.encode(fields))
    at = data.draw(st.integers(0, len(body) * 8 - 1))
    body[at // 8] ^= 1 << at % 8
    if message.refuses(bytes(body)):
        return
    got = message.read(bytes(body))
    assert message.encode(got) == bytes(body), "what was read is not what came"


@settings(max_examples=150)
@given(st.sampled_from(sorted(MESSAGES)), st.binary(max_size=400))
def test_noise_is_refused_or_reads_as_exactly_one_message(
    name: str, noise: bytes
) -> None:
    message = MESSAGES[name]
    if not message.refuses(noise):
        assert message.encode(message.read(noise)) == noise


@pytest.mark.parametrize("bad", [*range(0x20), 0x7F])
@pytest.mark.parametrize(
    ("name", "field"),
    [
        (m, f)
        for m, f in [("hello", "node_name"), ("fail", "text"), ("go", "master_addr")]
    ],
)
def test_a_text_with_a_control_character_is_refused(
    name: str, field: str, bad: int
) -> None:
    message = MESSAGES[name]
    body = message.encode({**example(name), field: "n1~x"})
    assert not message.refuses(body)
    assert message.refuses(body.replace(b"n1~x", b"n1" + bytes([bad]) + b"x"))


def example(name: str) -> Fields:
    """A plain instance of a message."""
    plain_fields: dict[str, Fields] = {
        "hello": {"nonce": bytes(16), "node_name": "n1", "ranks": [0, 1]},
        "fail": {"kind": lib.GS_FAIL_EXIT, "rank": NOBODY, "text": "x"},
        "master": {"candidates": [{"address": "10.0.0.1", "interface": "ib0"}]},
    }
    return plain_fields.get(name, {})


def test_a_text_that_fills_its_field_is_kept_and_one_byte_more_is_cut() -> None:
    abort = MESSAGES["abort"]
    full = "x" * (lib.GS_TEXT_SIZE - 1)
    assert abort.read(abort.encode({"code": 75, "text": full}))["text"] == full
    # A sender with a longer field than ours: the length alone gives it away.
    body = struct.pack(">BH", 75, lib.GS_TEXT_SIZE) + b"x" * lib.GS_TEXT_SIZE
    assert abort.refuses(body)


def test_an_array_without_terminator_is_cut_to_what_the_field_holds() -> None:
    fail = new("gs_fail", kind=lib.GS_FAIL_EXIT)
    ffi.memmove(fail.text, b"y" * lib.GS_TEXT_SIZE, lib.GS_TEXT_SIZE)
    got = MESSAGES["fail"].read(finish(lib.gs_fail_encode, fail))
    assert got["text"] == "y" * (lib.GS_TEXT_SIZE - 1)


@pytest.mark.parametrize("count", [1, 2**16, 2**30, 2**30 + 1, 2**32 - 1])
def test_a_hello_that_announces_more_ranks_than_it_brings_is_refused(
    count: int,
) -> None:
    hello = MESSAGES["hello"]
    body = hello.encode({**example("hello"), "ranks": []})
    assert hello.refuses(body[:-4] + struct.pack(">I", count))


@pytest.mark.parametrize("count", [2, lib.GS_CANDIDATE_MAX + 1, 255])
def test_an_offer_that_announces_more_addresses_than_it_brings_is_refused(
    count: int,
) -> None:
    master = MESSAGES["master"]
    body = bytearray(master.encode(example("master")))
    body[4 + 2 + 2 + 3] = count
    assert master.refuses(bytes(body))


def test_nine_complete_addresses_are_one_too_many() -> None:
    one = struct.pack(">H", 1) + b"a"
    body = struct.pack(">IHHBBBB", 0, 29500, 0, 0, 0, 0, 9) + one * 3 * 9
    assert MESSAGES["master"].refuses(body)
    eight = struct.pack(">IHHBBBB", 0, 29500, 0, 0, 0, 0, 8) + one * 3 * 8
    assert not MESSAGES["master"].refuses(eight)


@pytest.mark.parametrize("kind", [0, lib.GS_FAIL_LOST + 1, 255])
def test_a_failure_of_an_unknown_kind_is_refused(kind: int) -> None:
    body = finish(lib.gs_fail_encode, new("gs_fail", kind=kind))
    assert MESSAGES["fail"].refuses(body)


def test_a_flag_is_zero_or_one() -> None:
    body = bytearray(MESSAGES["probe"].encode({"must_match": True}))
    body[6] = 2
    assert MESSAGES["probe"].refuses(bytes(body))


ARRIVAL = ("rank", "age_us", "visible", "claim", "program", "apart")
ARRIVALS = st.lists(
    st.fixed_dictionaries(dict.fromkeys(ARRIVAL, word(32))), max_size=30
)


def pack_arrivals(node: int, arrivals: list[Fields]) -> bytes:
    rows = ffi.new("struct gs_arrival[]", arrivals)
    return finish(lib.gs_arrivals_encode, node, rows, len(arrivals))


@given(word(32), ARRIVALS)
def test_arrivals_come_out_as_they_went_in(node: int, arrivals: list[Fields]) -> None:
    body, index = pack_arrivals(node, arrivals), ffi.new("uint32_t *")
    assert lib.gs_arrivals_count(body, len(body), index) == len(arrivals)
    assert index[0] == node
    one = new("gs_arrival")
    for i, wanted in enumerate(arrivals):
        lib.gs_arrivals_get(body, i, one)
        assert {n: getattr(one, n) for n in wanted} == wanted


@given(ARRIVALS, st.integers(1, 15))
def test_arrivals_with_a_piece_of_another_are_refused(
    arrivals: list[Fields], more: int
) -> None:
    body, index = pack_arrivals(3, arrivals), ffi.new("uint32_t *", 77)
    for wrong in (body + b"x" * more, body[: min(more, 3)]):
        assert lib.gs_arrivals_count(wrong, len(wrong), index) < 0
    assert index[0] == 77


def test_a_body_that_would_be_too_large_is_not_built() -> None:
    buffer = new("gs_buffer")
    rows = ffi.new("struct gs_arrival[]", 2731)
    lib.gs_arrivals_encode(buffer, 0, rows, 2731)
    assert buffer.failed
    lib.gs_wire_free(buffer)
    lib.gs_arrivals_encode(buffer, 0, rows, 2730)
    assert not buffer.failed
    assert buffer.size <= lib.GS_BODY_MAX
    lib.gs_wire_free(buffer)


def header(kind: int, size: int, sequence: int) -> bytes:
    out = ffi.new("uint8_t[]", lib.GS_HEADER_SIZE)
    lib.gs_header_encode(out, new("gs_header", type=kind, size=size, sequence=sequence))
    return bytes(ffi.buffer(out))


def read_header(raw: bytes) -> tuple[int, ...] | None:
    """Type, size and sequence, or None if refused with nothing written."""
    into = new("gs_header", type=99, size=98, sequence=97)
    rc = lib.gs_header_decode(raw, into)
    found = (into.type, into.size, into.sequence)
    assert rc == 0 or found == (99, 98, 97), "a refusal wrote into its output"
    return found if rc == 0 else None


@given(
    st.integers(lib.GS_FRAME_CHALLENGE, lib.GS_FRAME_STATE),
    st.integers(0, lib.GS_BODY_MAX),
    word(32),
)
def test_a_header_comes_out_as_it_went_in(kind: int, size: int, sequence: int) -> None:
    raw = header(kind, size, sequence)
    assert raw == b"GSW1" + struct.pack(">BBHII", kind, 1, 0, size, sequence)
    assert read_header(raw) == (kind, size, sequence)


@pytest.mark.parametrize(
    "raw",
    [
        header(0, 0, 0),
        header(lib.GS_FRAME_HEALTH + 1, 0, 0),
        header(255, 0, 0),
        header(lib.GS_FRAME_PING, lib.GS_BODY_MAX + 1, 0),
        header(lib.GS_FRAME_PING, 2**32 - 1, 0),
        b"GSW2" + header(lib.GS_FRAME_PING, 0, 0)[4:],
        b"HTTP" + header(lib.GS_FRAME_PING, 0, 0)[4:],
        b"GET / HTTP/1.1\r\n",
        bytes(lib.GS_HEADER_SIZE),
    ],
    ids=[
        "type 0",
        "type 15",
        "type 255",
        "size",
        "4 GiB",
        "GSW2",
        "magic",
        "http",
        "0",
    ],
)
def test_a_header_out_of_bounds_is_refused(raw: bytes) -> None:
    assert read_header(raw) is None


@pytest.mark.parametrize("at", [5, 6, 7])
def test_another_version_or_reserved_bytes_in_use_are_refused(at: int) -> None:
    raw = bytearray(header(lib.GS_FRAME_PING, 0, 0))
    raw[at] += 1
    assert read_header(bytes(raw)) is None
