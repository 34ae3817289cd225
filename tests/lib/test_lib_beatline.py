"""The reader of heartbeats takes what a user left there, and believes none of it."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from gangstart.beatline import LINE_MAX, TAIL, parse, read_beats
from gangstart.errors import GangstartError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from repo import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = jsonschema.Draft202012Validator(
    json.loads((ROOT / "docs" / "heartbeat.schema.json").read_text())
)
GOOD: dict[str, Any] = {
    "v": 1, "wall": 1e9, "mono": 5.0, "rank": 2, "pid": 40,
    "step": 7, "loss": 0.5, "phase": "train",
}  # fmt: skip
NAME = "heartbeat-2-40.jsonl"
VALUE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(max_codepoint=300), max_size=70),
    st.sampled_from(["nan", "inf", "-inf", "unread", "x\x7f", 10**400, 1e300]),
    st.just([]),
)


def line(**changed: object) -> bytes:
    return json.dumps(GOOD | changed).encode() + b"\n"


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.dictionaries(st.sampled_from([*GOOD, "more"]), VALUE, max_size=3))
def test_the_reader_takes_what_the_schema_takes(changed: dict[str, Any]) -> None:
    made = line(**changed)
    by_schema = SCHEMA.is_valid(json.loads(made)) and len(made) <= LINE_MAX
    try:
        parse(made)
        taken = True
    except ValueError:
        taken = False
    # Schemas count 1.0 as a whole number; a writer of ours never writes it.
    names = ("v", "rank", "pid", "step")
    if any(isinstance(changed.get(name), float) for name in names):
        by_schema = by_schema and taken
    assert taken == by_schema


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.binary(max_size=600))
def test_noise_is_refused_with_a_sentence(noise: bytes) -> None:
    with pytest.raises(ValueError, match="a line"):
        parse(noise)


@pytest.mark.parametrize(
    "made",
    [
        b'{"v":1}',
        b"[" * 500,
        b'{"v":1' + b" " * LINE_MAX,
        line()[:-2] + b', "loss": NaN}',
        line(loss=0).replace(b'"loss": 0', b'"loss": 1e999'),
        line(loss=0).replace(b'"loss": 0', b'"loss": 1' + b"0" * 350),
    ],
)
def test_what_no_writer_writes_is_refused(made: bytes) -> None:
    with pytest.raises(ValueError, match="a line"):
        parse(made)


def test_links_pipes_sockets_and_folders_are_named_and_not_opened(
    tmp_path: Path,
) -> None:
    user = tmp_path / "user"
    user.mkdir()
    (tmp_path / "secret").write_bytes(line())
    (user / NAME).symlink_to(tmp_path / "secret")
    os.mkfifo(user / "heartbeat-3-1.jsonl")
    (user / "heartbeat-4-1.jsonl").mkdir()
    os.chdir(user)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("heartbeat-5-1.jsonl")
        (user / "heartbeat-6-1.jsonl").write_bytes(line(rank=6, pid=1))
        (user / "other.jsonl").write_bytes(line())
        found = read_beats(user)
    os.chdir(ROOT)
    assert list(found.newest()) == [6]
    assert sorted(found.refused) == [
        NAME, "heartbeat-3-1.jsonl", "heartbeat-4-1.jsonl", "heartbeat-5-1.jsonl"
    ]  # fmt: skip


def test_a_folder_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "user").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "user")
    with pytest.raises(GangstartError, match="no heartbeats in"):
        read_beats(tmp_path / "link")


def test_only_the_tail_of_a_huge_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(line(step=1) * 2000)
    with path.open("ab") as file:
        file.truncate(1 << 40)  # a hole of a terabyte
        file.write(b"\n" + line(step=9))
    found = read_beats(tmp_path)
    assert found.newest()[2].step == 9
    assert len(found.by_process[(2, 40)]) < TAIL / 64


def test_bad_lines_are_told_and_good_ones_kept(tmp_path: Path) -> None:
    content = line(step=1) + b"garbage\n" + line(rank=3) + line(step=2) + b'{"v": 1'
    (tmp_path / NAME).write_bytes(content)
    found = read_beats(tmp_path)
    assert [beat.step for beat in found.by_process[(2, 40)]] == [1, 2]
    assert found.refused == {NAME: "a line that is no JSON"}


def test_nobody_speaks_for_another_rank(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(line(rank=9))
    found = read_beats(tmp_path)
    assert found.newest() == {}
    assert "another process" in found.refused[NAME]
