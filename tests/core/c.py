"""The C core as the tests see it: ffi, lib, and the few conversions they share."""

from __future__ import annotations

from importlib import import_module
from typing import Any, TypeAlias

_core = import_module("gangstart._core")
ffi: Any = _core.ffi
lib: Any = _core.lib

#: A C object; its fields are whatever the headers say.
Struct: TypeAlias = Any

NOBODY: int = lib.GS_NO_RANK


def text(value: Struct) -> str:
    """Python text of a C string; bytes that are not UTF-8 survive."""
    raw: bytes = ffi.string(value)
    return raw.decode(errors="surrogateescape")


def new(ctype: str, **fields: object) -> Struct:
    """Return a zeroed struct with the given fields; strings may be str."""
    made = ffi.new(f"struct {ctype} *")
    for name, value in fields.items():
        raw = (
            value.encode(errors="surrogateescape") if isinstance(value, str) else value
        )
        setattr(made, name, raw)
    return made


def image(struct: Struct) -> bytes:
    """Every byte of a struct, to see whether a call left it alone."""
    return bytes(ffi.buffer(struct))


def taken(pointer: Struct) -> str:
    """Text that the core allocated, freed here; NULL is a failure."""
    assert pointer != ffi.NULL, "the core ran out of memory"
    try:
        return text(pointer)
    finally:
        lib.gs_text_free(pointer)
