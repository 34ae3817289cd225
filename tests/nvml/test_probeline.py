"""Lines of readings: hostile ones are refused, and nothing else is harmed."""

from __future__ import annotations

import json

import pytest
from core.c import Struct, ffi, lib, taken, text
from hypothesis import given
from hypothesis import strategies as st
from nvml.readings import NAMES, gpus_of

EPROTO = -71
GPU, NODE, COMPLETE, ASKING, ERROR = (
    lib.GS_PROBE_LINE_GPU,
    lib.GS_PROBE_LINE_NODE,
    lib.GS_PROBE_LINE_COMPLETE,
    lib.GS_PROBE_LINE_ASKING,
    lib.GS_PROBE_LINE_ERROR,
)


class Reader:
    """A struct gs_gpus that lines are read into."""

    def __init__(self) -> None:
        self.gpus = ffi.new("struct gs_gpus *")
        self.error = ffi.new("struct gs_error *")
        lib.gs_gpus_init(self.gpus)

    def read(self, line: bytes | str) -> int:
        raw = line if isinstance(line, bytes) else line.encode()
        kept = ffi.new("char[]", raw)  # exactly as long, so that ASan sees more
        return int(lib.gs_probe_line_read(kept, self.gpus, self.error))


@pytest.fixture
def reader() -> Reader:
    return Reader()


def filled() -> Struct:
    """A GPU with a value of its own in every reading."""
    gpus = ffi.new("struct gs_gpus *")
    lib.gs_gpus_init(gpus)
    gpu = gpus.gpus[0]
    gpu.code = 0
    gpu.index, gpu.fabric_clique, gpu.process_code = 3, 2**32 - 1, 0
    for field, value in (("uuid", b'GPU-"\\1'), ("pci", b"0000:1a:00.0")):
        setattr(gpu, field, value)
    for i in range(lib.GS_GPU_READINGS):
        gpu.values[i].code = (0, 15, 77, lib.GS_GPU_NOT_ASKED)[i % 4]
        gpu.values[i].value = 2**64 - 1 - i if i % 4 == 0 else 0
    for i in range(lib.GS_GPU_PROCESSES):
        gpu.processes[i].pid = 2**32 - 1 - i
        gpu.processes[i].memory = 2**64 - 1 - i
    gpu.process_count = gpu.process_total = lib.GS_GPU_PROCESSES
    gpus.count = 1
    return gpus


def test_a_gpu_comes_back_as_it_was_written(reader: Reader) -> None:
    gpus = filled()
    line = taken(lib.gs_gpu_line(ffi.addressof(gpus.gpus[0])))

    assert reader.read(line) == GPU
    assert gpus_of(reader.gpus) == gpus_of(gpus)
    assert len(line) < lib.GS_PROBE_LINE
    assert next(iter(json.loads(line)["gpu"]["readings"])) == NAMES[0]


@pytest.mark.parametrize(("complete", "kind"), [(False, NODE), (True, COMPLETE)])
@pytest.mark.parametrize("pci_count", [-1, 0, 8])
def test_a_node_comes_back_as_it_was_written(
    reader: Reader, *, complete: bool, kind: int, pci_count: int
) -> None:
    gpus = ffi.new("struct gs_gpus *")
    lib.gs_gpus_init(gpus)
    gpus.pci_count, gpus.told, gpus.init_code = pci_count, 8, 18
    gpus.driver_loaded, gpus.driver, gpus.taken_us = (
        True,
        b"570.1",
        1_790_000_000_000_000,
    )

    assert reader.read(taken(lib.gs_gpus_line(gpus, complete))) == kind
    assert (reader.gpus.pci_count, reader.gpus.told) == (pci_count, 8)
    assert (reader.gpus.init_code, reader.gpus.count_code) == (18, lib.GS_GPU_NOT_ASKED)
    assert reader.gpus.driver_loaded
    assert text(reader.gpus.driver) == "570.1"
    assert reader.gpus.taken_us == 1_790_000_000_000_000


def test_unknown_keys_are_passed_over(reader: Reader) -> None:
    line = {
        "gpu": {
            "new": {"a": [1, {"b": ']}\\"'}], "c": None},
            "readings": {"tomorrow": 1, "power": 7, "later": "x"},
            "processes": [{"user": "u", "pid": 5, "memory": None}],
            "index": 2,
        },
        "also": [[]],
    }

    assert reader.read(json.dumps(line)) == GPU
    assert reader.gpus.gpus[0].index == 2
    assert gpus_of(reader.gpus)[0].readings["power"] == 7
    assert gpus_of(reader.gpus)[0].processes == {5: None}


def test_what_is_asked_and_what_went_wrong_are_told(reader: Reader) -> None:
    assert reader.read('{"asking":"nvmlInit_v2","gpu":""}') == ASKING
    assert text(reader.gpus.hung_call) == "nvmlInit_v2"
    assert reader.read('{"error":"no \\u00e9\\u20ac\\n room"}') == ERROR
    assert text(reader.error.text).startswith("no ")


def test_control_characters_do_not_get_through(reader: Reader) -> None:
    assert reader.read('{"gpu":{"name":"a\\u001b[31m\\u00ff\\u0000"}}') == GPU
    assert gpus_of(reader.gpus)[0].texts["name"] == "a?[31m??"


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{}",
        "[]",
        "null",
        '{"gpu":',
        '{"gpu":{}',
        '{"gpu":{}}}',
        '{"gpu":{}} x',
        '{"gpu":[]}',
        '{"gpu":{"index":-1}}',
        '{"gpu":{"index":1.5}}',
        '{"gpu":{"index":4294967296}}',
        '{"gpu":{"index":99999999999999999999999999}}',
        '{"gpu":{"index":"1"}}',
        '{"gpu":{"code":0}}',
        '{"gpu":{"code":"NVML_ERROR_1000"}}',
        '{"gpu":{"code":"fine"}}',
        '{"gpu":{"uuid":"' + "x" * 96 + '"}}',
        '{"gpu":{"uuid":"\\q"}}',
        '{"gpu":{"uuid":"\\u12"}}',
        '{"gpu":{"uuid":"\t"}}',
        '{"gpu":{"readings":{"power":18446744073709551616}}}',
        '{"gpu":{"readings":{"power":true}}}',
        '{"gpu":{"readings":[]}}',
        '{"gpu":{"processes":[1]}}',
        '{"gpu":{"processes":[{"pid":4294967296}]}}',
        '{"gpu":{"x":' + "[" * 100 + "]" * 100 + "}}",
        '{"gpu" {}}',
        '{"gpu":{"index":1 "code":"NVML_SUCCESS"}}',
        '{"' + "k" * 5000 + '":1}',
        '{"node":{"complete":1}}',
        '{"node":{"driver_loaded":"yes"}}',
        '{"node":{"taken_us":9223372036854775808}}',
        '{"asking":5}',
        '{"what":1}',
    ],
)
def test_anything_else_is_refused_and_quoted(reader: Reader, line: str) -> None:
    assert reader.read(line) == EPROTO
    assert "is the program named by probe= ours?" in text(reader.error.text)
    assert reader.gpus.count == 0


def test_more_gpus_than_a_node_has_are_refused(reader: Reader) -> None:
    for _ in range(lib.GS_GPU_MAX):
        assert reader.read('{"gpu":{}}') == GPU

    assert reader.read('{"gpu":{}}') == EPROTO
    assert reader.gpus.count == lib.GS_GPU_MAX


def test_more_processes_than_fit_are_dropped(reader: Reader) -> None:
    many = json.dumps({"gpu": {"processes": [{"pid": i} for i in range(500)]}})

    assert reader.read(many) == GPU
    assert reader.gpus.gpus[0].process_count == lib.GS_GPU_PROCESSES


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tail: bytes) -> None:
    for start in (b"", b'{"gpu":{"', b'{"gpu":{"readings":{"power":', b'{"node":{"'):
        rc = Reader().read(start + tail.replace(b"\0", b""))
        assert rc == EPROTO or rc >= 0


@given(st.integers(0, 400), st.integers(1, 255))
def test_a_line_with_one_byte_changed_is_read_or_refused(at: int, byte: int) -> None:
    gpus = filled()
    line = bytearray(taken(lib.gs_gpu_line(ffi.addressof(gpus.gpus[0]))).encode())
    line[at] = byte
    rc = Reader().read(bytes(line))

    assert rc in {EPROTO, GPU}


def test_an_error_without_a_word_has_one_all_the_same(reader: Reader) -> None:
    kind = reader.read('{"error":""}')
    assert kind == lib.GS_PROBE_LINE_ERROR
    assert "without a reason" in text(reader.error.text)
