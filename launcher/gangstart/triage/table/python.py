"""Lines of Python: tracebacks and the exceptions that end them."""

from gangstart.triage.table.row import Row

PYTHON = (
    Row(
        "traceback",
        ("Traceback (most recent call last)",),
        r"Traceback \(most recent call last\)",
        "Traceback (most recent call last):",
    ),
    Row(
        "shared_library",
        ("cannot open shared object file", "GLIBC_", "GLIBCXX_", "undefined symbol"),
        r"(?P<lib>[\w.+/-]+): cannot open shared object file|version `(?P<lib2>GLIBC\w*)' "
        r"not found|undefined symbol: (?P<symbol>\w+)",
        "ImportError: libcudnn.so.9: cannot open shared object file: No such file or "
        "directory",
        "NODE_SOFTWARE",
    ),
    Row(
        "module_missing",
        ("ModuleNotFoundError", "ImportError"),
        r"(?P<exc>ModuleNotFoundError|ImportError): (?P<why>.*)",
        "ModuleNotFoundError: No module named 'apex'",
        "APP_EXCEPTION",
    ),
    Row(
        "command_missing",
        ("command not found", "No such file or directory"),
        r"(?:line \d+: )?(?P<path>\S+): command not found|can't open file '(?P<path2>"
        r"[^']*)': \[Errno 2\]|^(?:/\S+: )?(?P<path3>/\S+): No such file or directory",
        "/var/spool/slurmd/job77/slurm_script: line 12: nvidia-smi: command not found",
    ),
    Row(
        "interrupted",
        ("KeyboardInterrupt", "SystemExit"),
        r"^(?:KeyboardInterrupt|SystemExit: 0)",
        "KeyboardInterrupt",
    ),
    Row(
        "exception",
        (
            "Error: ",
            "Error\n",
            "Exception: ",
            "Exception\n",
            "Exit: ",
            "StopIteration",
            "Failure: ",
            "Timeout: ",
            "Expired: ",
            "Warning: ",
        ),
        r"^(?P<exc>[A-Za-z_]\w*(?:\.\w+)*(?:Error|Exception|Exit|StopIteration|Failure"
        r"|Timeout|TimeoutExpired))(?:: (?P<why>.*)|$)",
        "torch._dynamo.exc.Unsupported.DemoError: call_function",
        "APP_EXCEPTION",
    ),
)
