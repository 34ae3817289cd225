"""gangstart triage --html, as the person sees it who was woken up."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cases import triagecase
from gangstart.cli import main
from gangstart.page.triagepage import triage_page
from gangstart.triage.answer import answer
from gangstart.triage.attribute import attribute
from gangstart.triage.judge import judge
from gangstart.triage.model import Sample, Trace
from hypothesis import given, settings
from hypothesis import strategies as st
from page import browser

if TYPE_CHECKING:
    from selenium import webdriver

CORPUS = Path(__file__).resolve().parents[1] / "corpus"
SOME = sorted(path.stem for path in CORPUS.glob("*.json"))[::16]
NODES = "[...document.querySelectorAll('{}')]"
HOSTILE = (
    "CUDA error: unspecified launch failure "
    "<script>document.title='owned'</script></svg></code></title>"
    '<img src="/stolen" onerror="alert(1)"><a href="http://127.0.0.1/x">here</a>'
    "{{ 7*7 }} \u202eevil\u2066 \u200b\U000e0061 a" + "\u0301" * 9
)
LOG = f"""2026-05-11 09:14:01 [INFO] iter 1000
[rank1]: RuntimeError: {HOSTILE}
2026-05-11 09:15:00 cn01: [rank0]: torch.distributed.DistBackendError: NCCL error: \
remote process exited or there was a network error, NCCL version 2.21.5
srun: error: cn02: task 1: Exited with exit code 1
"""
KMSG = (
    "2026-05-11T09:14:55,120000+00:00 NVRM: Xid (PCI:0000:5d:00): 79, pid='<unknown>', "
    "name=<unknown>, GPU has fallen off the bus.\n"
)


def answered(name: str, finer: int = 1) -> dict[str, Any]:
    """The answer to a labelled case, its series with values between the recorded."""
    given = json.loads((CORPUS / f"{name}.json").read_text())["input"]
    trace = Trace(triagecase.job(given), triagecase.layout(given))
    trace.series = [
        replace(one, samples=tuple(filled(one.samples, finer)))
        for one in triagecase.series(given)
    ]
    return answer(judge(attribute(trace, triagecase.logs(given, trace))))


def filled(samples: tuple[Sample, ...], finer: int) -> list[Sample]:
    """Values at more moments, the earlier one's."""
    made = []
    for one, after in zip(samples, [*samples[1:], None], strict=True):
        step = ((after.time - one.time) if after else 0.0) / finer
        count = finer if after else 1
        made += [Sample(one.time + n * step, one.value) for n in range(count)]
    return made


@pytest.fixture
def hostile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The page about a job that wrote whatever it could think of."""
    log, kmsg, page = (tmp_path / name for name in ("slurm-7.out", "kmsg", "p.html"))
    log.write_text(LOG)
    kmsg.write_text(KMSG)
    argv = ["--log", str(log), "--kmsg", f"cn02={kmsg}", "--html", str(page)]
    assert main(["triage", *argv]) == 0
    assert capsys.readouterr().out.startswith("GPU_FELL_OFF_BUS (rank 1 on cn02)")
    return page


def test_the_verdict_is_seen_first_then_what_to_type(
    chrome: webdriver.Chrome, hostile: Path
) -> None:
    view = browser.shown(chrome, hostile)

    assert view.text("#verdict") == "GPU_FELL_OFF_BUS"
    header = view.text("header")
    assert "GPU 0000:5d:00: Xid 79 (GPU has fallen off the bus)" in header
    assert "confidence\nproven" in header
    assert "drain the node yes" in header.replace("\n", " ")
    assert "State=DRAIN Reason='GPU_FELL_OFF_BUS: JOBID'" in view.text("#next")
    tops = view.run(
        "return ['header', '#next', '#timeline', '#evidence', '#sources'].map("
        "s => document.querySelector(s).getBoundingClientRect().top)"
    )
    assert tops == sorted(tops)
    assert "dmesg:cn02:1" in view.text("#evidence")
    assert "slurm-7.out, 4 lines" in view.text("#sources")
    assert view.told() == []


def test_every_line_of_the_timeline_is_a_mark_told_apart_by_shape_and_number(
    chrome: webdriver.Chrome, hostile: Path
) -> None:
    view = browser.shown(chrome, hostile)

    lines = view.count("#timeline tbody tr")
    legend = 3
    assert lines >= 3
    assert view.count("svg#timeline path.mark") == lines + legend
    roles = ("initiating", "cascade", "teardown")
    outlines = {
        "".join(c for c in str(path) if c.isalpha())
        for role in roles
        for path in view.run(
            f"return {NODES.format(f'path.{role}')}.map(n => n.getAttribute('d'))"
        )
    }
    assert len(outlines) == len(roles)
    digits = view.run(
        "return [...document.querySelectorAll('svg#timeline text.digit')]"
        ".map(n => n.textContent)"
    )
    assert sorted(map(int, digits)) == list(range(1, lines + 1))
    assert {"rank 1 on cn02", "cn02"} <= set(
        view.run(f"return {NODES.format('svg text.lane')}.map(n => n.textContent)")
    )
    pictures = view.count("svg")
    assert view.count("svg > title") == view.count("svg > desc") == pictures > 0
    assert view.run(browser.COVERED) == []
    assert view.run(browser.OUTSIDE) == []


def test_what_a_job_wrote_does_nothing_and_is_marked(
    chrome: webdriver.Chrome, hostile: Path
) -> None:
    with browser.served(chrome, hostile.read_text()) as view:
        assert view.chrome.title == "GPU_FELL_OFF_BUS"
        assert view.run(browser.ACTIVE) == []
        assert view.asked == ["/page"]
        assert view.told() == []
        seen = view.text()
    assert "<script>document.title='owned'</script></svg></code></title>" in seen
    assert "{{ 7*7 }}" in seen
    assert "‹U+200B›‹U+E0061› a\u0301\u0301\u0301‹U+0301›" in seen
    assert not [c for c in seen if c in "\u202e\u2066\u200b\x1b"]
    assert re.search(r"quoted, not trusted:\s*RuntimeError", seen), seen


def test_it_is_whole_without_scripts(chrome: webdriver.Chrome, hostile: Path) -> None:
    view = browser.View(chrome)
    view.devtools("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.shown(chrome, hostile)
        assert view.text("#verdict") == "GPU_FELL_OFF_BUS"
        assert "rank 1 on cn02" in view.text("svg#timeline")
    finally:
        view.devtools("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_every_text_can_be_read_in_light_and_dark(
    chrome: webdriver.Chrome, tmp_path: Path, colours: str
) -> None:
    page = tmp_path / "page.html"
    page.write_text(triage_page(answered("z-behind-and-thermal")))
    browser.View(chrome).mode(colours)
    view = browser.shown(chrome, page)

    ground = view.run("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") is (colours == "light")
    assert view.run(browser.LOW_CONTRAST) == []


def test_it_fits_a_telephone(chrome: webdriver.Chrome, hostile: Path) -> None:
    view = browser.View(chrome)
    size = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    view.devtools("Emulation.setDeviceMetricsOverride", **size)
    try:
        browser.shown(chrome, hostile)
        wide = view.run("return document.documentElement.scrollWidth")
        line = view.run(
            "return document.querySelector('#timeline td:last-child')"
            ".getBoundingClientRect().width"
        )
    finally:
        view.devtools("Emulation.clearDeviceMetricsOverride")
    assert wide == 390  # only the pictures are moved sideways, in a box of their own
    assert line > 300


def test_what_is_selected_is_what_can_be_typed(
    chrome: webdriver.Chrome, hostile: Path
) -> None:
    view = browser.shown(chrome, hostile)

    every = view.run(browser.SELECTED)
    assert "GPU_FELL_OFF_BUS" in every
    assert "\nscontrol update NodeName=cn02 State=DRAIN" in every


def test_the_suspects_series_are_drawn_beside_the_others(
    chrome: webdriver.Chrome, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    page.write_text(triage_page(answered("z-behind-and-thermal", finer=16)))
    view = browser.shown(chrome, page)

    said = view.text("#charts")
    assert "GPU temperature, °C · cn02" in said
    assert "GPU clock, MHz · cn02" in said
    assert "hardware thermal slowdown" in said
    assert "median of 7 others" in said
    lines = "#charts polyline.series"
    assert view.count(lines) == 2  # one of each quantity: only of the slow GPU
    assert view.count("#charts polyline.others:not(.swatch)") == 2
    # One moment is at one place in all pictures.
    places = view.run(
        "return [...document.querySelectorAll('line.when.cascade')]"
        ".map(n => n.getBoundingClientRect().left)"
    )
    mark = view.run(
        f"return {NODES.format('svg#timeline .mark.cascade')}"
        ".map(n => n.getBoundingClientRect()).map(b => (b.left + b.right) / 2)"
    )
    assert len(places) == 3
    assert all(abs(place - mark[-1]) < 2 for place in places)
    assert view.run(browser.OUTSIDE) == []
    assert "cn02 GPU 2: 1980 → 345 MHz (lowest 345, highest 1980)" in page.read_text()


@pytest.mark.parametrize("name", SOME)
def test_any_case_gives_a_page_that_can_be_read(
    chrome: webdriver.Chrome, tmp_path: Path, name: str
) -> None:
    page = tmp_path / "page.html"
    made = answered(name)
    page.write_text(triage_page(made))
    view = browser.shown(chrome, page)

    assert view.text("#verdict") == made["root_cause"]
    assert view.run(browser.OUTSIDE) == []
    assert view.run(browser.COVERED) == []
    assert view.told() == []


def test_every_case_of_the_corpus_has_a_page() -> None:
    for path in sorted(CORPUS.glob("*.json")):
        made = answered(path.stem)
        page = triage_page(made)
        assert f'<h1 id="verdict">{made["root_cause"]}</h1>' in page
        assert ('<svg viewBox="0 0' in page) is bool(made["timeline"] or made["series"])


TIMES = st.floats() | st.floats(1.7e9, 1.7e9 + 1e5)
WILD = TIMES | st.none()
PAIRS = st.lists(st.tuples(TIMES, st.floats()).map(list), max_size=9)


@given(
    times=st.lists(WILD, max_size=40),
    run=st.tuples(WILD, WILD),
    samples=PAIRS,
    others=PAIRS,
    text=st.text(max_size=300),
)
@settings(max_examples=60, deadline=None)
def test_any_times_values_and_texts_give_a_picture_with_places(
    times: list[float | None],
    run: tuple[float | None, float | None],
    samples: list[list[float]],
    others: list[list[float]],
    text: str,
) -> None:
    made = answered("app-hub-name") | {"sentence": text, "job": text, "node": text}
    made["run"] = {"restart": 0, "state": text, "start": run[0], "end": run[1]}
    roles = ("initiating", "cascade", "teardown")
    place = {"source": text, "line": 1}
    made["timeline"] = [
        {"time": t, "who": text + str(n % 25), "what": text, "role": roles[n % 3]}
        | {"place": place, "node": None, "rank": n}
        for n, t in enumerate(times)
    ]
    made["series"] = [
        {"quantity": quantity, "unit": "W", "node": text, "device": text, "query": text}
        | {"samples": samples, "others": {"count": 1, "median": others}}
        for quantity in ("gpu_power_w", "throttle_bits", "xid", "ib_state", "other")
    ]

    page = triage_page(made)
    for word in ("nan", "inf", "None"):
        assert not re.search(rf'(x|y|x1|y1|d|points|width|height)="[^"]*{word}', page)
    assert page.count("<svg") == page.count("</svg>")
    assert len(page) < 500_000


def test_standard_output_gets_nothing_but_the_page(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    log = tmp_path / "job.out"
    log.write_text("[rank0]: KeyError: 'x'\n")

    assert main(["triage", "--log", str(log), "--html", "-"]) == 0

    said = capfdbinary.readouterr().out
    assert said.startswith(b"<!doctype html>")
    assert said.rstrip().endswith(b"</html>")


def test_json_and_a_page_can_be_had_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, page = tmp_path / "job.out", tmp_path / "page.html"
    log.write_text("[rank0]: KeyError: 'x'\n")

    assert main(["triage", "--json", "--log", str(log), "--html", str(page)]) == 0

    made = json.loads(capsys.readouterr().out)
    assert page.read_text() == triage_page(made)
