"""Types of the generated module: every name of ``lib``, kept equal by a test."""

from typing import Any

class CData:
    """A C object: its fields and elements are whatever the headers say."""

    def __getattr__(self, name: str) -> Any: ...  # noqa: ANN401 - any field
    def __setattr__(self, name: str, value: object) -> None: ...
    def __getitem__(self, index: int | slice) -> Any: ...  # noqa: ANN401 - any element
    def __setitem__(self, index: int, value: object) -> None: ...
    def __len__(self) -> int: ...

class _FFI:
    NULL: CData
    def new(self, ctype: str, init: object = None) -> CData: ...
    def string(self, value: CData) -> bytes | str: ...
    def buffer(self, value: CData, size: int = -1) -> memoryview: ...
    def gc(self, value: CData, destructor: object) -> CData: ...
    def typeof(self, value: object) -> Any: ...  # noqa: ANN401 - cffi's own type

class _Lib:
    GS_ADDR_SIZE: int
    GS_AUTO_ALWAYS: int
    GS_AUTO_GPU: int
    GS_AUTO_NEVER: int
    GS_BODY_MAX: int
    GS_CANCELLED: int
    GS_CANDIDATE_MAX: int
    GS_CHECKS: int
    GS_CHECK_BUS: int
    GS_CHECK_C2C: int
    GS_CHECK_CLOCK_HW: int
    GS_CHECK_CLOCK_HW_BUSY: int
    GS_CHECK_CLOCK_LOCKED: int
    GS_CHECK_CLOCK_SW: int
    GS_CHECK_COMPUTE_MODE: int
    GS_CHECK_COUNT: int
    GS_CHECK_DRIVER: int
    GS_CHECK_ECC_COR: int
    GS_CHECK_ECC_COR_ODD: int
    GS_CHECK_ECC_HISTORY: int
    GS_CHECK_ECC_MODE: int
    GS_CHECK_ECC_PENDING: int
    GS_CHECK_ECC_UNC: int
    GS_CHECK_EXCLUSIVE: int
    GS_CHECK_FABRIC: int
    GS_CHECK_FABRIC_BAD: int
    GS_CHECK_FABRIC_SLOW: int
    GS_CHECK_GHOST: int
    GS_CHECK_HANDLE: int
    GS_CHECK_HUNG: int
    GS_CHECK_INFOROM: int
    GS_CHECK_INIT: int
    GS_CHECK_LOST: int
    GS_CHECK_MAX: int
    GS_CHECK_MEMORY: int
    GS_CHECK_MEMORY_HELD: int
    GS_CHECK_MIG_PENDING: int
    GS_CHECK_NVLINK: int
    GS_CHECK_ODD_DRIVER: int
    GS_CHECK_ODD_FABRIC: int
    GS_CHECK_ODD_MEMORY: int
    GS_CHECK_ODD_MODEL: int
    GS_CHECK_ODD_NVLINK: int
    GS_CHECK_ODD_PCIE: int
    GS_CHECK_ODD_POWER_LIMIT: int
    GS_CHECK_ODD_VBIOS: int
    GS_CHECK_P2P: int
    GS_CHECK_PCIE_GEN: int
    GS_CHECK_PCIE_WIDTH: int
    GS_CHECK_PERSISTENCE: int
    GS_CHECK_POWER_LIMIT: int
    GS_CHECK_PROCESS: int
    GS_CHECK_QUERY: int
    GS_CHECK_RECOVERY: int
    GS_CHECK_RECOVERY_PEER: int
    GS_CHECK_REMAP_BANKS: int
    GS_CHECK_REMAP_FAILED: int
    GS_CHECK_REMAP_PENDING: int
    GS_CHECK_REMAP_ROWS: int
    GS_CHECK_RESET: int
    GS_CHECK_RETIRED: int
    GS_CHECK_RETIRED_DBE: int
    GS_CHECK_RETIRED_PENDING: int
    GS_CHECK_SANE: int
    GS_CHECK_SRAM_THRESHOLD: int
    GS_CHECK_SRAM_UNC: int
    GS_CHECK_STEP_GPU: int
    GS_CHECK_SXID: int
    GS_CHECK_TEMP_HOT: int
    GS_CHECK_TEMP_IDLE: int
    GS_CHECK_TEMP_MARGIN: int
    GS_CHECK_TEMP_MEMORY: int
    GS_CHECK_UNREPAIRABLE: int
    GS_CHECK_XID: int
    GS_CLOCK_BOOT: int
    GS_CLOCK_NONE: int
    GS_CLOCK_WALL: int
    GS_ENV_NAME_SIZE: int
    GS_ENV_NONE: int
    GS_ENV_TORCH: int
    GS_ENV_VALUE_SIZE: int
    GS_ERROR_SIZE: int
    GS_FAIL: int
    GS_FAIL_ASKED: int
    GS_FAIL_CONFIG: int
    GS_FAIL_EXIT: int
    GS_FAIL_LAUNCH: int
    GS_FAIL_LOST: int
    GS_FAIL_SIGNAL: int
    GS_FINDING_HIT: int
    GS_FINDING_NOTE: int
    GS_FINDING_REASON: int
    GS_FINDING_SKIPPED: int
    GS_FINDING_TEXT: int
    GS_FRAME_ABORT: int
    GS_FRAME_ARRIVED: int
    GS_FRAME_BYE: int
    GS_FRAME_CHALLENGE: int
    GS_FRAME_FAIL: int
    GS_FRAME_GO: int
    GS_FRAME_HELLO: int
    GS_FRAME_MASTER: int
    GS_FRAME_PING: int
    GS_FRAME_PROBE: int
    GS_FRAME_REACH: int
    GS_FRAME_REPORT: int
    GS_FRAME_STATE: int
    GS_GPU_C2C_DOWN: int
    GS_GPU_CLOCK_REASONS: int
    GS_GPU_CLOCK_SM: int
    GS_GPU_CLOCK_SM_MAX: int
    GS_GPU_COMPUTE_MODE: int
    GS_GPU_ECC_COR_VOLATILE: int
    GS_GPU_ECC_MODE: int
    GS_GPU_ECC_MODE_PENDING: int
    GS_GPU_ECC_UNC_AGGREGATE: int
    GS_GPU_ECC_UNC_VOLATILE: int
    GS_GPU_FABRIC_HEALTH: int
    GS_GPU_FABRIC_STATE: int
    GS_GPU_FABRIC_STATUS: int
    GS_GPU_HUNG: int
    GS_GPU_INFOROM: int
    GS_GPU_LINKS: int
    GS_GPU_MAX: int
    GS_GPU_MEMORY_TOTAL: int
    GS_GPU_MEMORY_USED: int
    GS_GPU_MEMORY_UTILIZATION: int
    GS_GPU_MIG_MODE: int
    GS_GPU_MIG_MODE_PENDING: int
    GS_GPU_MINOR: int
    GS_GPU_NOT_ASKED: int
    GS_GPU_NUMA_MEMORY: int
    GS_GPU_NVLINK_ACTIVE: int
    GS_GPU_NVLINK_COUNT: int
    GS_GPU_NVLINK_ERRORS: int
    GS_GPU_P2P_BROKEN: int
    GS_GPU_PCIE_GEN: int
    GS_GPU_PCIE_GEN_MAX: int
    GS_GPU_PCIE_REPLAYS: int
    GS_GPU_PCIE_WIDTH: int
    GS_GPU_PCIE_WIDTH_MAX: int
    GS_GPU_PERSISTENCE: int
    GS_GPU_POWER: int
    GS_GPU_POWER_DEFAULT: int
    GS_GPU_POWER_LIMIT: int
    GS_GPU_PROCESSES: int
    GS_GPU_READINGS: int
    GS_GPU_RECOVERY_ACTION: int
    GS_GPU_REMAP_BANKS_EMPTY: int
    GS_GPU_REMAP_FAILED: int
    GS_GPU_REMAP_PENDING: int
    GS_GPU_REMAP_UNC: int
    GS_GPU_RETIRED_DBE: int
    GS_GPU_RETIRED_PENDING: int
    GS_GPU_RETIRED_SBE: int
    GS_GPU_SRAM_THRESHOLD: int
    GS_GPU_SRAM_UNC_VOLATILE: int
    GS_GPU_TEMPERATURE: int
    GS_GPU_TEMPERATURE_MARGIN: int
    GS_GPU_TEMPERATURE_MEMORY: int
    GS_GPU_TEMPERATURE_MEMORY_MAX: int
    GS_GPU_TEMPERATURE_SLOWDOWN: int
    GS_GPU_TEXT: int
    GS_GPU_UNREPAIRABLE: int
    GS_GPU_UTILIZATION: int
    GS_GPU_VIRTUALIZATION: int
    GS_HEADER_SIZE: int
    GS_HEALTH_OFF: int
    GS_HEALTH_RECORD: int
    GS_HEALTH_REQUIRE: int
    GS_HOSTNAME_MAX: int
    GS_HOSTS_MAX: int
    GS_IFACE_MAX: int
    GS_KEY_SIZE: int
    GS_KLOG_LOADED: int
    GS_KLOG_OTHER: int
    GS_KLOG_SXID: int
    GS_KLOG_XID: int
    GS_MAC_SIZE: int
    GS_MASTER_IP: int
    GS_MASTER_NAME: int
    GS_NAME_SIZE: int
    GS_NONCE_SIZE: int
    GS_NO_RANK: int
    GS_OK: int
    GS_PATH_SIZE: int
    GS_PLAN_FAIL: int
    GS_PLAN_INJECT: int
    GS_PLAN_NOOP: int
    GS_PLAN_TEXT_SIZE: int
    GS_POLICY_FILE_MAX: int
    GS_POLICY_GRACE: int
    GS_POLICY_LIMIT: int
    GS_POLICY_MODELS: int
    GS_POLICY_MODEL_SIZE: int
    GS_POLICY_RETRIES: int
    GS_POLICY_SEVERITY: int
    GS_PORT_MAX: int
    GS_PORT_MIN: int
    GS_PORT_RANGES: int
    GS_PUBLISH_COUNT_MAX: int
    GS_PUBLISH_FILE_MAX: int
    GS_RANGE_MAX: int
    GS_REACH_CONNECT: int
    GS_REACH_ELSEWHERE: int
    GS_REACH_OK: int
    GS_REACH_RESOLVE: int
    GS_REACH_STRANGER: int
    GS_REASON_BAD_ENVIRONMENT: int
    GS_REASON_BAD_MASTER_ADDR: int
    GS_REASON_BAD_MASTER_PORT: int
    GS_REASON_COUNT: int
    GS_REASON_DUPLICATE_GPU: int
    GS_REASON_NONE: int
    GS_REASON_RANK0_UNKNOWN: int
    GS_REASON_WORLD_MISMATCH: int
    GS_REFUSAL_CONFIG: int
    GS_REFUSAL_ENDED: int
    GS_REFUSAL_LAUNCH: int
    GS_REFUSAL_MISMATCH: int
    GS_REFUSAL_NODE_LOST: int
    GS_REFUSAL_NONE: int
    GS_REFUSAL_PROGRAM: int
    GS_REFUSAL_TASK_ENDED: int
    GS_REFUSAL_TIMEOUT: int
    GS_REFUSAL_UNREACHABLE: int
    GS_REFUSED: int
    GS_RELEASED: int
    GS_RENDEZVOUS_NODE: int
    GS_RENDEZVOUS_SRUN: int
    GS_REPORT_VERSION: int
    GS_ROOT_DECIDED: int
    GS_ROOT_DONE: int
    GS_ROOT_ENDING: int
    GS_ROOT_END_US: int
    GS_ROOT_LAST_US: int
    GS_ROOT_PIECE: int
    GS_ROOT_PING_US: int
    GS_ROOT_PROBE_US: int
    GS_ROOT_SILENT_US: int
    GS_ROOT_STRANGERS: int
    GS_ROOT_STRANGER_US: int
    GS_ROOT_WAITING: int
    GS_SETTLE_US: int
    GS_SEVERITIES: int
    GS_SEVERITY_FAIL: int
    GS_SEVERITY_INFO: int
    GS_SEVERITY_OFF: int
    GS_SEVERITY_WARN: int
    GS_SLURMD_ALIVE: int
    GS_SLURMD_MUTE: int
    GS_SLURMD_UNKNOWN: int
    GS_SLURMD_UNREACHABLE: int
    GS_SPEC_IFACE_SIZE: int
    GS_SPEC_PATH_SIZE: int
    GS_SPEC_REPORT_SIZE: int
    GS_SPEC_TEXT_SIZE: int
    GS_STEP_SPECIAL: int
    GS_STEP_UNKNOWN: int
    GS_TASKS_PER_NODE_MAX: int
    GS_TASK_ABSENT: int
    GS_TASK_ARRIVED: int
    GS_TASK_ENDED: int
    GS_TEXT_SIZE: int
    GS_UNKNOWN: int
    GS_VALUE_LOCAL_RANK: int
    GS_VALUE_LOCAL_WORLD_SIZE: int
    GS_VALUE_MASTER: int
    GS_VALUE_MASTER_ADDR: int
    GS_VALUE_MASTER_PORT: int
    GS_VALUE_NODE_RANK: int
    GS_VALUE_RANK: int
    GS_VALUE_REPORT: int
    GS_VALUE_STEP: int
    GS_VALUE_T0: int
    GS_VALUE_WORLD_SIZE: int
    GS_VAR_COUNT: int
    GS_VAR_GROUP_RANK: int
    GS_VAR_KEEP: int
    GS_VAR_LOCAL_RANK: int
    GS_VAR_LOCAL_WORLD_SIZE: int
    GS_VAR_MASTER: int
    GS_VAR_MASTER_ADDR: int
    GS_VAR_MASTER_PORT: int
    GS_VAR_NODE_RANK: int
    GS_VAR_RANK: int
    GS_VAR_REPORT: int
    GS_VAR_SET: int
    GS_VAR_STEP: int
    GS_VAR_T0: int
    GS_VAR_UNSET: int
    GS_VAR_WORLD_SIZE: int
    GS_VERDICTS: int
    GS_VISIBLE_MAX: int
    GS_WAITING: int
    GS_WARN: int
    GS_WARN_DUPLICATE_GPU: int
    GS_WARN_ENV_REPLACED: int
    GS_WARN_GPU_BINDING: int
    GS_WARN_MASTER_ELSEWHERE: int
    GS_WARN_MASTER_LOOPBACK: int
    GS_WARN_UNEVEN_TASKS: int
    GS_WARN_WORLD_MISMATCH: int
    GS_WHY_REASON_SIZE: int
    GS_WIRE_VERSION: int
    GS_XID_APP: int
    GS_XID_IGNORE: int
    GS_XID_MAX: int
    GS_XID_PCI: int
    GS_XID_REBOOT: int
    GS_XID_RESET: int
    GS_XID_TEXT: int
    GS_XID_WATCH: int
    def gs_abort_decode(self, *args: object) -> int: ...
    def gs_abort_encode(self, *args: object) -> None: ...
    def gs_arrivals_count(self, *args: object) -> int: ...
    def gs_arrivals_encode(self, *args: object) -> None: ...
    def gs_arrivals_get(self, *args: object) -> None: ...
    def gs_check_find(self, *args: object) -> int: ...
    def gs_check_get(self, *args: object) -> CData: ...
    def gs_counts_free(self, counts: CData) -> None: ...
    def gs_env_preset_next(self, n: int, ret_name: CData, ret_bit: CData) -> bool: ...
    def gs_env_var_name(self, var: int) -> CData: ...
    def gs_env_var_presets(self, var: int) -> int: ...
    def gs_env_var_value(self, var: int) -> int: ...
    def gs_envfacts_init(self, facts: CData) -> None: ...
    def gs_envplan_make(
        self, env: CData, facts: CData, ret_plan: CData, error: CData
    ) -> int: ...
    def gs_envplan_stale(
        self, env: CData, step: bytes | CData, names_out: CData, limit: int
    ) -> int: ...
    def gs_fail_decode(self, *args: object) -> int: ...
    def gs_fail_encode(self, *args: object) -> None: ...
    def gs_gang_arrive(self, *args: object) -> int: ...
    def gs_gang_create(self, *args: object) -> CData: ...
    def gs_gang_destroy(self, *args: object) -> None: ...
    def gs_gang_end(self, *args: object) -> None: ...
    def gs_gang_expect(self, *args: object) -> int: ...
    def gs_gang_fail(self, *args: object) -> int: ...
    def gs_gang_first(self, *args: object) -> int: ...
    def gs_gang_hello(self, *args: object) -> int: ...
    def gs_gang_is_ours(self, *args: object) -> CData: ...
    def gs_gang_last(self, *args: object) -> int: ...
    def gs_gang_lost(self, *args: object) -> None: ...
    def gs_gang_mismatch(self, *args: object) -> None: ...
    def gs_gang_name_rest(self, *args: object) -> None: ...
    def gs_gang_next_us(self, *args: object) -> int: ...
    def gs_gang_reach(self, *args: object) -> None: ...
    def gs_gang_size(self, *args: object) -> int: ...
    def gs_gang_state(self, *args: object) -> None: ...
    def gs_gang_stretch(self, *args: object) -> None: ...
    def gs_gang_tick(self, *args: object) -> CData: ...
    def gs_gang_unreachable(self, *args: object) -> None: ...
    def gs_gang_unwire(self, *args: object) -> None: ...
    def gs_go_decode(self, *args: object) -> int: ...
    def gs_go_encode(self, *args: object) -> None: ...
    def gs_gpu_code_name(self, *args: object) -> CData: ...
    def gs_gpu_code_of(self, *args: object) -> int: ...
    def gs_gpu_code_verdict(self, *args: object) -> int: ...
    def gs_gpu_reading_name(self, *args: object) -> CData: ...
    def gs_gpu_reading_unit(self, *args: object) -> CData: ...
    def gs_gpu_sane(self, *args: object) -> bool: ...
    def gs_gpucontext_init(self, *args: object) -> None: ...
    def gs_gpurule_judge(self, *args: object) -> int: ...
    def gs_gpurule_odd(self, *args: object) -> int: ...
    def gs_gpus_init(self, *args: object) -> None: ...
    def gs_gpuverdict_free(self, *args: object) -> None: ...
    def gs_header_decode(self, *args: object) -> int: ...
    def gs_header_encode(self, *args: object) -> None: ...
    def gs_hello_decode(self, *args: object) -> int: ...
    def gs_hello_encode(self, *args: object) -> None: ...
    def gs_hello_rank(self, *args: object) -> int: ...
    def gs_hostlist_expand(
        self, text: bytes, ret_names: CData, error: CData
    ) -> int: ...
    def gs_hostlist_fold(self, names: CData | list[CData], count: int) -> CData: ...
    def gs_iface_list(self, *args: object) -> int: ...
    def gs_iface_rank(self, *args: object) -> int: ...
    def gs_index_decode(self, *args: object) -> int: ...
    def gs_index_encode(self, *args: object) -> None: ...
    def gs_launcher_name(self, *args: object) -> CData: ...
    def gs_mac_equal(self, *args: object) -> CData: ...
    def gs_mac_init(self, *args: object) -> None: ...
    def gs_mac_sum(self, *args: object) -> None: ...
    def gs_mac_wipe(self, *args: object) -> None: ...
    def gs_master_decode(self, *args: object) -> int: ...
    def gs_master_encode(self, *args: object) -> None: ...
    def gs_names_free(self, names: CData) -> None: ...
    def gs_node_phase(self, *args: object) -> CData: ...
    def gs_outcome_name(self, *args: object) -> CData: ...
    def gs_pci_normalise(self, *args: object) -> bool: ...
    def gs_plan_reason_name(self, reason: int) -> CData: ...
    def gs_plan_warning_name(self, bit: int) -> CData: ...
    def gs_policy_find(self, *args: object) -> CData: ...
    def gs_policy_init(self, *args: object) -> None: ...
    def gs_policy_load(self, *args: object) -> int: ...
    def gs_policy_parse(self, *args: object) -> int: ...
    def gs_port_candidate(
        self,
        rules: CData,
        job_id: int,
        step_id: int,
        attempt: int,
        ret_port: CData,
        error: CData,
    ) -> int: ...
    def gs_port_read(self, text: bytes, ret_port: CData, error: CData) -> int: ...
    def gs_portrules_init(self, rules: CData) -> None: ...
    def gs_probe_decode(self, *args: object) -> int: ...
    def gs_probe_encode(self, *args: object) -> None: ...
    def gs_proc_oom_kills(self, *args: object) -> int: ...
    def gs_proc_read(self, *args: object) -> CData: ...
    def gs_random(self, *args: object) -> int: ...
    def gs_ranks_fold(self, ranks: CData | list[int], count: int) -> CData: ...
    def gs_reach_decode(self, *args: object) -> int: ...
    def gs_reach_encode(self, *args: object) -> None: ...
    def gs_refusal_name(self, *args: object) -> CData: ...
    def gs_root_all_gone(self, *args: object) -> CData: ...
    def gs_root_candidate(self, *args: object) -> int: ...
    def gs_root_create(self, *args: object) -> CData: ...
    def gs_root_destroy(self, *args: object) -> None: ...
    def gs_root_end(self, *args: object) -> None: ...
    def gs_root_keeper(self, *args: object) -> int: ...
    def gs_root_master(self, *args: object) -> CData: ...
    def gs_root_master_addr(self, *args: object) -> CData: ...
    def gs_root_send_report(self, *args: object) -> None: ...
    def gs_root_step(self, *args: object) -> CData: ...
    def gs_root_wake(self, *args: object) -> None: ...
    def gs_severity_name(self, *args: object) -> CData: ...
    def gs_spec_arg(self, spec: CData, arg: bytes, error: CData) -> int: ...
    def gs_spec_format(self, spec: CData, out: CData, size: int) -> int: ...
    def gs_spec_help(self) -> CData: ...
    def gs_spec_init(self, spec: CData) -> None: ...
    def gs_spec_parse(self, spec: CData, text: bytes | CData, error: CData) -> int: ...
    def gs_spool_create(self, *args: object) -> int: ...
    def gs_spool_path(self, *args: object) -> CData: ...
    def gs_spool_publish(self, *args: object) -> int: ...
    def gs_spoolfile_begin(self, *args: object) -> int: ...
    def gs_spoolfile_cancel(self, *args: object) -> None: ...
    def gs_spoolfile_commit(self, *args: object) -> int: ...
    def gs_spoolfile_write(self, *args: object) -> int: ...
    def gs_state_decode(self, *args: object) -> int: ...
    def gs_state_encode(self, *args: object) -> None: ...
    def gs_story_head(self, *args: object) -> CData: ...
    def gs_story_refusal(self, *args: object) -> CData: ...
    def gs_story_report(self, *args: object) -> CData: ...
    def gs_story_start(self, *args: object) -> CData: ...
    def gs_story_waiting(self, *args: object) -> CData: ...
    def gs_taskmap_counts(
        self, text: bytes, ret_counts: CData, ret_nodes: CData, error: CData
    ) -> int: ...
    def gs_text_free(self, text: CData) -> None: ...
    def gs_verdict_name(self, *args: object) -> CData: ...
    def gs_verdict_read(self, *args: object) -> bool: ...
    def gs_verdict_worst(self, *args: object) -> int: ...
    def gs_visible_count(self, value: bytes | CData) -> int: ...
    def gs_visible_index(
        self,
        value: bytes | CData,
        gpus: int,
        uuids: CData | list[CData],
        ret_index: CData,
    ) -> int: ...
    def gs_why_text(self, *args: object) -> None: ...
    def gs_wire_free(self, *args: object) -> None: ...
    def gs_xid_class_action(self, *args: object) -> CData: ...
    def gs_xid_class_verdict(self, *args: object) -> int: ...
    def gs_xid_info(self, *args: object) -> CData: ...
    def gs_xid_read(self, *args: object) -> int: ...
    def gs_xidlog_add(self, *args: object) -> None: ...
    def gs_xidlog_class(self, *args: object) -> int: ...
    def gs_xidlog_init(self, *args: object) -> None: ...

ffi: _FFI
lib: _Lib
