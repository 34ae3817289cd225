"""A real Prometheus, filled with samples as the exporters of clusters write them."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import socket
import subprocess
import time
import urllib.parse
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
from gangstart.page.triagepage import triage_page
from gangstart.report_find import Places
from gangstart.triage import byjob
from gangstart.triage.answer import answer
from gangstart.triage.attribute import attribute
from gangstart.triage.gather import Log, Reading
from gangstart.triage.judge import judge
from gangstart.triage.model import (
    Attempt,
    Job,
    Layout,
    Outcome,
    Series,
    Trace,
    Verdict,
)
from gangstart.triage.source import prometheus
from gangstart.triage.source.prometheus import Prometheus, Window
from gangstart.triage.source.promhttp import Server
from gangstart.triage.source.record import StepRecord
from triage.test_byjob import MadeUp, record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

END = 1_790_000_000  # when the job of this story ended
BEGIN = END - 3600
SCRAPE_S = 15
THROTTLED = END - 1200  # gn02's GPU 3 gets hot
DOWN = END - 600  # a port of gn01 goes down, and gn02's node exporter counts again
UUID = "1c67088e-9ecb-4564-bb97-6151ecc2ef64"
DCGM = (
    'gpu="{gpu}",UUID="GPU-{gpu}",pci_bus_id="00000000:0{gpu}:00.0",'
    'device="nvidia{gpu}",modelName="NVIDIA H200",Hostname="{node}",'
    'instance="{node}:9400",job="dcgm",hpc_job="4801"'
)
NODE = 'instance="{node}.cluster.local:9100",job="node"'
PORT = 'device="mlx5_0",port="1",' + NODE
SMI = f'uuid="{UUID}",instance="10.0.0.3:9835",job="nvidia_gpu_exporter"'
KINDS = {
    "DCGM_FI_DEV_GPU_UTIL": "gauge",
    "DCGM_FI_DEV_POWER_USAGE": "gauge",
    "DCGM_FI_DEV_SM_CLOCK": "gauge",
    "DCGM_FI_DEV_XID_ERRORS": "gauge",
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": "gauge",
    "node_infiniband_link_downed_total": "counter",
    "node_memory_MemAvailable_bytes": "gauge",
    "node_vmstat_oom_kill": "unknown",
    "node_filesystem_avail_bytes": "gauge",
    "nvidia_smi_index": "gauge",
    "nvidia_smi_utilization_gpu_ratio": "gauge",
    "nvidia_smi_clocks_current_sm_clock_hz": "gauge",
    "unrelated_metric": "gauge",
}
ALIASES = {"gn01": "gn01", "gn02": "gn02", "gn03": "gn03", "10.0.0.3": "gn03"}
SPAN = Window(float(BEGIN), float(END))


def value(name: str, node: str, gpu: int, at: int) -> float:
    """What an exporter would have told."""
    hot = (node, gpu) == ("gn02", 3) and at >= THROTTLED
    told = {
        "DCGM_FI_DEV_GPU_UTIL": 0 if hot and at >= DOWN else 100,
        "node_vmstat_oom_kill": 7 + (node == "gn02" and at >= DOWN),
        "DCGM_FI_DEV_POWER_USAGE": 350 if hot else 690,
        "DCGM_FI_DEV_SM_CLOCK": 345 if hot else 1980,
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": 0x40 if hot else 0,
        "node_infiniband_link_downed_total": 5 + (node == "gn01" and at >= DOWN),
        "node_memory_MemAvailable_bytes": 5e11,
        "node_filesystem_avail_bytes": 1e9,
        "nvidia_smi_utilization_gpu_ratio": 0.42,
        "nvidia_smi_clocks_current_sm_clock_hz": 1.98e9,
    }
    return float(told.get(name, 0))


def labels(name: str) -> list[tuple[str, int, str]]:
    """Node, GPU and labels of every series of a metric."""
    nodes = ("gn01", "gn02", "gn010")  # the last one is not of the job
    if name.startswith("DCGM"):
        return [(n, g, DCGM.format(node=n, gpu=g)) for n in nodes for g in (0, 3)]
    if name.startswith("nvidia_smi"):
        return [("gn03", 0, SMI)]
    kind = PORT if "infiniband" in name else NODE
    extra = 'mountpoint="/scratch",fstype="lustre",' if "filesystem" in name else ""
    return [(n, 0, extra + kind.format(node=n)) for n in nodes]


def openmetrics() -> str:
    """Every sample, in the form that promtool reads."""
    lines = []
    for name, kind in KINDS.items():
        lines.append(f"# TYPE {name.removesuffix('_total')} {kind}")
        for node, gpu, told in labels(name):
            lines += [
                f"{name}{{{told}}} {value(name, node, gpu, at)} {at}"
                for at in range(BEGIN, END + 1, SCRAPE_S)
            ]
    return "\n".join([*lines, "# EOF", ""])


def get(url: str, path: str) -> tuple[int, bytes]:
    """One plain request, without the code that is tested."""
    parts = urllib.parse.urlsplit(url)
    link = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)
    with contextlib.closing(link):
        link.request("GET", path)
        with link.getresponse() as answer:
            return answer.status, answer.read()


def ready(url: str) -> bool:
    try:
        return get(url, "/-/ready")[0] == http.HTTPStatus.OK
    except OSError:
        return False


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start Prometheus on loopback, in a folder of its own."""
    programs = [shutil.which(name) for name in ("prometheus", "promtool")]
    if None in programs:
        pytest.skip("needs Prometheus (apt-get install prometheus)")
    folder = tmp_path_factory.mktemp("prometheus")
    samples = folder / "samples.txt"
    samples.write_text(openmetrics())
    fill = [programs[1], "tsdb", "create-blocks-from", "openmetrics"]
    subprocess.run(
        [*map(str, fill), str(samples), str(folder / "data")],
        check=True,
        capture_output=True,
        timeout=60,
    )
    yield from running(str(programs[0]), folder)


def running(program: str, folder: Path) -> Iterator[str]:
    config = folder / "prometheus.yml"
    config.write_text("global: {}\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    argv = [
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log, cwd=folder)
    url = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + 60
        while not ready(url):
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
            assert time.monotonic() < end, "Prometheus is not ready"
            time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def found(server: str) -> list[Series]:
    series, state = Prometheus(Server(server), 60).series(ALIASES, SPAN)
    assert state.outcome is Outcome.USED, state
    return series


def one(found: list[Series], quantity: str, node: str, device: str = "") -> Series:
    fitting = (quantity, node, device)
    (series,) = [s for s in found if (s.quantity, s.node, s.device) == fitting]
    return series


def test_the_power_of_a_gpu_that_throttles(found: list[Series]) -> None:
    power = one(found, "gpu_power_w", "gn02", "3")
    fell = [s.time for s in power.samples if s.value == 350]

    assert len(power.samples) == 3600 / 15 + 1
    assert fell[0] == pytest.approx(THROTTLED, abs=SCRAPE_S)
    bits = one(found, "throttle_bits", "gn02", "3")
    assert bits.samples[-1].value == 0x40
    assert {s.value for s in one(found, "gpu_power_w", "gn02", "0").samples} == {690}


def judged(found: list[Series], *lines: str, state: str = "FAILED") -> Verdict:
    """What triage makes of a log beside what Prometheus told."""
    nodes = ("gn01", "gn02")
    run = Attempt(0, state, nodes=nodes, start=float(BEGIN), end=float(END))
    layout = Layout({0: "gn01", 1: "gn01", 2: "gn02", 3: "gn02"})
    trace = Trace(Job("7", nodes=nodes, attempts=(run,)), layout, series=found)
    log = Log("job.out", Reading(frozenset(nodes), float(BEGIN)))
    log.feed_lines(lines)
    log.finish()
    return judge(attribute(trace, [log]))


def watchdogs(at: str, ran_ms: int) -> list[str]:
    """Every rank's time-out."""
    return [
        f"[rank{rank}]:[E921 {at}.441200911 ProcessGroupNCCL.cpp:616] [Rank {rank}] "
        f"Watchdog caught collective operation timeout: WorkNCCL(SeqNum=88, OpType="
        f"ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)={ran_ms}) ran for {ran_ms} "
        "milliseconds before timing out."
        for rank in range(4)
    ]


def test_the_gpu_that_stopped_first_names_the_rank_all_waited_for(
    found: list[Series],
) -> None:
    at = datetime.fromtimestamp(END - 60, timezone.utc).strftime("%H:%M:%S")
    gpus = [s for s in found if s.quantity.startswith("gpu_")]

    told = judged(gpus, "step 5", *watchdogs(at, 480_000))

    assert (told.code, told.node, told.rank) == ("NCCL_TIMEOUT", "gn02", 3)
    assert any("GPU 3 of gn02 was at 0%" in one.text for one in told.evidence)


def test_a_link_that_went_down_before_the_time_out_names_its_node(
    found: list[Series],
) -> None:
    at = datetime.fromtimestamp(END - 60, timezone.utc).strftime("%H:%M:%S")

    links = [s for s in found if s.quantity.startswith("ib_")]

    told = judged(links, "step 5", *watchdogs(at, 480_000))

    assert (told.code, told.node) == ("NET_IB", "gn01")
    cited = [one.text for one in told.evidence if "link_downed" in one.text]
    assert cited
    assert cited[0].startswith("node_infiniband_link_downed_total{")
    assert cited[0].endswith("went from 5 to 6")


def test_a_kill_that_the_kernel_counted(found: list[Series]) -> None:
    told = judged(found, "step 5", "srun: error: gn02: task 2: Killed")

    assert (told.code, told.node, told.rank) == ("HOST_OOM", "gn02", 2)

    innocent = judged(found, "step 5", "srun: error: gn01: task 0: Killed")

    assert innocent.code == "UNKNOWN"
    assert any(
        one.code == "HOST_OOM" and "gn01" in one.why for one in innocent.ruled_out
    )


def test_a_counter_of_a_port(found: list[Series]) -> None:
    assert prometheus.increase(one(found, "ib_link_downed", "gn01", "mlx5_0/1")) == 1
    assert prometheus.increase(one(found, "ib_link_downed", "gn02", "mlx5_0/1")) == 0


def test_an_exporter_that_knows_gpus_by_uuid_and_nodes_by_address(
    found: list[Series],
) -> None:
    util = one(found, "gpu_util", "gn03", "0")

    assert util.samples[0].value == pytest.approx(42)
    assert one(found, "sm_clock_mhz", "gn03", "0").samples[0].value == 1980


def test_the_node_and_its_file_systems(found: list[Series]) -> None:
    assert one(found, "mem_available_bytes", "gn01").samples[0].value == 5e11
    assert one(found, "fs_available_bytes", "gn01", "/scratch").unit == "B"


def test_only_nodes_of_the_job_and_known_metrics(found: list[Series]) -> None:
    assert {series.node for series in found} == {"gn01", "gn02", "gn03"}
    assert not any("unrelated" in series.query for series in found)


def test_what_is_cited_gives_the_same_series_again(
    server: str, found: list[Series]
) -> None:
    for series in found:
        form = {"query": series.query, "time": str(END)}
        path = f"/api/v1/query?{urllib.parse.urlencode(form)}"
        told: dict[str, Any] = json.loads(get(server, path)[1])
        assert len(told["data"]["result"]) == 1, series.query


def test_a_long_range_has_few_values(server: str) -> None:
    span = Window(END - 86400.0 * 7, float(END))
    series, _ = Prometheus(Server(server), 60).series({"gn01": "gn01"}, span)

    assert series
    assert max(len(one.samples) for one in series) <= prometheus.POINTS + 1


def test_nodes_that_prometheus_does_not_know(server: str) -> None:
    series, state = Prometheus(Server(server), 60).series({"x": "x"}, SPAN)

    assert series == []
    assert state.outcome is Outcome.EMPTY


def test_another_path_is_not_prometheus(server: str) -> None:
    _, state = Prometheus(Server(f"{server}/nothing"), 60).series(ALIASES, SPAN)

    assert state.outcome is Outcome.UNREACHABLE
    assert "404" in state.detail or "405" in state.detail


def test_what_it_has_of_the_suspect_reaches_the_answer_and_the_page(
    server: str, tmp_path: Path
) -> None:
    when = {"submit": BEGIN, "start": float(BEGIN), "end": float(END)}
    steps = (StepRecord("0", state="CANCELLED", nodes=("gn01", "gn02")),)
    job = record(tmp_path, nodes=("gn01", "gn02"), state="TIMEOUT", steps=steps, **when)
    places = Places(None, tmp_path / "run", [], [])
    asked = byjob.Asked("7877", places, server=Server(server))

    made = answer(judge(byjob.gather(asked, MadeUp([job]))))

    assert (made["root_cause"], made["node"]) == ("THERMAL_STRAGGLER", "gn02")
    drawn = {one["quantity"]: one for one in made["series"]}
    assert drawn["sm_clock_mhz"]["device"] == "3"
    assert [v for _, v in drawn["sm_clock_mhz"]["samples"]][-1] == 345
    assert 'gpu="3"' in drawn["sm_clock_mhz"]["query"]
    assert {v for _, v in drawn["gpu_power_w"]["others"]["median"]} == {690}
    assert made["run"]["start"] == BEGIN
    page = triage_page(made)
    assert "gn02 GPU 3: 690 → 350 W (lowest 350, highest 690)" in page
    assert "hardware thermal slowdown" in page
