"""Lines about storage: full, quota, stale, lost, descriptors, checkpoints."""

from gangstart.triage.table.row import Row

PATH = r"(?:'(?P<path>/[^']*)'|\"(?P<path2>/[^\"]*)\"|(?P<path3>/[\w./@%+-]+))"

FILESYSTEM = (
    Row(
        "shm_full",
        (
            "out of shared memory",
            "insufficient shared memory",
            "/dev/shm",
            "shared memory object",
            "torch_shm",
            "unable to write to file </torch_",
            "unable to mmap",
            "unable to allocate shared memory",
            "shm_open",
        ),
        r"out of shared memory|insufficient shared memory|unable to write to file "
        r"</torch_[^>]*>|unable to (?:allocate|resize) shared memory|"
        r"/dev/shm\S*.*(?:No space left|full|Cannot allocate|100%|not enough)|(?:No "
        r"space left|Bus error|Cannot allocate).*/dev/shm|unable to mmap .* bytes "
        r"from file </torch_\S*: Cannot allocate",
        "RuntimeError: unable to write to file </torch_12_34>: No space left on "
        "device (28)",
        "SHM_FULL",
    ),
    Row(
        "quota",
        ("quota exceeded", "Quota exceeded", "Errno 122", "EDQUOT"),
        r"(?i)quota exceeded|Errno 122\b|EDQUOT",
        "OSError: [Errno 122] Disk quota exceeded: '/users/g/run/step_10.pt'",
        "DISK_QUOTA",
    ),
    Row(
        "disk_full",
        ("No space left on device", "Errno 28]", "ENOSPC", "file write failed"),
        r"No space left on device|Errno 28\]|ENOSPC|file write failed",
        "OSError: [Errno 28] No space left on device: '/scratch/h/run7/s.pt.tmp'",
        "DISK_FULL",
    ),
    Row(
        "stale",
        (
            "tale file handle",
            "tale NFS file handle",
            "Errno 116]",
            "endpoint is not connected",
            "Errno 107]",
            "Errno 108]",
            "endpoint shutdown",
            "Input/output error",
            "Errno 5]",
            "ESTALE",
            "Remote I/O error",
            "Errno 121]",
            "Host is down",
            "Errno 112]",
            "Errno 70]",
        ),
        r"[Ss]tale (?:NFS )?file handle|Errno (?:116|107|108|5|121|112|70)\]|endpoint "
        r"is not connected|endpoint shutdown|Input/output error|ESTALE|Remote I/O "
        r"error",
        "OSError: [Errno 116] Stale file handle: '/data/web/shard-1.tar'",
        "FS_STALE",
    ),
    Row(
        "fs_lost",
        (
            "nfs: server",
            "LustreError",
            "Lustre: ",
            "GPFS",
            "mmfs",
            "libceph",
            "ceph: ",
            "beegfs",
        ),
        r"nfs: server (?P<server>\S+) not responding|evicted by|client was evicted|"
        r"LustreError: .*(?:-5|-107|-108|-110|evict|timed out|Cannot send)|Lustre: "
        r".*Connection to \S+ .*was lost|(?:mmfs|GPFS).*(?:unmount|panic|stale|lost|"
        r"expel)|(?:libce|ce)ph: .*(?:session lost|hung|blocklist|blacklist)|"
        r"beegfs.*(?:lost|unreachable)",
        "nfs: server store01 not responding, timed out",
        "FS_STALE",
    ),
    Row(
        "fs_back",
        ("nfs: server", "Connection restored to"),
        r"nfs: server (?P<server>\S+) OK|Connection restored to",
        "nfs: server store01 OK",
    ),
    Row(
        "fs_readonly",
        ("Read-only file system", "Errno 30]", "Remounting filesystem read-only"),
        r"Read-only file system|Errno 30\]|Remounting filesystem read-only",
        "EXT4-fs (nvme0n1p1): Remounting filesystem read-only",
        "FS_STALE",
    ),
    Row(
        "fd_limit",
        ("oo many open files", "Errno 24]", "items of ancdata", "EMFILE"),
        r"[Tt]oo many open files|Errno 24\]|items of ancdata|EMFILE",
        "OSError: [Errno 24] Too many open files: '/data/shard-7.tar'",
        "FD_LIMIT",
    ),
    Row(
        "checkpoint_corrupt",
        (
            "PytorchStreamReader failed",
            "failed finding central directory",
            "file might be corrupted",
            "Ran out of input",
            "invalid load key",
            "SafetensorError",
            "HeaderTooLarge",
            "MetadataIncompleteBuffer",
            "InvalidHeaderDeserialization",
            "not a zip file",
            "BadZipFile",
            "truncated",
            "pickle data was truncated",
            "unexpected EOF",
            "UnpicklingError",
            "CheckpointException",
            "checksum mismatch",
            "Checksum mismatch",
            "corrupt",
            "incomplete checkpoint",
            "OCDBT",
            "Checksum does not match",
        ),
        r"PytorchStreamReader failed|failed finding central directory|file might be "
        r"corrupted|EOFError: Ran out of input|invalid load key|SafetensorError|"
        r"HeaderTooLarge|MetadataIncompleteBuffer|InvalidHeaderDeserialization|not a "
        r"zip file|BadZipFile|pickle data was truncated|unexpected EOF|"
        r"UnpicklingError|CheckpointException|truncated file|"
        r"OCDBT.*(?:CRC|[Cc]hecksum)|Checksum does not match: stored|"
        r"(?i:checkpoint.*(?:corrupt|truncated|incomplete|checksum|unreadable)|"
        r"(?:corrupt|truncated|incomplete)\w* checkpoint)",
        "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding "
        "central directory",
        "CHECKPOINT_CORRUPT",
    ),
    Row(
        "checkpoint_begin",
        ("aving", "resum", "Resum", "oading", "estor"),
        r"(?i)(?P<what>sav(?:e|ing)|resum(?:e|ing)|load(?:ing)?|restor(?:e|"
        r"ing))\b.*?(?P<path>/[\w./@%+-]+)",
        "INFO | resume from /scratch/r/last.ckpt",
    ),
)
