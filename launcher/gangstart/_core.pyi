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

class _Lib:
    GS_AUTO_ALWAYS: int
    GS_AUTO_GPU: int
    GS_AUTO_NEVER: int
    GS_ENV_NAME_SIZE: int
    GS_ENV_NONE: int
    GS_ENV_TORCH: int
    GS_ENV_VALUE_SIZE: int
    GS_ERROR_SIZE: int
    GS_HEALTH_OFF: int
    GS_HEALTH_RECORD: int
    GS_HEALTH_REQUIRE: int
    GS_HOSTNAME_MAX: int
    GS_HOSTS_MAX: int
    GS_MASTER_IP: int
    GS_MASTER_NAME: int
    GS_PLAN_FAIL: int
    GS_PLAN_INJECT: int
    GS_PLAN_NOOP: int
    GS_PLAN_TEXT_SIZE: int
    GS_PORT_MAX: int
    GS_PORT_MIN: int
    GS_PORT_RANGES: int
    GS_RANGE_MAX: int
    GS_REASON_BAD_ENVIRONMENT: int
    GS_REASON_BAD_MASTER_ADDR: int
    GS_REASON_BAD_MASTER_PORT: int
    GS_REASON_COUNT: int
    GS_REASON_DUPLICATE_GPU: int
    GS_REASON_NONE: int
    GS_REASON_RANK0_UNKNOWN: int
    GS_REASON_WORLD_MISMATCH: int
    GS_RENDEZVOUS_NODE: int
    GS_RENDEZVOUS_SRUN: int
    GS_SPEC_IFACE_SIZE: int
    GS_SPEC_PATH_SIZE: int
    GS_SPEC_REPORT_SIZE: int
    GS_SPEC_TEXT_SIZE: int
    GS_STEP_SPECIAL: int
    GS_STEP_UNKNOWN: int
    GS_TASKS_PER_NODE_MAX: int
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
    GS_VISIBLE_MAX: int
    GS_WARN_DUPLICATE_GPU: int
    GS_WARN_ENV_REPLACED: int
    GS_WARN_GPU_BINDING: int
    GS_WARN_MASTER_ELSEWHERE: int
    GS_WARN_MASTER_LOOPBACK: int
    GS_WARN_UNEVEN_TASKS: int
    GS_WARN_WORLD_MISMATCH: int

    def gs_hostlist_expand(
        self, text: bytes, ret_names: CData, error: CData
    ) -> int: ...
    def gs_names_free(self, names: CData) -> None: ...
    def gs_hostlist_fold(self, names: CData | list[CData], count: int) -> CData: ...
    def gs_ranks_fold(self, ranks: CData | list[int], count: int) -> CData: ...
    def gs_text_free(self, text: CData) -> None: ...
    def gs_taskmap_counts(
        self, text: bytes, ret_counts: CData, ret_nodes: CData, error: CData
    ) -> int: ...
    def gs_counts_free(self, counts: CData) -> None: ...
    def gs_env_var_name(self, var: int) -> CData: ...
    def gs_env_var_value(self, var: int) -> int: ...
    def gs_env_var_presets(self, var: int) -> int: ...
    def gs_env_preset_next(self, n: int, ret_name: CData, ret_bit: CData) -> bool: ...
    def gs_spec_init(self, spec: CData) -> None: ...
    def gs_spec_parse(self, spec: CData, text: bytes | CData, error: CData) -> int: ...
    def gs_spec_arg(self, spec: CData, arg: bytes, error: CData) -> int: ...
    def gs_spec_format(self, spec: CData, out: CData, size: int) -> int: ...
    def gs_spec_help(self) -> CData: ...
    def gs_visible_index(
        self,
        value: bytes | CData,
        gpus: int,
        uuids: CData | list[CData],
        ret_index: CData,
    ) -> int: ...
    def gs_visible_count(self, value: bytes | CData) -> int: ...
    def gs_portrules_init(self, rules: CData) -> None: ...
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
    def gs_envfacts_init(self, facts: CData) -> None: ...
    def gs_envplan_make(
        self, env: CData, facts: CData, ret_plan: CData, error: CData
    ) -> int: ...
    def gs_envplan_stale(
        self, env: CData, step: bytes | CData, names_out: CData, limit: int
    ) -> int: ...
    def gs_plan_reason_name(self, reason: int) -> CData: ...
    def gs_plan_warning_name(self, bit: int) -> CData: ...

ffi: _FFI
lib: _Lib
