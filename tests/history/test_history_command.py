"""``gangstart history`` as it is typed: what it shows, JSON, exit codes, mistakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from history.historysite import (
    T0,
    check,
    finding,
    health,
    keep,
    keep_checks,
    places,
    put,
    report,
)
from repo import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from gangstart.report_find import Places

SCHEMA = json.loads((ROOT / "docs" / "history.schema.json").read_text())
CHECK = jsonschema.Draft202012Validator(SCHEMA)
FOUR: dict[str, float | None] = {"n1": 1.0, "n2": 1.1, "n3": 0.9, "n4": 1.0}
ALL = ("--since", "2026-01-01")


class Site:
    """A machine with an archive."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.places: Places = places(root)

    def run(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run the real command; it ends in this code."""
        done = subprocess.run(
            [sys.executable, "-m", "gangstart", "history", *words],
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
            env={
                "PATH": os.defpath,
                "HOME": str(self.root),
                "XDG_STATE_HOME": str(self.root / "own"),
                "SLURM_CONF": str(self.root / "slurm.conf"),
                "TZ": "UTC",
                "PYTHONPATH": os.pathsep.join(sys.path),
                "PYTHONIOENCODING": "utf-8",
            },
        )
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done

    def shown(self, *words: str, code: int = 0) -> str:
        """What it prints about the archive."""
        where = (
            "--archive",
            f"{self.places.archive}",
            "--spool",
            f"{self.places.spool}",
        )
        done = self.run(*ALL, *where, *words, code=code)
        assert done.stderr == ""
        return done.stdout


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def fill(site: Site) -> None:
    """One late node, one with refused starts, one with a fault, one that has been."""
    for job in range(1, 13):
        keep(site.places, report(f"{job}.0", FOUR | {"n4": 6.0}, user=1000 + job % 3))
    for job in range(13, 25):
        keep(site.places, report(f"{job}.0", FOUR | {"n2": None}))
    fault = health("fail", finding("xid", value="79"), finding("dashboard", "warn"))
    keep(site.places, report("25.0", FOUR, health={"n1": fault}))


def test_the_worst_come_first_with_evidence_and_the_next_command(site: Site) -> None:
    fill(site)
    text = site.shown(code=1)
    lines = text.splitlines()
    assert lines[0] == "3 of 4 nodes stand out: n[1-2,4]"
    assert [line.split()[:3] for line in lines[2:6]] == [
        ["n2", "fail", "25"],
        ["n4", "fail", "25"],
        ["n1", "fail", "25"],
        ["n3", "ok", "25"],
    ]
    assert "12/13!" in lines[3]
    assert "12/25!" in lines[2]
    assert "xid 79 fail x1, (dashboard warn x1)" in lines[4]
    assert (
        "n4: late in 12 of 13 jobs, by 5.0 s in the median (late is 1 s after the "
        "others' median; chance alone would give 3.0, p = " in text
    )
    assert "; not in its newest job\n" in text
    assert "n2: cause of a refused start in 12 of 25 jobs: not ready in time 12" in text
    assert (
        "  next: gangstart report 24.0 --all · scontrol show node n2 · sbatch "
        "--exclude=n2 …\n" in text
    )
    assert "n1: fail: xid 79 in 1 of 1 jobs that looked, last 2026-09-21" in text
    assert "  next: gangstart check --explain xid · scontrol show node n1 · " in text
    assert (
        "looked at 25 jobs of cluster c, 2026-09-21 14:23 to 2026-09-21 18:23" in text
    )
    assert "judged   8 tests (Holm): at most 1% chance that any node is accused" in text
    assert "\x1b" not in text, "plain in a pipe"


def test_rows_are_limited_but_never_who_stands_out(site: Site) -> None:
    fill(site)
    text = site.shown("--limit", "1", code=1)
    assert "not shown: 1 nodes (--limit 0 shows all)\n" in text
    assert [line.split()[0] for line in text.splitlines()[2:5]] == ["n2", "n4", "n1"]
    assert "not shown" not in site.shown("--limit", "0", code=1)


def test_only_some_nodes_are_shown_and_the_others_weighed(site: Site) -> None:
    fill(site)
    text = site.shown("--nodes", "n[3,9]")
    assert text.startswith(
        "none of 4 nodes stands out among the 1 that were asked for\n"
    )
    assert "not seen n9: in no start and no check\n" in text
    assert "judged   8 tests" in text
    assert "no start and no check of a node was found" in site.shown(
        "--nodes", "n9", code=3
    )


def test_nothing_to_judge_is_not_a_good_node(site: Site) -> None:
    text = site.shown(code=3)
    assert text.startswith("no start and no check of a node was found\n")
    assert f"in the archive {site.places.archive} and the spool" in text


def test_a_node_in_few_jobs_is_unknown_not_ok(site: Site) -> None:
    for job in range(1, 5):
        keep(site.places, report(f"{job}.0", FOUR | {"n4": 6.0}))
    text = site.shown()
    assert text.splitlines()[2].split()[:6] == [
        "n4",
        "unknown",
        "4",
        "4/4?",
        "5.0",
        "s",
    ]
    assert "marks: ! more than chance, ~ mended, ? in fewer than 5 jobs" in text


def told(site: Site, *words: str, code: int) -> dict[str, Any]:
    """Return the JSON, which is as the schema says."""
    made: dict[str, Any] = json.loads(site.shown("--json", *words, code=code))
    CHECK.validate(made)
    return made


def test_json_is_what_the_schema_says(site: Site) -> None:
    told(site, code=3)
    fill(site)
    keep_checks(site.places, 26, "n5", [check("node", T0, finding("leftover_shm"))])
    assert site.places.archive is not None
    put(site.places.archive / "27.0" / "start.json", "broken")
    made = told(site, code=1)
    assert [node["name"] for node in made["nodes"]] == ["n2", "n4", "n1", "n5", "n3"]
    assert made["nodes"][1]["late"]["standing"] == "worse"
    assert made["nodes"][0]["refused"]["reasons"] == {"timeout": 12}
    assert made["nodes"][2]["findings"][0]["check"] == "xid 79"
    assert made["nodes"][3]["verdict"] == "unknown"
    assert (made["reading"]["broken"], made["reading"]["starts"]) == (1, 25)
    some = told(site, "--nodes", "n[4,9]", "--until", "2026-09-21", code=3)
    assert some["never_seen"] == ["n4", "n9"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--nodes", "n[1-"), "--nodes: node list 'n[1-': a bracket is not closed"),
        (("--nodes", ""), "--nodes: node list '': it is empty"),
        (("--nodes", "n1;reboot"), "';' cannot be part of a name here"),
        (("--since", "monday"), "--since 'monday' is no time: use 7d, "),
        (("--until", "2026-02-30"), "--until '2026-02-30' is no time that there is"),
        (("--since", "1d", "--until", "2d"), "--until is not after --since"),
        (("--limit", "-1"), "--limit -1 is below 0"),
        (("--limit", "x"), "argument --limit: invalid int value: 'x'"),
        (("--late", "nan"), "--late nan is not between 0.001 and 86400 seconds"),
        (("--late", "0"), "--late 0 is not between"),
        (("--deadline", "1e9"), "--deadline 1e+09 is not between"),
        (("--archive", "/no/such"), "--archive /no/such is no folder"),
        (("--nodse", "n1"), "unrecognized arguments: --nodse"),
    ],
)
def test_a_bad_option_is_one_sentence(
    site: Site, words: tuple[str, ...], said: str
) -> None:
    done = site.run(*words, code=2)
    assert done.stdout == ""
    assert done.stderr.startswith("gangstart: history: ")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


def test_texts_of_drivers_and_users_cannot_drive_the_terminal(site: Site) -> None:
    sick = finding("ecc_unc") | {"reason": "\x1b]0;x\x07[red]\u202e" + "long " * 100}
    keep(site.places, report("1.0", FOUR, health={"n1": health("fail", sick)}))
    text = site.shown(code=1)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "?]0;x?[red]?long long" in text
    assert all(len(line) < 500 for line in text.splitlines() if "long" in line)
