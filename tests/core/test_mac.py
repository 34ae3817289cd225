"""The seal of every frame, against Python's own HMAC-SHA256."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from core.c import ffi, image, lib

KEY = bytes(range(32))


def noise(size: int) -> bytes:
    """The same bytes at every run, without a pattern."""
    return hashlib.shake_128(b"gangstart").digest(size)


def seal(key: bytes, head: bytes, body: bytes = b"") -> bytes:
    """HMAC of head followed by body, as the core computes it."""
    mac, out = ffi.new("struct gs_mac *"), ffi.new("uint8_t[]", lib.GS_MAC_SIZE)
    lib.gs_mac_init(mac, key)
    lib.gs_mac_sum(mac, head, len(head), body, len(body), out)
    return bytes(ffi.buffer(out))


def expected(key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, hashlib.sha256).digest()


@pytest.mark.parametrize("key", [KEY, bytes(32), b"\xff" * 32], ids=["any", "0", "ff"])
def test_every_length_up_to_300_is_sealed_as_python_does(key: bytes) -> None:
    data = noise(300)
    wrong = [n for n in range(301) if seal(key, data[:n]) != expected(key, data[:n])]
    assert wrong == []


@pytest.mark.parametrize("size", [1 << 12, 65536, (1 << 20) + 55, 1 << 20])
def test_long_messages_are_sealed_as_python_does(size: int) -> None:
    data = noise(size)
    assert seal(KEY, data) == expected(KEY, data)


def test_it_does_not_matter_where_head_ends_and_body_begins() -> None:
    data = noise(200)
    whole = expected(KEY, data)
    assert [n for n in range(201) if seal(KEY, data[:n], data[n:]) != whole] == []


def test_head_and_body_may_be_absent() -> None:
    mac, out = ffi.new("struct gs_mac *"), ffi.new("uint8_t[]", lib.GS_MAC_SIZE)
    lib.gs_mac_init(mac, KEY)
    lib.gs_mac_sum(mac, ffi.NULL, 0, ffi.NULL, 0, out)
    assert bytes(ffi.buffer(out)) == expected(KEY, b"")


def test_one_key_seals_many_messages_in_any_order() -> None:
    mac, out = ffi.new("struct gs_mac *"), ffi.new("uint8_t[]", lib.GS_MAC_SIZE)
    lib.gs_mac_init(mac, KEY)
    for message in [b"a", b"b" * 64, b"", b"a"]:
        lib.gs_mac_sum(mac, message, len(message), ffi.NULL, 0, out)
        assert bytes(ffi.buffer(out)) == expected(KEY, message)


def test_the_test_vector_of_rfc_4231_holds() -> None:
    # Case 1, its 20-byte key padded with zeros as HMAC itself does.
    key = b"\x0b" * 20 + bytes(12)
    assert seal(key, b"Hi There").hex() == (
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
    )


def test_sums_are_equal_only_when_every_byte_is() -> None:
    sum_ = expected(KEY, b"x")
    assert lib.gs_mac_equal(sum_, sum_)
    for at in range(lib.GS_MAC_SIZE):
        for bit in range(8):
            other = bytearray(sum_)
            other[at] ^= 1 << bit
            assert not lib.gs_mac_equal(sum_, bytes(other)), (at, bit)


def test_wiping_leaves_nothing_of_the_key() -> None:
    mac = ffi.new("struct gs_mac *")
    lib.gs_mac_init(mac, KEY)
    assert any(image(mac))
    lib.gs_mac_wipe(mac)
    assert not any(image(mac))


def test_random_bytes_differ_and_a_refused_size_writes_nothing() -> None:
    seen = set()
    for _ in range(50):
        out = ffi.new("uint8_t[]", 16)
        assert lib.gs_random(out, 16) == 0
        seen.add(bytes(ffi.buffer(out)))
    assert len(seen) == 50
    out = ffi.new("uint8_t[]", 300)
    assert lib.gs_random(out, 257) < 0
    assert not any(ffi.buffer(out)[:])


def test_the_processors_own_instructions_agree_with_plain_c() -> None:
    data = noise(96 * 200)
    for at in range(0, len(data), 96):
        fast, plain = (
            ffi.from_buffer("uint32_t[8]", bytearray(data[at : at + 32]))
            for _ in range(2)
        )
        lib.gs_sha_block(fast, data[at + 32 : at + 96])
        lib.gs_sha_block_plain(plain, data[at + 32 : at + 96])
        assert bytes(ffi.buffer(fast)) == bytes(ffi.buffer(plain))
        assert bytes(ffi.buffer(fast)) != data[at : at + 32]
