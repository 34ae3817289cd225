"""Which metrics of which exporters mean what: one table. Pure.

A further exporter is a row for each of its metrics. Names and units are from the
exporters' own lists: dcgm-exporter's default-counters.csv, nvidia_gpu_exporter's test
data, node_exporter's collectors (infiniband_linux.go and others).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

GAUGE, COUNTER = "gauge", "counter"
GPU, HCA, NODE = "gpu", "hca", "node"
MIB = 1.0 / (1 << 20)
#: Not a quantity of interest: which GPU it is where an exporter counts by UUID.
INDEX = "gpu_index"


@dataclass(frozen=True)
class Row:
    """One metric of an exporter: its value times `scale` is the quantity."""

    quantity: str
    metric: str
    unit: str
    kind: str = GAUGE
    of: str = GPU  # a GPU, an HCA's port, or something of the node
    scale: float = 1.0
    device: str = ""  # label that names the device; "" = see DEVICE_LABELS


def dcgm(quantity: str, field: str, unit: str, kind: str = GAUGE) -> Row:
    """Make a row of dcgm-exporter."""
    return Row(quantity, f"DCGM_FI_DEV_{field}", unit, kind)


def smi(quantity: str, name: str, unit: str, scale: float = 1.0) -> Row:
    """Make a row of nvidia_gpu_exporter, which knows GPUs by their UUID."""
    return Row(quantity, f"nvidia_smi_{name}", unit, GAUGE, GPU, scale)


def port(quantity: str, name: str) -> Row:
    """Make a row of node_exporter about a port of an HCA."""
    return Row(quantity, f"node_infiniband_{name}_total", "", COUNTER, HCA)


def node(
    quantity: str, name: str, unit: str, kind: str = GAUGE, device: str = ""
) -> Row:
    """Make a row of node_exporter about the node, or one of its devices."""
    return Row(quantity, f"node_{name}", unit, kind, NODE, 1.0, device)


ROWS: tuple[Row, ...] = (
    dcgm("gpu_util", "GPU_UTIL", "%"),
    dcgm("gpu_power_w", "POWER_USAGE", "W"),
    dcgm("gpu_power_limit_w", "POWER_MGMT_LIMIT", "W"),
    dcgm("gpu_temp_c", "GPU_TEMP", "°C"),
    dcgm("gpu_memory_temp_c", "MEMORY_TEMP", "°C"),
    dcgm("sm_clock_mhz", "SM_CLOCK", "MHz"),
    dcgm("xid", "XID_ERRORS", ""),  # a gauge: the last code, not a count
    dcgm("throttle_bits", "CLOCK_THROTTLE_REASONS", ""),
    dcgm("throttle_bits", "CLOCKS_EVENT_REASONS", ""),  # its name from DCGM 3.3 on
    dcgm("fb_used_mib", "FB_USED", "MiB"),
    dcgm("ecc_uncorrected", "ECC_DBE_VOL_TOTAL", "", COUNTER),
    dcgm("ecc_corrected", "ECC_SBE_VOL_TOTAL", "", COUNTER),
    dcgm("row_remap_failure", "ROW_REMAP_FAILURE", ""),
    dcgm("rows_remapped", "UNCORRECTABLE_REMAPPED_ROWS", "", COUNTER),
    dcgm("pcie_replays", "PCIE_REPLAY_COUNTER", "", COUNTER),
    dcgm("nvlink_crc_errors", "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "", COUNTER),
    dcgm("nvlink_replays", "NVLINK_REPLAY_ERROR_COUNT_TOTAL", "", COUNTER),
    dcgm("nvlink_recoveries", "NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "", COUNTER),
    smi("gpu_util", "utilization_gpu_ratio", "%", 100.0),
    smi("gpu_power_w", "power_draw_watts", "W"),
    smi("gpu_power_limit_w", "enforced_power_limit_watts", "W"),
    smi("gpu_temp_c", "temperature_gpu", "°C"),
    smi("gpu_memory_temp_c", "temperature_memory", "°C"),
    smi("sm_clock_mhz", "clocks_current_sm_clock_hz", "MHz", 1e-6),
    smi("throttle_bits", "clocks_event_reasons_active", ""),
    smi("throttle_bits", "clocks_throttle_reasons_active", ""),
    smi("fb_used_mib", "memory_used_bytes", "MiB", MIB),
    smi("ecc_uncorrected", "ecc_errors_uncorrected_volatile_total", ""),
    smi(INDEX, "index", ""),
    port("ib_link_downed", "link_downed"),
    port("ib_link_recoveries", "link_error_recovery"),
    port("ib_symbol_errors", "symbol_error"),
    port("ib_receive_errors", "port_errors_received"),
    port("ib_discards", "port_discards_transmitted"),
    port("ib_integrity_errors", "local_link_integrity_errors"),
    port("ib_retransmits", "roce_adp_retransmits"),
    port("ib_ack_timeouts", "local_ack_timeout_errors"),
    port("ib_sequence_errors", "packet_sequence_errors"),
    port("ib_out_of_sequence", "out_of_sequence_packets_received"),
    port("ib_rnr_retries", "rnr_nak_retry_packets_received"),
    Row("ib_state", "node_infiniband_state_id", "", GAUGE, HCA),
    Row("ib_rate", "node_infiniband_rate_bytes_per_second", "B/s", GAUGE, HCA),
    node("mem_available_bytes", "memory_MemAvailable_bytes", "B"),
    node("mem_total_bytes", "memory_MemTotal_bytes", "B"),
    node("oom_kills", "vmstat_oom_kill", "", COUNTER),
    node("fs_available_bytes", "filesystem_avail_bytes", "B", GAUGE, "mountpoint"),
    node("fs_readonly", "filesystem_readonly", "", GAUGE, "mountpoint"),
    node("fs_error", "filesystem_device_error", "", GAUGE, "mountpoint"),
    node("disk_busy_s", "disk_io_time_seconds_total", "s", COUNTER, "device"),
    node("nfs_retransmits", "nfs_rpc_retransmissions_total", "", COUNTER),
    node("tcp_retransmits", "netstat_Tcp_RetransSegs", "", COUNTER),
    node("net_receive_errors", "network_receive_errs_total", "", COUNTER, "device"),
    node("net_carrier_changes", "network_carrier_changes_total", "", COUNTER, "device"),
    node("boot_time_s", "boot_time_seconds", "s"),
    node("clock_offset_s", "timex_offset_seconds", "s"),
    node("load1", "load1", ""),
)

BY_METRIC: Mapping[str, Row] = {row.metric: row for row in ROWS}
KINDS: Mapping[str, str] = {row.quantity: row.kind for row in ROWS}

#: Labels that tell the node, the first that is there counts. `instance` is HOST:PORT.
NODE_LABELS = (
    "Hostname",
    "hostname",
    "node",
    "nodename",
    "host",
    "kubernetes_node",
    "exported_node",
    "instance",
)
#: Labels that tell the device, by what it is one of.
DEVICE_LABELS = {
    GPU: ("gpu", "minor_number", "index", "GPU"),
    HCA: ("device", "hca"),
    NODE: (),
}
UUID_LABELS = ("UUID", "uuid", "gpu_uuid", "GPU_UUID")
UUID_PREFIX = "GPU-"
UUID_DIGITS = 36  # what nvidia_gpu_exporter leaves of it


def first(labels: Mapping[str, str], names: Iterable[str]) -> str:
    """Value of the first of these labels that is there."""
    return next((labels[name] for name in names if labels.get(name)), "")


def host(value: str) -> str:
    """A node's name out of HOST, HOST:PORT or [ADDRESS]:PORT."""
    if value.startswith("["):
        return value[1:].partition("]")[0]
    return value.partition(":")[0] if value.count(":") == 1 else value


def node_of(labels: Mapping[str, str], aliases: Mapping[str, str]) -> str:
    """Which of the nodes a series is about; "" if none.

    `aliases` maps names and addresses, in lower case, to the node's name in Slurm. A
    label that names somebody else (Hostname is a pod's in Kubernetes) is passed over.
    """
    for name in NODE_LABELS:
        told = host(labels.get(name, "")).lower()
        for candidate in (told, told.partition(".")[0]):
            if candidate in aliases:
                return aliases[candidate]
    return ""


def uuid_of(labels: Mapping[str, str]) -> str:
    """A GPU's UUID as NVIDIA writes it."""
    found = first(labels, UUID_LABELS)
    bare = len(found) == UUID_DIGITS and not found.startswith(UUID_PREFIX)
    return UUID_PREFIX + found if bare else found


def device_of(row: Row, labels: Mapping[str, str]) -> str:
    """The device of a series: a GPU's index, an HCA and its port, a mount point.

    A GPU whose index is not told has its UUID; see `prometheus.with_index`.
    """
    if row.device:
        return labels.get(row.device, "")
    found = first(labels, DEVICE_LABELS[row.of])
    if row.of == HCA and labels.get("port"):
        return f"{found}/{labels['port']}"
    if row.of != GPU:
        return found
    if not found and labels.get("device", "").startswith("nvidia"):
        found = labels["device"].removeprefix("nvidia")
    instance = labels.get("GPU_I_ID", "")
    index = f"{found}/{instance}" if found and instance else found
    return index or uuid_of(labels)
