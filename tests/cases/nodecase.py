"""Cases of one node, for adapter.py: its GPUs' health, and what a job left there."""

from __future__ import annotations

from typing import Any, TypeAlias

from gangstart import gpu
from gangstart.check import leftover

Json: TypeAlias = dict[str, Any]
Value: TypeAlias = "int | gpu.NvmlError | None"

MIB = 1 << 20
HUNG = 1001
# Field of a case -> (reading, how many of the reading's units its unit is).
READINGS = {
    "util": ("utilization", 1),
    "mem_util": ("memory_utilization", 1),
    "power_w": ("power", 1000),
    "power_limit_w": ("power_limit", 1000),
    "power_default_w": ("power_default", 1000),
    "temp": ("temperature", 1),
    "temp_slowdown": ("temperature_slowdown", 1),
    "mem_temp": ("temperature_memory", 1),
    "sm_clock": ("clock_sm", 1),
    "sm_clock_max": ("clock_sm_max", 1),
    "ecc_mode": ("ecc_mode", 1),
    "ecc_volatile_unc": ("ecc_unc_volatile", 1),
    "ecc_aggregate_unc": ("ecc_unc_aggregate", 1),
    "ecc_volatile_corr": ("ecc_cor_volatile", 1),
    "sram_unc": ("sram_unc_volatile", 1),
    "sram_threshold": ("sram_threshold", 1),
    "remap_pending": ("remap_pending", 1),
    "remap_failure": ("remap_failed", 1),
    "remapped_unc": ("remap_unc", 1),
    "retired_dbe": ("retired_dbe", 1),
    "retired_sbe": ("retired_sbe", 1),
    "retired_pending": ("retired_pending", 1),
    "recovery_action": ("recovery_action", 1),
    "mem_used_mib": ("memory_used", MIB),
    "mem_total_mib": ("memory_total", MIB),
    "persistence": ("persistence", 1),
    "compute_mode": ("compute_mode", 1),
    "mig": ("mig_mode", 1),
    "mig_pending": ("mig_mode_pending", 1),
    "pcie_width": ("pcie_width", 1),
    "pcie_width_max": ("pcie_width_max", 1),
    "pcie_gen": ("pcie_gen", 1),
    "pcie_gen_max": ("pcie_gen_max", 1),
    "nvlink_active": ("nvlink_active", 1),
    "nvlink_count": ("nvlink_count", 1),
    "fabric_state": ("fabric_state", 1),
    "virtualization": ("virtualization", 1),
    "minor": ("minor", 1),
}
RECOVERY = ("none", "reset", "reboot", "drain_p2p", "drain_and_reset")


def code_of(value: object) -> int | None:
    """NVML's code if the value stands for a failed query."""
    if isinstance(value, dict) and ("hang" in value or "blocks_s" in value):
        return HUNG
    if isinstance(value, str) and value.startswith("NVML_ERROR"):
        value = {"error": value}
    if isinstance(value, dict) and "error" in value:
        name = str(value["error"])
        prefix = "" if name.startswith("NVML_") else "NVML_ERROR_"
        return gpu.nvml_code(prefix + name)
    if isinstance(value, str):
        known = {"n/a", "[n/a]", "not supported", "[not supported]"}
        supported = value.strip().lower() not in known
        return gpu.nvml_code(
            "NVML_ERROR_" + ("UNKNOWN" if supported else "NOT_SUPPORTED")
        )
    return None


def number(value: object, scale: int) -> Value:
    """A reading's value, or why there is none; what is negative cannot be true."""
    code = code_of(value)
    if code is not None:
        return gpu.NvmlError(code)
    if isinstance(value, (bool, int, float)):
        whole = round(value * scale)
        return whole if 0 <= whole <= gpu.NOT_TOLD else gpu.NOT_TOLD
    return None


def any_text(value: object) -> str:
    """Text of a name, whether bytes or text were returned; "" if it failed."""
    if isinstance(value, dict) and "bytes_hex" in value:
        return gpu.plain_text(bytes.fromhex(value["bytes_hex"]))
    return gpu.plain_text(value) if isinstance(value, str) and value else ""


def clock_mask(value: object) -> Value:
    """Bits of a list of names, of a number, or a failed query."""
    if not isinstance(value, list):
        return number(value, 1)
    bits = {name: bit for bit, name in gpu.CLOCK_REASONS.items()}
    return sum(bits.get(str(name).upper(), 0) for name in value)


def readings_of(given: Json) -> dict[str, int | gpu.NvmlError]:
    """What one GPU answers, under the product's names."""
    found: dict[str, Value] = {
        reading: number(given[name], scale)
        for name, (reading, scale) in READINGS.items()
        if name in given
    }
    action = given.get("recovery_action")
    if isinstance(action, str) and action.lower() in RECOVERY:
        found["recovery_action"] = RECOVERY.index(action.lower())
    if "throttle_reasons" in given:
        found["clock_reasons"] = clock_mask(given["throttle_reasons"])
    return {name: value for name, value in found.items() if value is not None}


def processes_of(given: Json) -> list[tuple[int, int | None]] | gpu.NvmlError | None:
    """Processes as the driver lists them."""
    listed = given.get("procs")
    code = code_of(listed)
    if code is not None:
        return gpu.NvmlError(code)
    if not isinstance(listed, list):
        return None
    rows = [row if isinstance(row, dict) else {"pid": row} for row in listed]
    return [(int(row["pid"]) & 0xFFFFFFFF, None) for row in rows]


def pci_count(lspci: object) -> int:
    """Display devices of NVIDIA in what lspci says; -1 = it was not asked."""
    if isinstance(lspci, int):
        return lspci
    if isinstance(lspci, str):
        lspci = lspci.splitlines()
    if not isinstance(lspci, list):
        return -1
    return sum(1 for row in lspci if is_display(row))


def is_display(row: object) -> bool:
    """Whether a row is an NVIDIA GPU: a line of lspci, or an address alone."""
    if isinstance(row, dict) and "line" not in row:
        return True
    line = str(row["line"] if isinstance(row, dict) else row).strip().lower()
    kinds = ("vga", "3d controller", "display", "[0300]", "[0302]")
    whole = "nvidia" in line and any(kind in line for kind in kinds)
    return whole or bool(line and " " not in line)


def sample_of(given: Json) -> gpu.Sample:
    """The node's sample."""
    init = str(given.get("nvml_init") or "NVML_SUCCESS")
    code = 0 if init == "NVML_SUCCESS" else code_of({"error": init})
    sample = gpu.Sample(code or 0, pci_count(given.get("lspci")))
    for row in given.get("gpus") or []:
        handle = code_of(row.get("handle")) or 0
        texts = gpu.GpuText(
            uuid=any_text(row.get("uuid")),
            pci=any_text(row.get("bus_id")),
            name=any_text(row.get("name")),
            vbios=any_text(row.get("vbios")),
        )
        values = {} if handle else readings_of(row)
        listed = None if handle else processes_of(row)
        sample.add(texts, values, listed, code=handle, index=row.get("index"))
        hung = [k for k, v in row.items() if code_of(v) == HUNG]
        if hung:
            sample.hang(hung[0], texts.pci)
    return sample


def shown(sample: gpu.Sample, i: int, name: str, value: object) -> object:
    """A field of the record: what the product knows of it, None if it does not."""
    if name in READINGS:
        known = sample.value(i, READINGS[name][0])
        if known is None or isinstance(value, bool):
            return None if known is None else bool(known)
        return value if isinstance(value, (int, float)) else known
    if name == "throttle_reasons":
        mask = sample.value(i, "clock_reasons")
        if mask is None or isinstance(value, list):
            return None if mask is None else value
        return gpu.clock_reasons(mask)
    if name in ("uuid", "name", "vbios"):
        return sample.text(i, name)
    return None if code_of(value) is not None and isinstance(value, dict) else value


def record(sample: gpu.Sample, verdict: gpu.Verdict, i: int, given: Json) -> Json:
    """One GPU's record."""
    made = {name: shown(sample, i, name, value) for name, value in given.items()}
    for name in ("uuid", "name"):
        made[name] = sample.text(i, name)
    hits = verdict.hits(i)
    made["ok"] = all(f.verdict == "warn" for f in hits)
    made["warn"] = sorted({f.code for f in hits if f.verdict == "warn"})
    return made


def health(given: Json) -> Json:
    """Judge a node whose state lasts, as root on the host."""
    sample = sample_of(given)
    rows = given.get("gpus") or []
    devices = given.get("job_devices") or []
    found = [
        sample.find(any_text(d.get("uuid")), any_text(d.get("bus_id"))) for d in devices
    ]
    expected = given.get("gres_expected")
    context = gpu.Context(
        expected=-1 if expected is None else expected,
        root=True,
        in_container=bool(given.get("in_container")),
        idle=given.get("running_jobs") == [],
        lasting=True,
        step_gpus=[d["uuid"] for d in devices if d.get("uuid")],
        kernel_log="\n".join(given.get("dmesg") or []),
    )
    verdict = gpu.judge(sample, context)
    records = [record(sample, verdict, i, row) for i, row in enumerate(rows)]
    hits = verdict.hits()
    codes = {f.code for f in hits if f.verdict != "warn"}
    if any(f.nvml_code and f.gpu is not None for f in hits):
        codes.add("QUERY_FAILED")
    return {
        "node_ok": verdict.node in ("ok", "warn"),
        "codes": sorted(codes),
        "warn": sorted({f.code for f in hits if f.verdict == "warn"}),
        "gpus": records,
        "job_gpus": [
            {"uuid": d.get("uuid"), "name": None} if i is None else records[i]
            for d, i in zip(devices, found, strict=True)
        ],
        "drain": verdict.drain,
        "kill_running": False,  # a verdict stops starts; it ends nothing
        "message": verdict.message(),
    }


def ports_of(listed: object) -> list[int]:
    """Ports from 29500, "0.0.0.0:29500" or {"port": 29500}."""
    rows = listed if isinstance(listed, list) else [listed] if listed else []
    texts = [str(row.get("port") if isinstance(row, dict) else row) for row in rows]
    ends = [text.rsplit(":", 1)[-1].split("/")[0] for text in texts]
    return [int(end) for end in ends if end.isdigit()]


def process_of(row: Json) -> leftover.Process:
    """One process of a case."""
    return leftover.Process(
        pid=row["pid"],
        uid=row.get("uid"),
        cgroup=str(row.get("cgroup") or ""),
        command=str(row.get("cmd") or ""),
        env=row.get("env"),
        devices=row.get("fds") or (),
        gpu_memory_mib=row.get("gpu_mem_mib") or 0,
        gpus=[str(g) for g in row.get("gpus") or ()],
        ports=ports_of(row.get("listen")),
        zombie=str(row.get("state") or "").startswith("Z"),
        started=row.get("start"),
    )


HOLDERS = ("pids", "mapped_by", "open_by", "opened_by", "used_by", "holders")
CREATORS = ("pid", "creator", "creator_pid", "cpid", "owner_pid")


def shm_of(row: Json | str) -> leftover.Shm:
    """One file of /dev/shm of a case."""
    if isinstance(row, str):
        return leftover.Shm(row)
    holders = [row[key] for key in HOLDERS if row.get(key) is not None]
    flat = [p for h in holders for p in (h if isinstance(h, list) else [h])]
    creators = [row[key] for key in CREATORS if row.get(key) is not None]
    job = row.get("job_id", row.get("job"))
    return leftover.Shm(
        name=row.get("path") or row.get("name") or row.get("file") or "",
        uid=row.get("uid"),
        holders=flat,
        creator=creators[0] if creators else None,
        job=None if job is None else int(job),
    )


def running_of(listed: object) -> dict[int, int | None] | None:
    """Running jobs, with their users' ids if they are told; None = unreadable."""
    if not isinstance(listed, list):
        return None
    rows = [row if isinstance(row, dict) else {"job_id": row} for row in listed]
    return {int(row["job_id"]): row.get("uid") for row in rows}


def procs(given: Json) -> Json:
    """Judge what a job left, or what stands in the way of one."""
    node = leftover.Node(
        processes=[process_of(row) for row in given.get("procs") or []],
        running=running_of(given.get("running_jobs")),
        shm=[shm_of(row) for row in given.get("shm") or []],
    )
    ended = given.get("ended_job")
    job = leftover.Job(
        job_id=int(given["starting_job"] if ended is None else ended),
        uid=given.get("job_uid"),
        started=given.get("job_start"),
        ended=given.get("job_end"),
    )
    gpus = given.get("job_gpus")
    wanted = None if gpus is None else [str(g) for g in gpus]
    left = (
        leftover.before_job(job, node, wanted)
        if ended is None
        else leftover.after_job(job, node)
    )
    return {
        "orphans": left.pids,
        "ports": list(left.ports),
        "shm": list(left.shm),
        "codes": list(left.codes),
        "message": left.message(),
    }
