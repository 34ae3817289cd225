"""Brings launcher/gangstart/_core.pyi up to date with the built module.

Lines of names that are still there stay as they are; new constants are ``int``, new
functions take and return anything until somebody types them. Run after a header
changed: ``python spank/binding/stub.py``.
"""

from __future__ import annotations

import re
from pathlib import Path

from gangstart._core import ffi, lib

STUB = Path(__file__).resolve().parents[2] / "launcher/gangstart/_core.pyi"
NAME = re.compile(r"    (?:def )?(\w+)[(:]")


def line(name: str) -> str:
    """The stub of a name that has none yet."""
    if isinstance(getattr(lib, name), int):
        return f"    {name}: int\n"
    returns = str(ffi.typeof(getattr(lib, name)).result)
    simple = {"void": "None", "bool": "bool"}
    plain = "int" if "int" in returns and "*" not in returns else "CData"
    kind = next((v for k, v in simple.items() if f"'{k}'" in returns), plain)
    return f"    def {name}(self, *args: object) -> {kind}: ...\n"


def updated(stub: str) -> str:
    """The stub with exactly the names of the module in ``class _Lib``."""
    before, _, rest = stub.partition("class _Lib:\n")
    body, _, after = rest.partition("\nffi: _FFI")
    kept: dict[str, str] = {}
    for chunk in re.split(r"\n(?=    (?:def )?\w)", body):
        match = NAME.match(chunk)
        if match:
            kept[match[1]] = chunk.strip("\n") + "\n"
    names = sorted(dir(lib), key=lambda n: (n.startswith("gs_"), n))
    lines = "".join(kept.get(name, line(name)) for name in names)
    return f"{before}class _Lib:\n{lines}\nffi: _FFI{after}"


if __name__ == "__main__":
    STUB.write_text(updated(STUB.read_text()))
