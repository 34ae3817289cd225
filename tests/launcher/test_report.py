"""``gangstart report``: finds the report that is meant and shows it.

The files are written by the core itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from core.c import lib
from core.gangs import SECOND, T0, Gang, Story
from reportsite import Site, made_site, named, put, refused, started

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return made_site(tmp_path)


def test_a_refusal_is_shown_with_who_came_when(site: Site) -> None:
    story = refused()
    path = site.keep_archived("7877.0", story.raw_report())
    text = site.shown("7877.0")
    assert text == (
        story.refusal() + "\n"
        "node  ranks  phase            connected  last task  detail\n"
        "n1    0-1    ready               0.20 s     0.40 s\n"
        "n2    2-3    partly started      0.30 s     0.50 s  rank 3 not started\n"
        "n3    4-5    never connected          -          -\n"
        "n4    6-7    ready              12.00 s    30.00 s\n"
        "\n"
        "arrivals from 0 to 60.20 s (│ connected, ━ first to last task, ? missing)\n"
        "n1  ━·················································\n"
        "n2  ━?????????????????????????????????????????????????\n"
        "n3  ??????????????????????????????????????????????????\n"
        "n4  ·········│━━━━━━━━━━━━━━━·························\n"
        "\n"
        "step       7877.0 on cluster test, user 1000\n"
        "decided    2023-11-14 22:13:20+00:00, srun on login\n"
        "master     rank 0's node made no offer\n"
        f"asked for  {story.report()['spec']}\n"
        "versions   plugin 0.1.0, Slurm 22.05.8, protocol 1, report 1\n"
        f"report     {path}\n"
    )


def test_the_master_is_shown_with_why_and_what_was_tried(site: Site) -> None:
    story = started()
    story.gang.c.tasks[1].visible = 1
    site.keep_archived("7877.0", story.raw_report())
    text = site.shown("7877.0")
    for line in (
        "master     10.1.0.1:29500 on n1\n",
        "chosen     ib1: carries Slurm's own traffic to srun\n",
        "not used   10.0.0.1 (ib0): not every node reached it\n",
        "kept       MASTER_PORT, which you had set\n",
        "warning    a task sees fewer GPUs than its LOCAL_RANK needs\n",
    ):
        assert line in text
    assert text.startswith("gang-start: 6/6 tasks on 3/3 nodes in 2.0 s ")


def test_how_tasks_ended_is_shown_once(site: Site) -> None:
    gang = Gang()
    gang.everybody()
    gang.end(3, lib.GS_FAIL_SIGNAL, 11, T0 + 5)
    gang.end(2, lib.GS_FAIL_EXIT, 1, T0 + 6)
    site.keep_archived("7877.0", Story(gang).raw_report())
    assert (
        "  rank 3: signal 11 (Segmentation fault); rank 2: exit code 1\n"
        in site.shown("7877.0")
    )


def test_a_cancelled_step_gets_a_sentence_too(site: Site) -> None:
    gang = Gang()
    gang.hello(0)
    lib.gs_gang_end(gang.c, True, T0 + 3 * SECOND)  # noqa: FBT003 - a C argument
    site.keep_archived("7877.0", Story(gang).raw_report())
    assert site.shown("7877.0").startswith(
        "gang-start: step 7877.0 was cancelled after 3.00 s: 0 of 4 tasks had arrived\n"
    )


def test_of_many_nodes_the_slowest_and_those_not_ready_are_shown(site: Site) -> None:
    gang = Gang(nodes=100)
    for node in set(range(100)) - {7, 77}:
        gang.hello(node)
        for rank in gang.ranks(node):
            gang.arrive(rank, T0 + node * 1000)
    gang.tick(T0 + 60 * SECOND)
    site.keep_archived("7877.0", Story(gang).raw_report())
    text = site.shown("7877.0")
    table = text.split("\n\n")[1].splitlines()[1:]
    assert [row.split()[0] for row in table[:2]] == ["n8", "n78"]
    assert [row.split()[0] for row in table[2:22]] == [
        f"n{i}" for i in range(100, 80, -1)
    ]
    assert "not shown: 78 ready before these (--all shows every node)\n" in text
    everything = site.shown("7877.0", "--all")
    assert "not shown" not in everything
    assert len(everything.split("\n\n")[1].splitlines()) == 101


def test_json_is_the_stored_file_to_the_byte(site: Site) -> None:
    stored = " " + refused().raw_report() + "\n\n"
    site.keep_archived("7877.0", stored)
    assert site.shown("7877.0", "--json") == stored


def test_a_file_may_be_given_by_name(site: Site) -> None:
    path = put(site.root / "x.json", refused().raw_report())
    assert "refused after 60 s" in site.shown("--file", str(path))


HOSTILE = "n1\x1b[31m\x07[bold]\u202e]\r\nx"


def test_text_of_a_report_cannot_drive_the_terminal_or_the_markup(site: Site) -> None:
    report = refused(cluster="x").report()
    report["nodes"][0]["name"] = HOSTILE
    report["nodes"][1]["detail"] = HOSTILE + "\ud800"
    report["step"]["cluster"] = HOSTILE
    report["message"].append(HOSTILE)
    path = put(site.root / "x.json", json.dumps(report))
    text = site.shown("--file", str(path))
    assert text.count("n1?[31m?[bold]?]??x") == 5
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(text)


def test_an_output_that_knows_no_unicode_gets_plain_marks(site: Site) -> None:
    path = put(site.root / "x.json", refused().raw_report())
    done = site.run("--file", str(path), PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "n4  .........|===============...\n"[:28] in done.stdout
    assert done.stdout.isascii()


def test_the_archive_comes_before_the_spool_before_the_own_copy(site: Site) -> None:
    own = site.keep_own("test", "5.0", named("5.0"))
    assert f"report     {own}\n" in site.shown("5.0")
    spooled = site.keep_spooled("5.0", named("5.0"))
    assert f"report     {spooled}\n" in site.shown("5.0")
    kept = site.keep_archived("5.0", named("5.0"))
    text = site.shown("5.0")
    assert f"report     {kept}\n" in text
    assert "note" not in text


def test_options_name_other_places(site: Site) -> None:
    kept = put(site.root / "a" / "5.0" / "start.json", named("5.0"))
    assert f"report     {kept}\n" in site.shown("5", "--archive", str(site.root / "a"))
    spooled = put(site.root / "s" / "6.0" / "sys" / "start.json", named("6.0"))
    assert f"report     {spooled}\n" in site.shown("6", "--spool", str(site.root / "s"))


def test_without_a_complete_report_a_nodes_own_is_shown_and_said_to_be_one(
    site: Site,
) -> None:
    story = started()
    part = put(
        site.archive / "7877.0" / "n2" / "sys" / "start.json", story.raw_report(1)
    )
    text = site.shown("7877.0")
    assert f"report     {part}\n" in text
    assert "note       one node's own copy: the other nodes are not in it\n" in text
    assert "\nn2    2-3" in text


def test_without_a_step_it_is_the_jobs_newest(site: Site) -> None:
    for step, when in (("5.0", 100), ("5.1", 300), ("5.2", 200), ("50.9", 900)):
        site.keep_archived(step, named(step, wall_s=when))
    assert "step       5.1 on" in site.shown("5")


def test_without_a_job_it_is_the_newest_report_of_all(site: Site) -> None:
    old = site.keep_archived("9.0", named("9.0"))
    new = site.keep_own("test", "5.0", named("5.0"))
    os.utime(old, (1000, 1000))
    os.utime(new, (2000, 2000))
    assert "step       5.0 on" in site.shown()


def test_one_job_number_on_several_clusters_is_said(site: Site) -> None:
    old = site.keep_own("alpha", "5.0", named("5.0", 100, "alpha"))
    site.keep_own("beta", "5.0", named("5.0", 200, "beta"))
    text = site.shown("5.0")
    assert "step       5.0 on cluster beta, user 1000\n" in text
    assert (
        "note       5.0 was also run elsewhere; this is the newest "
        "(--cluster NAME chooses). "
        f"Others: {old}\n" in text
    )


def test_nothing_found_says_where_it_looked_and_how_to_name_the_file(
    site: Site,
) -> None:
    assert site.refused("5.0") == (
        f"there is no start report of 5.0: looked at the archive {site.archive}, the "
        f"spool {site.spool} and your own copies in {site.state}/gangstart; name the "
        "file with --file, or the archive with --archive DIR"
    )
    assert "no start report of job 5:" in site.refused("5")
    assert "no start report of any step:" in site.refused()


def test_without_slurm_and_home_it_still_is_one_sentence(site: Site) -> None:
    done = site.run("5.0", SLURM_CONF="/none/slurm.conf", XDG_STATE_HOME="", HOME="")
    assert done.returncode == 1
    assert "looked at no archive (none is configured here) and the spool" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_own_copies_default_to_a_folder_below_home(site: Site) -> None:
    path = site.root / ".local" / "state" / "gangstart" / "test" / "5.0.json"
    put(path, named("5.0"))
    assert f"report     {path}\n" in site.run("5.0", XDG_STATE_HOME="relative").stdout


def test_files_that_only_look_like_reports_of_a_step_are_passed_over(
    site: Site,
) -> None:
    put(site.state / "gangstart" / "test" / "5.0.json.tmp", "x")
    put(site.state / "gangstart" / "test" / ".5.0.json.77", "x")
    put(site.state / "gangstart" / "stray", "x")
    (site.archive / "5.0").mkdir(parents=True)
    os.mkfifo(site.archive / "5.0" / "start.json")
    assert "there is no start report of 5.0" in site.refused("5.0")


def test_rich_is_imported_only_to_show() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            (
                "import sys, gangstart.report, gangstart.report_find; "
                "sys.exit('rich' in sys.modules)"
            ),
        ],
        check=False,
        timeout=30,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0


@pytest.mark.parametrize("step", ["5.7", "0", "0.0"])
def test_a_step_that_is_not_there_is_one_sentence(site: Site, step: str) -> None:
    put(site.archive / "5.0" / "start.json", named("5.0"))
    assert f"there is no start report of {'job ' if step == '0' else ''}{step}:" in (
        site.refused(step)
    )


def test_an_archive_that_was_named_is_the_only_place(site: Site) -> None:
    put(site.archive / "5.0" / "start.json", named("5.0"))
    other = site.root / "other"
    other.mkdir()
    assert "there is no start report" in site.refused("5.0", "--archive", str(other))
    missing = site.root / "missing"
    assert site.refused("5.0", "--archive", str(missing), code=2) == (
        f"--archive {missing} is no folder"
    )


def test_a_cluster_can_be_chosen(site: Site) -> None:
    put(site.archive / "5.0" / "start.json", named("5.0"))
    assert "there is no start report" in site.refused("5.0", "--cluster", "other")
    assert "step       5.0 on" in site.shown("5.0", "--cluster", "test")
