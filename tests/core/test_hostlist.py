"""Node lists: Slurm's own order and nothing that is not in the list."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from gangstart import core
from gangstart.errors import GangstartError
from seeded import seeded

if TYPE_CHECKING:
    import random
    from pathlib import Path

GOOD = [
    ("n1", ["n1"]),
    ("n[1-3]", ["n1", "n2", "n3"]),
    ("n[001-2]", ["n001", "n002"]),
    ("n[1-02]", ["n1", "n2"]),
    ("n[9-11]", ["n9", "n10", "n11"]),
    ("n[098-101]", ["n098", "n099", "n100", "n101"]),
    ("[1-2]", ["1", "2"]),
    (",n1,,n2,", ["n1", "n2"]),
    (" n1\tn2\nn3 , n4 ", ["n1", "n2", "n3", "n4"]),
    ("n[1-2][3-4]", ["n13", "n14", "n23", "n24"]),
    ("n[1,1],n1", ["n1", "n1", "n1"]),
    ("n[0000000000000000000001]", ["n0000000000000000000001"]),
    ("a.b-c_d", ["a.b-c_d"]),
    ("r[1-2]-ib.example.org", ["r1-ib.example.org", "r2-ib.example.org"]),
    ("r[1-2]-[1,3]x", ["r1-1x", "r1-3x", "r2-1x", "r2-3x"]),
]

BAD = [
    ("", "empty"),
    (" , ", "empty"),
    ("n[1", "not closed"),
    ("n[", "not closed"),
    ("n1]", "']'"),
    ("n[1]]", "']'"),
    ("n[1[2]]", r"'\[2'|'\['|not a number"),
    ("n[]", "empty"),
    ("n[1,]", "not a number"),
    ("n[,1]", "not a number"),
    ("n[1-]", "no proper end"),
    ("n[1-2-3]", "no proper end"),
    ("n[-1]", "not a number"),
    ("n[+1]", "not a number"),
    ("n[0x1]", "not a number"),
    ("n[1.5]", "not a number"),
    ("n[1 - 2]", "blank"),
    ("n[2-1]", "backwards"),
    ("n[1-65537]", "65536"),
    ("n[1-60000],m[1-60000],o[1-60000]", "131072"),
    ("a[1-60000]b[1-60000]", "131072"),
    ("a[1-400]b[1-400]", "131072"),
    ("n[18446744073709551616]", "too large"),
    ("n[1-18446744073709551616]", "no proper end"),
    ("n" * 256, "255"),
    ("[1]" * 16 + "x", "bracket groups"),
    ("(null)", "'\\('"),
    ("n{1-2}", "'{'"),
    ("n1;rm", "';'"),
    ("gn01\u00e9", "cannot be part"),
]


@pytest.mark.parametrize(("text", "hosts"), GOOD)
def test_a_list_expands_as_slurm_does(text: str, hosts: list[str]) -> None:
    assert core.expand(text) == hosts


@pytest.mark.parametrize(("text", "why"), BAD, ids=[repr(b[0][:24]) for b in BAD])
def test_a_bad_list_is_refused_with_its_text_and_the_reason(
    text: str, why: str
) -> None:
    with pytest.raises(GangstartError) as caught:
        core.expand(text)
    assert re.search(why, caught.value.message)
    if text.isascii():
        assert text.strip()[:20].replace("\n", "?") in caught.value.message


def test_the_largest_list_is_expanded() -> None:
    assert len(core.expand("a[1-65536],b[1-65536]")) == 131072
    with pytest.raises(GangstartError):
        core.expand("a[1-65536],b[1-65536],c")


@pytest.fixture
def scontrol(tmp_path: Path) -> list[str]:
    """Slurm's own expander; it wants a configuration but no cluster."""
    program = shutil.which("scontrol")
    if program is None:
        pytest.skip("scontrol is not installed")
    conf = tmp_path / "slurm.conf"
    conf.write_text("ClusterName=test\nSlurmctldHost=localhost\n")
    return ["env", f"SLURM_CONF={conf}", program, "show"]


def slurm_says(scontrol: list[str], what: str, text: str) -> list[str]:
    done = subprocess.run(
        [*scontrol, what, text],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    return done.stdout.split()


def random_entry(rng: random.Random) -> str:
    """A name with up to three bracket groups and no text behind the last."""
    groups = rng.randint(0, 3)
    entry = rng.choice(["n", "gpu-", "c427-0", "rack_", "ML.x"])
    for _ in range(groups):
        ranges = []
        for _ in range(rng.randint(1, 3)):
            lo = rng.randint(0, 120)
            width = rng.choice([1, 1, 2, 3, 4])
            hi = rng.choice(["", f"-{lo + rng.randint(0, 4)}"])
            ranges.append(f"{lo:0{width}d}{hi}")
        entry += f"[{','.join(ranges)}]{rng.choice(['', '-', 'b', '_s'])}"
    return re.sub(r"\][^\]]+$", "]", entry) + ("7" if groups == 0 else "")


def test_scontrol_agrees_about_every_list_it_accepts(scontrol: list[str]) -> None:
    rng = seeded(7)
    for _ in range(60):
        text = ",".join(random_entry(rng) for _ in range(rng.randint(1, 4)))
        assert core.expand(text) == slurm_says(scontrol, "hostnames", text), text


def natural(name: str) -> tuple[object, ...]:
    """Sort key of fold: prefix with its numbers by value, then the number behind it."""
    match = re.fullmatch(r"(.*?)(\d{0,18})", name, re.DOTALL)
    assert match is not None
    prefix, number = match[1], match[2]
    parts = [
        (0, int(p), "") if p.isdigit() else (1, 0, p)
        for p in re.findall(r"\d+|\D", prefix)
    ]
    return parts, bool(number), int(number or 0), len(number)


def random_names(rng: random.Random) -> list[str]:
    forms = ["n{}", "n{:03d}", "gpu-{:02d}", "rack2-{}", "rack10-{}", "x{}-ib", "login"]
    return [
        rng.choice(forms).format(rng.randint(0, 130)) for _ in range(rng.randint(1, 90))
    ]


def test_expanding_what_was_folded_gives_the_sorted_names_once() -> None:
    rng = seeded(11)
    for _ in range(200):
        names = random_names(rng)
        folded = core.fold(names)
        assert core.expand(folded) == sorted(set(names), key=natural), folded


def test_scontrol_accepts_what_was_folded(scontrol: list[str]) -> None:
    rng = seeded(13)
    for _ in range(20):
        names = random_names(rng)
        again = slurm_says(scontrol, "hostnames", core.fold(names))
        assert again == sorted(set(names), key=natural)


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ([], ""),
        (["n1"], "n1"),
        (["n004", "n001", "n003", "n002", "n007", "n007"], "n[001-004,007]"),
        (["n9", "n10", "n11"], "n[9-11]"),
        (["n09", "n10", "n8"], "n[8,09-10]"),
        (["n2", "n10", "n1"], "n[1-2,10]"),
        (["login", "b1", "a2", "a1"], "a[1-2],b1,login"),
        (["n1-ib", "n2-ib"], "n1-ib,n2-ib"),
        (["rack10-1", "rack2-1"], "rack2-1,rack10-1"),
    ],
)
def test_names_fold_into_the_list_a_person_would_write(
    names: list[str], folded: str
) -> None:
    assert core.fold(names) == folded


@pytest.mark.parametrize(
    ("ranks", "folded"),
    [
        ([], ""),
        ([5], "5"),
        ([9, 0, 1, 2, 3, 4, 5, 6, 7, 7], "0-7,9"),
        ([1, 3, 5], "1,3,5"),
        ([4294967295, 4294967294, 0], "0,4294967294-4294967295"),
    ],
)
def test_ranks_fold(ranks: list[int], folded: str) -> None:
    assert core.fold_ranks(ranks) == folded


def test_folding_a_whole_cluster_takes_no_noticeable_time() -> None:
    names = [f"n{i:05d}" for i in range(16384)]
    seeded(3).shuffle(names)
    ranks = list(range(0, 262144, 2))
    seeded(3).shuffle(ranks)
    began = time.process_time()
    assert core.fold(names) == "n[00000-16383]"
    assert core.fold_ranks(ranks).count(",") == 131071
    # Generous: quadratic code needs minutes here, a loaded machine tenths of a second.
    assert time.process_time() - began < 2
