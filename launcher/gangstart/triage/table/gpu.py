"""Lines about GPUs: CUDA and HIP errors, the driver's lines in the kernel log."""

from gangstart.triage.table.row import Row

GPU = (
    Row(
        "xid",
        ("NVRM: Xid",),
        r"NVRM: Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]+)\): (?P<xid>\d+)(?:, "
        r"(?:pid='?(?P<pid>\d+)?[^,]*, )?(?:name=(?P<name>[^,]*), )?(?P<why>.*))?",
        "NVRM: Xid (PCI:0000:5d:00): 79, pid='<unknown>', name=<unknown>, GPU has "
        "fallen off the bus.",
    ),
    Row(
        "sxid",
        ("SXid (PCI",),
        r"SXid \(PCI:(?P<pci>[0-9a-fA-F:.]+)\): (?P<sxid>\d+), (?P<why>.*)",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault "
        "Up",
        "GPU_NVLINK",
    ),
    Row(
        "gpu_lost",
        (
            "fallen off the bus",
            "GPU is lost",
            "GPU_IS_LOST",
            "Unable to determine the device handle",
        ),
        r"fallen off the bus|GPU[_ ]IS[_ ]LOST|GPU is lost|Unable to determine the "
        r"device handle for (?:gpu|GPU) ?(?P<pci>[0-9A-Fa-f:.]+)",
        "Unable to determine the device handle for GPU0000:5D:00.0: GPU is lost.",
        "GPU_FELL_OFF_BUS",
    ),
    Row(
        "gpu_ecc",
        (
            "uncorrectable ECC",
            "uncorrectable ecc",
            "ECC error encountered",
            "double bit error",
            "Uncorrectable ECC",
        ),
        r"(?i)uncorrectable ECC|ECC error encountered|double.bit (?:ECC )?error",
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "GPU_ECC",
    ),
    Row(
        "gpu_nvlink",
        ("NVLink error", "NVLINK error", "nvlink error", "Invalid access of peer GPU"),
        r"(?i)(?:uncorrectable )?nvlink error|Invalid access of peer GPU memory over "
        r"nvlink",
        "CUDA error: uncorrectable NVLink error detected during the execution",
        "GPU_NVLINK",
    ),
    Row(
        "fabric",
        ("system not yet initialized", "cudaErrorSystemNotReady", "Error 802", "abric"),
        r"system not yet initialized|cudaErrorSystemNotReady|Error 802|"
        r"(?:nvidia-)?[Ff]abric ?[Mm]anager(?:\.service)?.*(?:not running|fail|"
        r"mismatch|error|does(?:n't| not) match)",
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system "
        "not yet initialized",
        "FABRIC_MANAGER",
    ),
    Row(
        "driver_mismatch",
        ("Driver/library version mismatch", "driver/library version mismatch"),
        r"(?i)driver/library version mismatch",
        "Failed to initialize NVML: Driver/library version mismatch",
        "NODE_SOFTWARE",
    ),
    Row(
        "gpu_reset",
        ("GPU requires reset", "requires a reset", "RmInitAdapter failed", "reset_req"),
        r"GPU requires (?:a )?reset|requires a reset|RmInitAdapter failed",
        "NVRM: GPU 0000:5d:00.0: RmInitAdapter failed! (0x62:0x40:2477)",
        "GPU_HW",
    ),
    Row(
        "cuda_oom",
        (
            "CUDA out of memory",
            "HIP out of memory",
            "OutOfMemoryError",
            "CUDA_ERROR_OUT_OF_MEMORY",
            "cudaErrorMemoryAllocation",
            "CUDA error: out of memory",
            "RESOURCE_EXHAUSTED",
            "'out of memory'",
            "CUBLAS_STATUS_ALLOC_FAILED",
            "OOM when allocating",
        ),
        r"(?:CUDA|HIP) out of memory|OutOfMemoryError: (?:CUDA|HIP)|CUDA error: out "
        r"of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|"
        r"RESOURCE_EXHAUSTED:.*(?:[Oo]ut of memory|allocat)|Cuda failure (?:2 )?'out "
        r"of memory'|CUBLAS_STATUS_ALLOC_FAILED|"
        r"OOM when allocating tensor.*(?:device:GPU|allocator GPU)",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU "
        "0 has a total capacity of 79.11 GiB of which 1.02 GiB is free.",
        "CUDA_OOM",
    ),
    Row(
        "device_assert",
        ("device-side assert", "Assertion `", "cudaErrorAssert"),
        r"\.cuh?:\d+: .*(?:block|thread).*Assertion `(?P<what>.*?)`? failed|"
        r"device-side assert|cudaErrorAssert",
        "Indexing.cu:1422: indexSelectLargeIndex: block: [211,0,0], thread: [64,0,0] "
        "Assertion `srcIndex < srcSelectDimSize` failed.",
        "APP_EXCEPTION",
    ),
    Row(
        "illegal_access",
        (
            "illegal memory access",
            "cudaErrorIllegalAddress",
            "CUDA_ERROR_ILLEGAL_ADDRESS",
            "misaligned address",
            "illegal instruction was encountered",
            "invalid program counter",
            "Memory access fault by GPU",
        ),
        r"illegal memory access|cudaErrorIllegalAddress|CUDA_ERROR_ILLEGAL_ADDRESS|"
        r"misaligned address|illegal instruction was encountered|invalid program "
        r"counter|Memory access fault by GPU",
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        "APP_ILLEGAL_ACCESS",
    ),
    Row(
        "gpu_busy",
        ("busy or unavailable", "cudaErrorDevicesUnavailable", "CUDA_ERROR_DEVICE_UN"),
        r"busy or unavailable|cudaErrorDevicesUnavailable|"
        r"CUDA_ERROR_DEVICE_UNAVAILABLE",
        "CUDA error: all CUDA-capable devices are busy or unavailable",
        "GPU_BUSY",
    ),
    Row(
        "gpu_binding",
        (
            "invalid device ordinal",
            "Invalid device id",
            "invalid device id",
            "device_id ",
            "cudaErrorInvalidDevice",
            "device index must be",
            "Device index must",
        ),
        r"[Ii]nvalid device (?:ordinal|id)|cudaErrorInvalidDevice|device_id \d+ (?:is "
        r")?out of range|local_rank \d+ .*device",
        "CUDA error: invalid device ordinal",
        "GPU_BINDING",
    ),
    Row(
        "no_gpu",
        (
            "No CUDA GPUs are available",
            "no CUDA-capable device",
            "No CUDA runtime is found",
            "CUDA_ERROR_NO_DEVICE",
            "No HIP GPUs are available",
            "not compiled with CUDA enabled",
            "No GPU/TPU found",
        ),
        r"No (?:CUDA|HIP) GPUs are available|no CUDA-capable device|"
        r"CUDA_ERROR_NO_DEVICE",
        "RuntimeError: No CUDA GPUs are available",
        "GPU_BINDING",
    ),
    Row(
        "gpu_count",
        (
            " GPUs",
            " gpus",
            " GPU(s)",
            "gpus_per_node",
            "nproc_per_node",
            "device_count",
        ),
        r"(?i)(?:expected|requested|required|need(?:s|ed)?|configured|"
        r"want(?:ed)?)\D{0,30}(?P<wanted>\d+)\D{0,12}(?:gpus?|"
        r"devices)\b.{0,40}?(?:found|got|visible|only|sees|detected|have|but|"
        r"available)\D{0,20}(?P<found>\d+)|(?:only|found|got|sees) (?P<found2>\d+) "
        r"(?:of|out of|/) ?(?P<wanted2>\d+) GPUs",
        "AssertionError: expected 8 GPUs on this node, found 7",
        "GPU_COUNT",
    ),
    Row(
        "driver_old",
        ("driver on your system is too old", "driver version is insufficient"),
        r"driver on your system is too old|driver version is insufficient",
        "The NVIDIA driver on your system is too old (found version 11040).",
        "NODE_SOFTWARE",
    ),
    Row(
        "nvml_failed",
        (
            "couldn't communicate with the NVIDIA driver",
            "NVML: Unknown Error",
            "NVML_ERROR",
            "Failed to initialize NVML",
        ),
        r"couldn't communicate with the NVIDIA driver|Failed to initialize NVML|"
        r"NVML_ERROR_\w+",
        "Failed to initialize NVML: Unknown Error",
        "NODE_SOFTWARE",
    ),
    Row(
        "launch_failure",
        (
            "unspecified launch failure",
            "cudaErrorLaunchFailure",
            "CUDA error: unknown error",
            "CUDA_ERROR_LAUNCH_FAILED",
            "CUDA_ERROR_UNKNOWN",
            "hardware stack error",
            "launch timed out and was terminated",
        ),
        r"unspecified launch failure|cudaErrorLaunchFailure|CUDA error: unknown error|"
        r"CUDA_ERROR_(?:LAUNCH_FAILED|UNKNOWN)|hardware stack error|launch timed out",
        "torch.AcceleratorError: CUDA error: unspecified launch failure",
        "APP_EXCEPTION",
    ),
    Row(
        "cuda_error",
        (
            "CUDA error: ",
            "CUBLAS_STATUS_",
            "CUDNN_STATUS_",
            "CUSOLVER_STATUS",
            "HIP error: ",
            "cudaError",
        ),
        r"(?P<exc>[\w.]*Error): (?:CUDA|HIP) error: (?P<why>.*)|C(?:UBLAS|UDNN|"
        r"USOLVER)_STATUS_\w+|cudaError\w+",
        "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling "
        "cublasGemmEx",
        "APP_EXCEPTION",
    ),
    Row(
        "thermal",
        ("hermal", "clock throttled", "Power Brake", "power brake"),
        r"(?i)(?:hw|sw|hardware|software)?[ _]?thermal (?:slowdown|throttl|violation|"
        r"shutdown|event)|clock throttled|power brake",
        "mce: CPU12: Package temperature above threshold, cpu clock throttled",
    ),
)
