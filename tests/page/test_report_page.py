"""gangstart report --html: who came when, of four nodes and of five hundred."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from core.c import lib
from core.gangs import SECOND, T0, Gang, Story
from gangstart.cli import main
from gangstart.page.reportpage import report_page
from gangstart.report import parse
from hypothesis import given, settings
from hypothesis import strategies as st
from page import browser
from repo import ROOT
from reportsite import put, refused, started

if TYPE_CHECKING:
    from selenium import webdriver

HERE = Path("start.json")
SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text())


def page_of(folder: Path, report: dict[str, Any], *more: str) -> Path:
    """The page that the command makes of a report."""
    page = folder / "page.html"
    stored = put(folder / "start.json", json.dumps(report))
    assert main(["report", "--file", str(stored), "--html", str(page), *more]) == 0
    return page


def sick(report: dict[str, Any]) -> dict[str, Any]:
    """The report of a step with a GPU that is not fit on its second node."""
    finding = {
        "check": "row_remap_failure",
        "kind": "hit",
        "verdict": "fail",
        "settled": True,
        "gpu": 5,
        "uuid": "GPU-1",
        "pci": "0000:db:00.0",
        "value": "1",
        "limit": "0",
        "reason": "GPU 5 (0000:db:00.0): row remapping failed",
        "action": "replace it",
        "source": "NVIDIA's memory error guide",
    }
    report["nodes"][1]["health"] = {
        "verdict": "fail",
        "why": finding["reason"],
        "shared_gpu": "",
        "took_s": 0.1,
        "record": {"findings": [finding]},
    }
    report["health"] |= {
        "verdict": "fail",
        "gpus": {"ok": 31, "unknown": 0, "warn": 0, "fail": 1},
        "odd": ["n3 GPU 0: driver 550.54 (others 550.90)"],
    }
    jsonschema.validate(report, SCHEMA)
    return report


def crowd(nodes: int = 512, per_node: int = 8) -> dict[str, Any]:
    """A step of 4096 tasks: one node never came, one lacks a rank, one is late."""
    gang = Gang(nodes, per_node)
    for node in set(range(nodes)) - {7}:
        gang.hello(node)
        for rank in gang.ranks(node):
            late = 30 * SECOND if node == 100 else 0
            if rank != 20 * per_node + 3:
                gang.arrive(rank, T0 + node * 1000 + rank % per_node * 2000 + late)
    assert gang.tick(T0 + 61 * SECOND) == lib.GS_REFUSED
    return Story(gang).report()


def test_a_refusal_names_who_is_missing_and_who_is_late(
    chrome: webdriver.Chrome, tmp_path: Path
) -> None:
    story = refused()
    view = browser.shown(chrome, page_of(tmp_path, story.report()))

    assert view.text("#verdict") == "refused: timeout"
    assert "5 of 8" in view.text("header dl")
    assert story.refusal().splitlines()[0] in view.text("header")
    lanes = view.text("svg#lanes")
    assert "missing: rank 3" in lanes
    assert "missing: ranks 4-5" in lanes
    assert "never connected" in lanes
    assert "30.00 s" in lanes
    assert view.count("svg#lanes rect.missing") == 2 + 1  # and the legend's
    assert view.count("svg#lanes text.lane") == 4
    assert view.count("svg#lanes line.task") == 5 + 2
    assert "5 of 8" in view.text("svg#curve")
    assert view.run(browser.OUTSIDE) == []
    assert view.run(browser.COVERED) == []
    assert view.told() == []


def test_the_advice_of_a_refusal_can_be_copied(
    chrome: webdriver.Chrome, tmp_path: Path
) -> None:
    report = refused().report()
    report["message"].append("  next: scontrol show node n3 · sbatch --exclude=n3 …")
    view = browser.shown(chrome, page_of(tmp_path, report))

    commands = [one.text for one in chrome.find_elements("css selector", "pre.type")]
    assert commands[-2:] == ["scontrol show node n3", "sbatch --exclude=n3 …"]
    assert "next:" not in view.text("header")


def test_a_good_start_says_where_rank_0_is_and_why(
    chrome: webdriver.Chrome, tmp_path: Path
) -> None:
    view = browser.shown(chrome, page_of(tmp_path, started().report()))

    assert view.text("#verdict") == "released"
    assert "10.1.0.1:29500 on n1" in view.text("#facts")
    assert "MASTER_PORT, which you had set" in view.text("#facts")
    assert view.count("header.good") == 1


def test_what_is_wrong_with_a_gpu_is_in_a_table(
    chrome: webdriver.Chrome, tmp_path: Path
) -> None:
    view = browser.shown(chrome, page_of(tmp_path, sick(refused().report())))

    row = view.text("#findings tbody tr")
    for word in ("fail", "n2", "5 0000:db:00.0", "row remapping failed", "replace it"):
        assert word in row
    assert "31 ok, 1 fail" in view.text("#health")
    assert "driver 550.54" in view.text("#odd")


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_every_text_of_a_report_can_be_read(
    chrome: webdriver.Chrome, tmp_path: Path, colours: str
) -> None:
    page = page_of(tmp_path, sick(refused().report()))
    browser.View(chrome).mode(colours)
    view = browser.shown(chrome, page)

    assert view.run(browser.LOW_CONTRAST) == []


def test_4096_tasks_are_one_page_that_can_be_read(
    chrome: webdriver.Chrome, tmp_path: Path
) -> None:
    page = page_of(tmp_path, crowd())
    view = browser.shown(chrome, page)

    assert page.stat().st_size < 200_000
    assert "4087 of 4096" in view.text("svg#curve")
    lanes = view.text("svg#lanes")
    assert "missing: ranks 56-63" in lanes
    assert "missing: rank 163" in lanes
    assert "late" in lanes
    assert "n101 (30.11 s)" in view.text("#late")
    assert view.count("svg#lanes text.lane") == 22
    assert "not shown: 490 ready before these" in view.text()
    assert view.run(browser.OUTSIDE) == []
    assert view.run(browser.COVERED) == []
    height = view.run("return document.documentElement.scrollHeight")
    assert height < 4000


def test_every_node_of_a_large_step_can_be_had(
    chrome: webdriver.Chrome, tmp_path: Path
) -> None:
    page = page_of(tmp_path, crowd(), "--all")
    view = browser.shown(chrome, page)

    assert view.count("#nodes tbody tr") == 512
    assert view.count("svg#lanes text.lane") == 256
    assert "256 more nodes of the table have no lane" in view.text("figcaption")
    assert page.stat().st_size < 1_500_000


def test_text_of_a_report_is_inert(chrome: webdriver.Chrome, tmp_path: Path) -> None:
    evil = "n1</text></svg><script>document.title='owned'</script><img src=/x>"
    evil += "\u202e\x1b[1m\ud800"
    report = refused().report()
    for node in report["nodes"]:
        node["name"], node["detail"] = evil, evil
        node["phase"], node["ranks"] = evil, evil
        node["health"] = {"verdict": "fail", "why": evil, "record": {"findings": 3}}
    report["step"]["cluster"] = report["step"]["name"] = report["outcome"] = evil
    report["message"] = [evil] * 3
    report["health"] = {"verdict": evil, "mode": evil, "gpus": [], "odd": [evil]}
    page = page_of(tmp_path, report)

    with browser.served(chrome, page.read_text()) as view:
        assert "owned" not in view.chrome.title.replace("='owned'", "")
        assert view.run(browser.ACTIVE) == []
        assert view.asked == ["/page"]
        assert view.told() == []
        assert view.text("#odd").startswith("n1</text></svg><script>")
        assert view.text("#odd").endswith("‹U+202E›‹U+001B›[1m‹U+D800›")
        assert not set(view.text()) & {"\u202e", "\x1b", "\ud800"}


WORDS = st.sampled_from(["fail", "gpus", "findings", "verdict", "record", "why", "gpu"])
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | WORDS
    | st.text(max_size=9),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(WORDS, part, max_size=4),
    max_leaves=12,
)
UNCHECKED = ("reason", "exit_code", "missing_ranks", "blamed_nodes", "health")


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_parts_that_are_lost_or_of_another_kind_break_no_page(
    data: st.DataObject,
) -> None:
    report = refused().report()
    gone = data.draw(st.sets(st.sampled_from(UNCHECKED)))
    report = {name: part for name, part in report.items() if name not in gone}
    for name in data.draw(st.sets(st.sampled_from(UNCHECKED))):
        report[name] = data.draw(ANYTHING)
    for node in report["nodes"]:
        for name in ("health", "address", "clock_offset_s"):
            node[name] = data.draw(ANYTHING)
    stored = json.dumps(report, allow_nan=True).replace("NaN", "0")
    checked = parse(
        stored.replace("-Infinity", "0").replace("Infinity", "0").encode(), HERE
    )

    page = report_page(checked, HERE, "", every_node=True)

    assert "</html>" in page
    assert 'id="facts"' in page


def test_a_report_in_json_and_a_page_at_once(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    page_of(tmp_path, refused().report(), "--json")

    assert capfdbinary.readouterr().out == (tmp_path / "start.json").read_bytes()
