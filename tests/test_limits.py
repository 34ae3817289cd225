"""Size limits: a file is one idea, a function fits a screen.

ruff counts the statements of Python functions; this counts what ruff cannot see.
"""

from __future__ import annotations

import re

from repo import kept, shown, text

FILE_LINES = 400
FUNCTION_LINES = 60
COUNTED = {".py", ".c", ".h", ".sh"}
# clang-format (Linux braces) puts the braces of functions, and only theirs, alone
# in column 0; the line before the opening one ends the signature.
FUNCTION = re.compile(r"^([^\n]*\))\n\{\n(.*?)^\}$", re.MULTILINE | re.DOTALL)


def functions(source: str) -> list[tuple[str, int]]:
    """Each C function as (end of its signature, lines from brace to brace)."""
    return [(m[1].strip(), m[2].count("\n") + 2) for m in FUNCTION.finditer(source)]


def test_no_file_is_longer_than_400_lines() -> None:
    counted = [path for path in kept() if path.suffix in COUNTED]
    lengths = {shown(path): len(text(path).splitlines()) for path in counted}

    assert lengths, "no source files found"
    assert {n: lines for n, lines in lengths.items() if lines > FILE_LINES} == {}


def test_no_c_function_is_longer_than_60_lines() -> None:
    found = {
        f"{shown(path)}: {name}": lines
        for path in kept()
        if path.suffix == ".c"
        for name, lines in functions(text(path))
    }

    assert found, "no C functions found"
    assert {n: lines for n, lines in found.items() if lines > FUNCTION_LINES} == {}


def test_the_counting_itself_finds_functions_and_their_length() -> None:
    source = (
        "static const int a[] = {\n    1,\n};\n"
        "int f(int a,\n      int b)\n{\n    if (a) {\n        b++;\n    }\n}\n"
        "struct s {\n    int x;\n};\n"
        "void g(void)\n{\n}\n"
    )

    assert functions(source) == [("int b)", 5), ("void g(void)", 2)]
