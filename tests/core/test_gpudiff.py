"""Comparing two samples of a node: each difference, and what is none."""

from __future__ import annotations

from itertools import takewhile

import pytest
from core.c import ffi, lib, text
from core.gpunode import HEALTHY, MIB, NOT_SUPPORTED, UNKNOWN, node, texts
from gangstart.gpu import NvmlError, Sample
from gangstart.gpudiff import Changes, Difference, changes

SECOND = 1_000_000
HOUR = 3600 * SECOND
BEGUN = 1_790_000_000 * SECOND
# Row -> its reading before and after a bad job, and what that counts as.
ROWS: dict[str, tuple[str, int, int, str]] = {
    "recovery": ("recovery_action", 0, 1, "fail"),
    "ecc_unc": ("ecc_unc_volatile", 2, 3, "fail"),
    "ecc_history": ("ecc_unc_aggregate", 4, 5, "fail"),
    "sram_unc": ("sram_unc_volatile", 0, 1, "fail"),
    "sram_threshold": ("sram_threshold", 0, 1, "fail"),
    "ecc_cor": ("ecc_cor_volatile", 7, 20_000_008, "warn"),
    "remap_rows": ("remap_unc", 1, 3, "warn"),
    "remap_pending": ("remap_pending", 0, 1, "warn"),
    "remap_failed": ("remap_failed", 0, 1, "fail"),
    "remap_banks": ("remap_banks_empty", 1, 2, "warn"),
    "unrepairable": ("unrepairable", 0, 1, "fail"),
    "retired_sbe": ("retired_sbe", 1, 2, "warn"),
    "retired_dbe": ("retired_dbe", 1, 2, "warn"),
    "retired_pending": ("retired_pending", 0, 1, "warn"),
    "nvlink": ("nvlink_active", 18, 17, "fail"),
    "nvlink_errors": ("nvlink_errors", 5, 6, "warn"),
    "p2p": ("p2p_broken", 0, 1, "fail"),
    "c2c": ("c2c_down", 0, 1, "fail"),
    "pcie_width": ("pcie_width", 16, 8, "warn"),
    "pcie_replays": ("pcie_replays", 100, 100 + 31 * 60, "warn"),
    "memory": ("memory_used", 4 * MIB, 505 * MIB, "warn"),
}
COUNTERS = (
    "ecc_unc", "ecc_history", "sram_unc", "ecc_cor", "remap_rows", "retired_sbe",
    "retired_dbe", "nvlink_errors", "pcie_replays",
)  # fmt: skip


def at(sample: Sample, us: int) -> Sample:
    sample.c.taken_us = us
    return sample


def before(**changed: int | NvmlError) -> Sample:
    return at(node(spoiled=changed), BEGUN)


def after(**changed: int | NvmlError) -> Sample:
    return at(node(spoiled=changed), BEGUN + HOUR)


def found(first: Sample, second: Sample, log: str | None = "") -> Changes:
    return changes(first, second, log, host=True)


def only(result: Changes) -> Difference:
    (one,) = result.differences
    return one


def test_every_row_is_tested() -> None:
    ids = [lib.gs_gpudiff_id(n) for n in range(100)]
    assert [text(i) for i in takewhile(lambda i: i != ffi.NULL, ids)] == list(ROWS)


def test_a_node_that_did_not_change_has_no_difference() -> None:
    assert found(before(), after()) == Changes("ok", ())


@pytest.mark.parametrize("row", ROWS)
def test_what_came_during_the_job_is_told_with_its_gpu(row: str) -> None:
    reading, was, now, verdict = ROWS[row]
    result = found(before(**{reading: was}), after(**{reading: now}))
    one = only(result)
    assert (one.reading, one.kind, one.verdict) == (row, "change", verdict)
    assert (one.uuid, one.pci) == ("GPU-1", "0000:02:00.0")
    assert (one.before, one.after) == (was, now)
    assert one.reason.startswith("GPU 1 (0000:02:00.0): ")
    assert "{" not in one.reason
    assert result.verdict == verdict
    assert result.message() == one.reason


@pytest.mark.parametrize("row", ROWS)
def test_what_was_so_before_the_job_is_not_its_fault(row: str) -> None:
    reading, _, now, _ = ROWS[row]
    bad = {reading: now}
    assert found(before(**bad), after(**bad)).differences == ()


@pytest.mark.parametrize("row", ROWS)
def test_what_never_was_readable_is_no_difference(row: str) -> None:
    none = {ROWS[row][0]: NOT_SUPPORTED}
    assert found(before(**none), after(**none)).differences == ()


@pytest.mark.parametrize("row", ROWS)
def test_what_is_not_readable_any_more_is_not_unchanged(row: str) -> None:
    reading, was, _, _ = ROWS[row]
    one = only(found(before(**{reading: was}), after(**{reading: NOT_SUPPORTED})))
    assert (one.kind, one.verdict) == ("unread", "unknown")
    assert f"not read any more: {reading} (NVML_ERROR_NOT_SUPPORTED)" in one.reason
    one = only(found(before(**{reading: UNKNOWN}), after(**{reading: was})))
    assert (one.kind, one.verdict) == ("unread", "unknown")
    assert f"not read before: {reading} (NVML_ERROR_UNKNOWN)" in one.reason


@pytest.mark.parametrize("row", COUNTERS)
def test_a_counter_that_began_anew_is_said_and_not_judged(row: str) -> None:
    reading, was, now, _ = ROWS[row]
    one = only(found(before(**{reading: now}), after(**{reading: was})))
    assert (one.reading, one.kind, one.verdict) == (row, "restart", "ok")
    assert "the driver was loaded or the GPU reset in between" in one.reason
    assert reading in one.reason


@pytest.mark.parametrize("row", sorted(set(ROWS) - set(COUNTERS) - {"recovery"}))
def test_what_got_better_is_no_difference(row: str) -> None:
    reading, was, now, _ = ROWS[row]
    assert found(before(**{reading: now}), after(**{reading: was})).differences == ()


@pytest.mark.parametrize(
    ("was", "now", "verdict", "said"),
    [
        (0, 3, "warn", "drain peer-to-peer traffic"),
        (0, 5, "warn", "recover the IMEX domain"),
        (0, 99, "fail", "unknown action 99"),
        (1, 2, "fail", "reboot the node"),
        (1, 0, "ok", "asks for no recovery any more"),
    ],
)
def test_a_recovery_counts_as_what_it_asks_for(
    was: int, now: int, verdict: str, said: str
) -> None:
    one = only(found(before(recovery_action=was), after(recovery_action=now)))
    assert one.verdict == verdict
    assert said in one.reason


def test_one_fault_is_told_once() -> None:
    errors = {"ecc_unc_volatile": 2, "ecc_unc_aggregate": 9}
    more = {"ecc_unc_volatile": 3, "ecc_unc_aggregate": 10}
    assert only(found(before(**errors), after(**more))).reading == "ecc_unc"
    anew = {"ecc_unc_volatile": 0, "ecc_unc_aggregate": 10}
    result = found(before(**errors), after(**anew))
    assert [(d.reading, d.kind) for d in result.differences] == [
        ("ecc_unc", "restart"),
        ("ecc_history", "change"),
    ]
    assert result.verdict == "fail", "a reset does not hide what happened before it"


def test_corrected_errors_and_memory_within_limits_are_only_told() -> None:
    few = {"ecc_cor_volatile": 20_000_000, "memory_used": 504 * MIB}
    result = found(before(), after(**few))
    assert [(d.reading, d.verdict) for d in result.differences] == [
        ("ecc_cor", "ok"),
        ("memory", "ok"),
    ]
    assert result.message() == ""
    assert "500 MiB of memory more are in use than before (4 MiB)" in (
        result.differences[1].reason
    )


@pytest.mark.parametrize(
    ("gen", "lanes", "allowed"),
    [(3, 16, 7), (4, 16, 15), (5, 16, 30), (6, 16, 61), (3, 8, 3), (1, 16, 2)],
)
def test_pcie_replays_may_be_as_many_a_minute_as_the_standard_allows(
    gen: int, lanes: int, allowed: int
) -> None:
    link = {"pcie_gen_max": gen, "pcie_width_max": lanes, "pcie_width": lanes}
    for minutes, replays, verdict in (
        (10, allowed * 10, "ok"),
        (10, (allowed + 1) * 10, "warn"),
        (0, allowed, "ok"),  # a job of no time at all has a minute's worth
        (0, allowed + 1, "warn"),
    ):
        us = minutes * 60 * SECOND
        second = at(after(pcie_replays=replays, **link), BEGUN + us)
        result = found(before(**link), second)
        assert only(result).verdict == verdict, (minutes, replays)


@pytest.mark.parametrize(
    "unknown", [{"pcie_gen_max": NOT_SUPPORTED}, {"pcie_gen_max": 7}]
)
def test_replays_of_a_link_of_unknown_speed_are_unknown(
    unknown: dict[str, int | NvmlError],
) -> None:
    result = found(before(**unknown), after(pcie_replays=1, **unknown))
    assert only(result).verdict == "unknown"


def test_replays_are_unknown_when_the_clock_was_set_back() -> None:
    second = at(after(pcie_replays=1), BEGUN - HOUR)
    assert only(found(before(), second)).verdict == "unknown"


def test_mig_and_numa_memory_are_left_alone() -> None:
    mig: dict[str, int | NvmlError] = {
        "mig_mode": 1,
        "nvlink_active": NOT_SUPPORTED,
        "p2p_broken": NvmlError(1000),
    }
    assert found(before(), after(**mig)).differences == ()
    numa = {"numa_memory": 1}
    grown = after(memory_used=9999 * MIB, **numa)
    assert found(before(**numa), grown).differences == ()


def test_readings_that_fail_for_one_reason_are_one_difference() -> None:
    lost = dict.fromkeys(HEALTHY, NvmlError(15))
    one = only(found(before(), after(**lost)))
    assert (one.reading, one.verdict) == ("unread", "fail")
    assert "recovery_action ecc_unc_volatile" in one.reason
    two = found(before(), after(power=UNKNOWN, sram_unc_volatile=UNKNOWN))
    assert only(two).verdict == "fail", "as root on the host"
    guest = changes(before(), after(sram_unc_volatile=UNKNOWN), "")
    assert only(guest).verdict == "unknown"


def swapped() -> Sample:
    """The same two GPUs in the other order, the bad one first."""
    sample = Sample(pci_count=2)
    for i in (1, 0):
        more = {"ecc_unc_volatile": 1} if i == 1 else {}
        sample.add(texts(i), HEALTHY | more, ())
    return at(sample, BEGUN + HOUR)


def test_gpus_are_matched_by_uuid_and_never_by_index() -> None:
    one = only(found(before(), swapped()))
    assert (one.reading, one.uuid) == ("ecc_unc", "GPU-1")


def without_uuid(moved: int = 0) -> Sample:
    sample = Sample(pci_count=2)
    for i in range(2):
        more = {"ecc_unc_volatile": moved} if i == 1 else {}
        sample.add(texts(i, uuid=""), HEALTHY | more, ())
    return at(sample, BEGUN + HOUR * (moved > 0))


def test_without_a_uuid_the_pci_address_tells_the_gpu() -> None:
    assert only(found(before(), without_uuid(1))).pci == "0000:02:00.0"
    assert only(found(without_uuid(), without_uuid(1))).pci == "0000:02:00.0"


def test_another_gpu_in_the_same_slot_is_another_gpu() -> None:
    sample = at(node(1), BEGUN + HOUR)
    sample.add(texts(1, uuid="GPU-9"), HEALTHY, ())
    result = found(before(), sample)
    assert [(d.kind, d.verdict, d.uuid) for d in result.differences] == [
        ("gone", "fail", "GPU-1"),
        ("new", "ok", "GPU-9"),
    ]


def test_a_gpu_that_vanished_is_named_by_what_it_was() -> None:
    one = only(found(before(), at(node(1), BEGUN + HOUR)))
    assert (one.kind, one.verdict, one.uuid) == ("gone", "fail", "GPU-1")
    assert one.reason == (
        "GPU 1 (0000:02:00.0): it is gone: GPU-1 was there before the job"
    )


def closed(code: int, pci: str = "0000:02:00.0") -> Sample:
    sample = node(1)
    sample.add(texts(1, uuid="", pci=pci), {}, code=code)
    return sample


@pytest.mark.parametrize(("code", "verdict"), [(15, "fail"), (1000, "unknown")])
def test_a_gpu_that_cannot_be_opened_any_more_keeps_its_uuid(
    code: int, verdict: str
) -> None:
    one = only(found(before(), closed(code)))
    assert (one.kind, one.verdict, one.uuid) == ("gone", verdict, "GPU-1")
    assert "cannot be opened any more" in one.reason


def test_a_gpu_that_could_not_be_opened_before_is_unknown() -> None:
    for first, second in ((closed(15), after()), (closed(15), closed(15))):
        one = only(found(first, second))
        assert (one.kind, one.verdict) == ("unread", "unknown")
    nameless = found(closed(999, pci=""), after())
    assert [(d.kind, d.verdict) for d in nameless.differences] == [
        ("unread", "unknown"),
        ("new", "ok"),
    ]
    assert [d.kind for d in found(before(), closed(999, pci="")).differences] == [
        "gone"
    ]


def test_gpus_that_were_not_read_after_a_hang_are_not_gone() -> None:
    sample = at(node(1), BEGUN + HOUR)
    sample.c.told = 2
    sample.hang("nvmlDeviceGetEccMode", "0000:01:00.0")
    one = only(found(before(), sample))
    assert (one.kind, one.verdict, one.uuid) == ("unread", "unknown", "GPU-1")


@pytest.mark.parametrize(
    ("first", "second", "verdict", "said"),
    [
        (0, 999, "fail", "does not answer any more: NVML_ERROR_UNKNOWN"),
        (0, 1001, "fail", "does not answer any more: no answer in time"),
        (0, 1000, "unknown", "does not answer any more: not read"),
        (9, 0, "unknown", "did not answer before (NVML_ERROR_DRIVER_NOT_LOADED)"),
        (9, 18, "unknown", "does not answer (NVML_ERROR_LIB_RM_VERSION_MISMATCH)"),
    ],
)
def test_a_driver_that_does_not_answer_is_one_difference(
    first: int, second: int, verdict: str, said: str
) -> None:
    samples = [Sample(code) if code else node() for code in (first, second)]
    one = only(found(samples[0], samples[1]))
    assert (one.reading, one.verdict, one.uuid) == ("driver", verdict, "")
    assert said in one.reason


def test_a_node_without_gpus_has_no_difference() -> None:
    assert found(Sample(1000), Sample(1000), None).differences == ()


def test_many_differences_are_all_kept() -> None:
    sample = Sample(pci_count=64)
    spoiled = {reading: now for reading, _, now, _ in ROWS.values()}
    for i in range(64):
        sample.add(texts(i), HEALTHY | spoiled, ())
    first = at(node(64, pcie_replays=0), BEGUN)
    result = found(first, at(sample, BEGUN + SECOND))
    assert len(result.differences) == 64 * (len(ROWS) - 1)  # one error, told once
    lib.gs_gpudiffs_free(ffi.NULL)


def test_kinds_have_names() -> None:
    kinds = [text(lib.gs_gpudiff_kind_name(k)) for k in range(lib.GS_GPUDIFF_KINDS)]
    assert len(set(kinds)) == len(kinds)
    assert text(lib.gs_gpudiff_kind_name(ffi.cast("enum gs_gpudiff_kind", 99))) == ""
