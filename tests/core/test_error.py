"""Sentences of the core, and the typed surface they travel through."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from gangstart import core
from gangstart._core import lib
from gangstart.errors import GangstartError

STUB = Path(core.__file__).with_name("_core.pyi")


def stub_names() -> set[str]:
    tree = ast.parse(STUB.read_text())
    body = next(
        node.body
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == "_Lib"
    )
    fields = {
        node.target.id
        for node in body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    return fields | {node.name for node in body if isinstance(node, ast.FunctionDef)}


def test_the_stub_names_exactly_what_the_module_has() -> None:
    assert stub_names() == set(dir(lib))


def test_control_characters_of_a_user_never_reach_the_terminal() -> None:
    with pytest.raises(GangstartError) as caught:
        core.expand("n[1\x1b[31m]")
    assert "\x1b" not in caught.value.message
    assert caught.value.exit_code == core.EXIT_CONFIG


def test_a_very_long_input_is_quoted_cut_short() -> None:
    with pytest.raises(GangstartError, match=r"nnnn\.\.\.'") as caught:
        core.expand("n" * 100_000)
    assert len(caught.value.message) < lib.GS_ERROR_SIZE


def test_a_nul_in_a_text_is_refused_not_cut() -> None:
    with pytest.raises(GangstartError, match="NUL"):
        core.expand("n1\0n2")


def test_bytes_that_are_no_utf8_survive_a_round_trip() -> None:
    odd = b"/tmp/\xff".decode(errors="surrogateescape")
    assert core.parse_spec(f"report={odd}").report == odd
