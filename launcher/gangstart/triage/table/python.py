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
        # A warning that an optional plugin is not there looks the same: only an error
        # that ends the program counts.
        r"error while loading shared libraries: (?P<lib>[\w.+/-]+)|(?:ImportError|"
        r"OSError): .*?(?:(?P<lib2>[\w.+/-]+): cannot open shared object file|"
        r"undefined symbol: (?P<symbol>\w+))|version `(?P<lib3>GLIBC[\w.]*)' not found",
        "ImportError: libcudnn.so.9: cannot open shared object file: No such file or "
        "directory",
        "NODE_SOFTWARE",
    ),
    Row(
        "ignored",
        ("Exception ignored in",),
        r"Exception ignored in",
        "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0>",
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
        r"(?:line \d+: )?(?P<path>\S+): command not found|can't open file "
        r"'(?P<path2>[^']*)': \[Errno 2\]|^(?:/\S+: )?(?P<path3>/\S+): No such file "
        r"or directory",
        "/var/spool/slurmd/job77/slurm_script: line 12: nvidia-smi: command not found",
    ),
    Row(  # bash of a child that a signal ended; the kernel's reason is elsewhere
        "shell_killed",
        (" Killed ", " Terminated ", " Aborted "),
        r"line \d+: +(?P<pid>\d+) (?P<signal>Killed|Terminated|Aborted) ",
        "/var/spool/slurmd/job77/slurm_script: line 14: 2991833 Killed                "
        "  python prepare.py",
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
        r"^(?P<exc>[A-Za-z_]\w*(?:\.\w+)*(?:Error|Exception|Exit|StopIteration|"
        r"Failure|Timeout|TimeoutExpired))(?:: (?P<why>.*)|$)",
        "torch._dynamo.exc.Unsupported.DemoError: call_function",
        "APP_EXCEPTION",
    ),
)
