"""Feeds the C core's own headers to cffi: ``spank/core`` -> ``gangstart._core``.

The headers are the declarations, so C and Python cannot disagree. A header named
``*_private.h`` stays in C (varargs, inline code, system types).
"""

from __future__ import annotations

import re
from pathlib import Path

from cffi import FFI

CORE = Path(__file__).resolve().parents[1] / "core"
KEPT = re.compile(r"#define\s+GS_\w+\s+(0[xX][0-9a-fA-F]+|\d+)\s*(/\*.*)?$")
# Headers that use types of other headers come after them.
ORDER = tuple((CORE / "ORDER").read_text().split())


def headers() -> list[Path]:
    """Public headers: those listed in ``spank/core/ORDER``, all of them.

    Raises ``SystemExit`` if a public header is missing from ORDER or unknown.
    """
    found = {p.name for p in CORE.glob("*.h") if not p.name.endswith("_private.h")}
    if found != set(ORDER):
        odd = ", ".join(sorted(found ^ set(ORDER)))
        raise SystemExit(f"spank/core/ORDER and the headers there differ: {odd}")
    return [CORE / name for name in ORDER]


def declarations(header: str) -> str:
    """The part of a header that cffi's cdef() understands."""
    lines = header.splitlines()
    return "\n".join(li for li in lines if not li.startswith("#") or KEPT.match(li))


def relative(path: Path) -> str:
    """Path from the repository root, as setuptools wants it."""
    return str(path.relative_to(CORE.parents[1]))


ffibuilder = FFI()
for _header in headers():
    ffibuilder.cdef(declarations(_header.read_text()))
ffibuilder.set_source(
    "gangstart._core",
    "\n".join(f'#include "{h.name}"' for h in headers()),
    sources=[relative(p) for p in sorted(CORE.glob("*.c"))],
    include_dirs=[relative(CORE)],
    extra_compile_args=["-std=gnu11", "-O2", "-fno-strict-aliasing"],
    define_macros=[("_GNU_SOURCE", None)],
    undef_macros=["NDEBUG"],
    py_limited_api=True,
)
