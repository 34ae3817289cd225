"""Prometheus that hangs, lies, redirects or is none: an answer within the deadline."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import pytest
from gangstart.errors import GangstartError
from gangstart.triage.model import Outcome, Sample, Series, SourceState
from gangstart.triage.source import metrics, prometheus
from gangstart.triage.source.prometheus import Prometheus, Window, window
from gangstart.triage.source.promhttp import BODY_BYTES, Server
from triage.source.fakeprometheus import response, serve, success

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ALIASES = {"gn01": "gn01", "10.0.0.1": "gn01", "gn02": "gn02"}
SPAN = Window(1000.0, 4600.0)
LABELS = {
    "__name__": "DCGM_FI_DEV_POWER_USAGE",
    "Hostname": "gn01",
    "gpu": "3",
    "UUID": "GPU-1",
    "instance": "10.0.0.1:9400",
    "modelName": "NVIDIA H200",
}
ROW = {"metric": LABELS, "values": [[1000, "700.5"], [1015, "NaN"], [1030, "90"]]}


def asked(url: str, deadline_s: float = 20.0) -> tuple[list[Series], SourceState]:
    return Prometheus(Server(url), deadline_s).series(ALIASES, SPAN)


def honest(request: bytes) -> bytes:
    """What a server with one series of one GPU answers."""
    body = request.partition(b"\r\n\r\n")[2].decode() or request.split()[1].decode()
    if "POWER_USAGE" not in body:
        return success("vector", [])
    if b"query_range" in request:
        return success("matrix", [ROW])
    return success("vector", [{"metric": {}, "value": [4600, "1"]}])


def test_a_series_is_read_and_can_be_cited() -> None:
    with serve(lambda link, request: link.sendall(honest(request))) as (url, requests):
        found, state = asked(url)

    (power,) = found
    assert (power.quantity, power.node, power.device) == ("gpu_power_w", "gn01", "3")
    assert power.samples == (Sample(1000.0, 700.5), Sample(1030.0, 90.0))
    assert power.unit == "W"
    assert power.query == (
        'DCGM_FI_DEV_POWER_USAGE{Hostname="gn01",instance="10.0.0.1:9400",'
        'UUID="GPU-1",gpu="3"}'
    )
    assert state.outcome is Outcome.USED
    assert state.detail == f"{url}: 1 series of 1 quantities"
    asked_for = parse_qs(requests[1].partition(b"\r\n\r\n")[2].decode())
    assert asked_for["step"] == ["15"]


def test_a_proxy_that_only_lets_get_through() -> None:
    def answer(link: socket.socket, request: bytes) -> None:
        if request.startswith(b"POST"):
            link.sendall(response("", "405 Method Not Allowed"))
        else:
            link.sendall(honest(request))

    with serve(answer) as (url, _):
        found, _ = asked(url)

    assert len(found) == 1


BAD = {
    "not http": (b"SSH-2.0-OpenSSH\r\n\r\n", "it does not speak HTTP"),
    "nothing": (b"", "Remote end closed connection"),
    "not json": (response("<html>"), "not JSON: is it Prometheus?"),
    "a list": (response("[]"), "no object: is it Prometheus?"),
    "an error": (
        response('{"status":"error","error":"bad\\nquery"}', "400 Bad Request"),
        "it says: bad query",
    ),
    "no data": (response('{"status":"success"}'), "holds no data"),
    "other kind": (success("matrix", []), "its answer is no vector"),
    "not a number": (
        success("vector", [{"value": [1, "many"]}]),
        "its count is no number",
    ),
    "endless count": (
        success("vector", [{"value": [1, "+Inf"]}]),
        "its count is no number",
    ),
    "redirect": (
        response("", "302 Found", "Location: http://169.254.169.254/x"),
        "it sends to http://169.254.169.254/x: give that address if it is right",
    ),
    "login": (response("", "401 Unauthorized"), "it refuses us (401)"),
    "gateway": (response("", "502 Bad Gateway"), "it answers 502 Bad Gateway"),
    "deep": (response("[" * 200_000), "not JSON"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_answer_is_told_as_a_value(name: str) -> None:
    raw, why = BAD[name]
    with serve(lambda link, _: link.sendall(raw)) as (url, requests):
        found, state = asked(url)

    assert found == []
    assert state.outcome is Outcome.UNREACHABLE
    assert why in state.detail
    assert state.detail.startswith(url)
    assert len(requests) <= 2


def test_a_redirect_is_not_followed() -> None:
    with serve(lambda link, request: link.sendall(honest(request))) as (target, there):
        to = response("", "307 Temporary Redirect", f"Location: {target}/x")
        with serve(lambda link, _: link.sendall(to)) as (url, _):
            asked(url)

        assert there == []


def hang(_link: socket.socket, _request: bytes) -> None:
    threading.Event().wait(30)


def trickle(link: socket.socket, _request: bytes) -> None:
    link.sendall(b"HTTP/1.1 200 OK\r\n")
    end = time.monotonic() + 30
    while time.monotonic() < end:
        link.sendall(b"X-A: b\r\n")
        time.sleep(0.05)


def trickle_body(link: socket.socket, _request: bytes) -> None:
    link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    end = time.monotonic() + 30
    while time.monotonic() < end:
        link.sendall(b" ")
        time.sleep(0.05)


@pytest.mark.parametrize("how", [hang, trickle, trickle_body])
def test_a_server_that_hangs(how: Callable[[socket.socket, bytes], None]) -> None:
    begun = time.monotonic()
    with serve(how) as (url, _):
        found, state = asked(url, 0.5)
        took = time.monotonic() - begun

    assert found == []
    assert "it did not answer within 0.5 s" in state.detail
    assert took < 20, "the server would have gone on for 30 s"


def test_an_answer_without_measure_is_cut_off() -> None:
    def flood(link: socket.socket, _request: bytes) -> None:
        link.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        for _ in range(BODY_BYTES // (1 << 20) + 8):
            link.sendall(b" " * (1 << 20))

    with serve(flood) as (url, _):
        _, state = asked(url, 60)

    assert "its answer is larger than 64 MiB" in state.detail


def test_too_many_series_are_not_asked_for() -> None:
    many = success("vector", [{"metric": {}, "value": [1, "99999"]}])
    with serve(lambda link, _: link.sendall(many)) as (url, requests):
        _, state = asked(url)

    assert "99999 series" in state.detail
    assert "name fewer nodes" in state.detail
    assert not any(b"query_range" in request for request in requests)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    _, state = asked(f"http://127.0.0.1:{port}")

    assert state.detail == f"http://127.0.0.1:{port}: Connection refused"


def test_what_was_found_before_the_trouble_is_kept() -> None:
    def answer(link: socket.socket, request: bytes) -> None:
        link.sendall(honest(request) if b"DCGM" in request else response("x"))

    with serve(answer) as (url, _):
        found, state = asked(url)

    assert len(found) == 1
    assert state.outcome is Outcome.USED
    assert "not all: what it answers is not JSON" in state.detail


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (Server("prom:9090"), "is no address"),
        (Server("file:///etc/passwd"), "is no address"),
        (Server("http://"), "is no address"),
        (Server("http://h:99999999"), "is no address"),
        (Server("http://me:secret@h"), "no user and password in the address"),
        (Server("http://prom:9090", token_file="t"), "without TLS"),  # noqa: S106
        (Server("https://h", token_file="t", user="u"), "not both"),  # noqa: S106
    ],
)
def test_an_address_that_cannot_be_meant_is_refused(server: Server, why: str) -> None:
    with pytest.raises(GangstartError, match=why):
        Prometheus(server)


def test_a_token_comes_from_a_file_and_goes_to_the_server(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("abc\n")
    token.chmod(0o600)
    with serve(lambda link, request: link.sendall(honest(request))) as (url, requests):
        Prometheus(Server(url, token_file=str(token))).series(ALIASES, SPAN)
    with serve(lambda link, request: link.sendall(honest(request))) as (url, basic):
        server = Server(url, user="me", password_file=str(token))
        Prometheus(server).series(ALIASES, SPAN)

    assert b"Authorization: Bearer abc\r\n" in requests[0]
    assert b"Authorization: Basic bWU6YWJj\r\n" in basic[0]


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        ("abc", 0o644, "everybody may read"),
        ("", 0o600, "no secret of one line"),
        ("a\nX-Evil: 1", 0o600, "no secret of one line"),
        (None, 0, "No such file"),
    ],
)
def test_a_token_that_is_none(
    tmp_path: Path, text: str | None, mode: int, why: str
) -> None:
    token = tmp_path / "token"
    if text is not None:
        token.write_text(text)
        token.chmod(mode)
    with serve(lambda link, request: link.sendall(honest(request))) as (url, requests):
        server = Server(url, token_file=str(token))
        _, state = Prometheus(server).series(ALIASES, SPAN)

    assert why in state.detail
    assert requests == []


@pytest.mark.parametrize(
    "labels",
    [
        {"Hostname": "gn01"},
        {"Hostname": "GN01.cluster.local"},
        {"node": "gn01:9100"},
        {"instance": "gn01.cluster.local:9400"},
        {"instance": "10.0.0.1:9400"},
        {"Hostname": "dcgm-exporter-x7k2p", "node": "gn01"},
        {"instance": "[fd00::1]:9400"},
    ],
)
def test_labels_that_name_a_node(labels: dict[str, str]) -> None:
    aliases = {"gn01": "gn01", "10.0.0.1": "gn01", "fd00::1": "gn01"}

    assert metrics.node_of(labels, aliases) == "gn01"
    assert metrics.node_of({"instance": "gn010:9400"}, aliases) == ""


@pytest.mark.parametrize(
    ("metric", "labels", "device"),
    [
        ("DCGM_FI_DEV_GPU_UTIL", {"gpu": "0"}, "0"),
        ("DCGM_FI_DEV_GPU_UTIL", {"device": "nvidia7"}, "7"),
        ("DCGM_FI_DEV_GPU_UTIL", {"gpu": "1", "GPU_I_ID": "5"}, "1/5"),
        ("nvidia_smi_temperature_gpu", {"uuid": "a" * 36}, "GPU-" + "a" * 36),
        (
            "node_infiniband_link_downed_total",
            {"device": "mlx5_0", "port": "1"},
            "mlx5_0/1",
        ),
        ("node_filesystem_avail_bytes", {"mountpoint": "/tmp", "device": "x"}, "/tmp"),  # noqa: S108
        ("node_memory_MemAvailable_bytes", {}, ""),
    ],
)
def test_labels_that_name_a_device(
    metric: str, labels: dict[str, str], device: str
) -> None:
    assert metrics.device_of(metrics.BY_METRIC[metric], labels) == device


def test_every_metric_has_one_row_and_every_quantity_one_kind_of_unit() -> None:
    names = [row.metric for row in metrics.ROWS]
    units: dict[str, set[str]] = {}
    for row in metrics.ROWS:
        units.setdefault(row.quantity, set()).add(row.unit)

    assert len(names) == len(set(names))
    assert {quantity for quantity, told in units.items() if len(told) > 1} == set()


@pytest.mark.parametrize(
    ("seconds", "step"),
    [(60, 15), (3600, 15), (3601, 30), (86400, 600), (10**7, 41667)],
)
def test_the_step_follows_the_range(seconds: int, step: float) -> None:
    assert Window(0.0, float(seconds)).step_s == step


def test_the_window_is_the_last_hour_of_the_job() -> None:
    assert window(0.0, 100_000.0, 200_000.0) == Window(96_400.0, 100_300.0)
    assert window(99_900.0, 100_000.0, 200_000.0) == Window(99_300.0, 100_300.0)
    assert window(1000.0, None, 100_000.0) == Window(96_400.0, 100_000.0)


def test_a_counter_that_began_again_counts_from_zero() -> None:
    values = [(0, 5), (15, 7), (30, 1), (45, 2)]
    samples = tuple(Sample(float(t), float(v)) for t, v in values)

    assert prometheus.increase(Series("ib_link_downed", "n", samples=samples)) == 4


def test_a_label_that_changes_with_the_job_does_not_split_a_series() -> None:
    def part(query: str, *times: float) -> Series:
        samples = tuple(Sample(t, t) for t in times)
        return Series("gpu_util", "n1", "0", samples, query)

    before = part('M{gpu="0",hpc_job="1"}', 0, 15, 30)
    during = part('M{gpu="0",hpc_job="2"}', 30, 45)
    other_exporter = part('other{uuid="x"}', 0, 60)
    (one,) = prometheus.merged([during, other_exporter, before])

    assert [sample.time for sample in one.samples] == [0, 15, 30, 45]
    assert one.query == during.query


def test_names_of_nodes_cannot_leave_the_selector() -> None:
    evil = {'x"} or vector(1) #': "n1", "n1": "n1"}
    with serve(lambda link, request: link.sendall(honest(request))) as (url, requests):
        Prometheus(Server(url)).series(evil, SPAN)

    assert not any(b"vector" in request for request in requests)
    assert json.dumps([r.decode() for r in requests]).count("%22%7D+or+vector") == 0
