"""Addresses that may become MASTER_ADDR, and the seal of messages: iface.h, mac.h."""

from __future__ import annotations

from gangstart._core import ffi, lib
from gangstart.core import Keeper, c_text, check, text
from gangstart.record import Record

KEY_SIZE = lib.GS_KEY_SIZE
NONCE_SIZE = lib.GS_NONCE_SIZE
MAC_SIZE = lib.GS_MAC_SIZE


class Iface(Record):
    """One address of one network interface of this host."""

    name: str
    address: str  # numeric
    up: bool
    loopback: bool


class Candidate(Record):
    """An address to try, and why it stands at its place of the order."""

    address: str
    interface: str
    why: str


def ifaces() -> list[Iface]:
    """Read this host's addresses, in the kernel's order; ``GangstartError``."""
    made = ffi.new("struct gs_iface[]", lib.GS_IFACE_MAX)
    error = ffi.new("struct gs_error *")
    count = lib.gs_iface_list(made, error)
    check(count, error)
    return [
        Iface(text(one.name), text(one.address), bool(one.up), bool(one.loopback))
        for one in made[0:count]
    ]


def rank(found: list[Iface], wanted: str = "", toward: str = "") -> list[Candidate]:
    """Order the usable addresses; see gs_iface_rank() of iface.h.

    Raises GangstartError, with what there is, when none can be used.
    """
    keep = Keeper()
    rows = keep.new("struct gs_iface[]", len(found))
    for row, one in zip(rows, found, strict=True):
        row.name, row.address = c_text(one.name), c_text(one.address)
        row.up, row.loopback = one.up, one.loopback
    made = keep.new("struct gs_candidate[]", lib.GS_CANDIDATE_MAX)
    error = keep.new("struct gs_error *")
    count = lib.gs_iface_rank(
        rows, len(found), c_text(wanted), c_text(toward), made, error
    )
    check(count, error)
    return [
        Candidate(text(one.address), text(one.interface), text(one.why))
        for one in made[0:count]
    ]


def random_bytes(size: int) -> bytes:
    """Bytes from the kernel's random source."""
    made = ffi.new("uint8_t[]", size)
    if lib.gs_random(made, size) < 0:
        raise OSError("the kernel gives no random numbers")
    return bytes(ffi.buffer(made))


def seal(key: bytes, head: bytes, body: bytes = b"") -> bytes:
    """HMAC-SHA256 over head and body, MAC_SIZE bytes; key has KEY_SIZE bytes."""
    mac = ffi.new("struct gs_mac *")
    made = ffi.new("uint8_t[]", MAC_SIZE)
    lib.gs_mac_init(mac, key)
    lib.gs_mac_sum(mac, head, len(head), body, len(body), made)
    lib.gs_mac_wipe(mac)
    return bytes(ffi.buffer(made))


def same(a: bytes, b: bytes) -> bool:
    """Whether two seals are equal, in constant time."""
    return len(a) == len(b) == MAC_SIZE and bool(lib.gs_mac_equal(a, b))


def shared_gpu(tasks: dict[int, list[str]], ranks: list[int]) -> str:
    """Say which two tasks of a node would use one GPU; "" if none would.

    tasks: UUIDs that each local rank sees, in its order; ranks: the global ones.
    """
    keep = Keeper()
    rows = keep.new("struct gs_taskgpus[]", len(tasks))
    for row, (local, uuids) in zip(rows, sorted(tasks.items()), strict=True):
        row.local_rank = local
        row.uuid, row.count = keep.strings(uuids), len(uuids)
    said = keep.new("char[]", lib.GS_TEXT_SIZE)
    lib.gs_gpubind_shared(rows, len(tasks), ranks, said, lib.GS_TEXT_SIZE)
    return text(said)
