"""Lines of container runtimes: pyxis and enroot, Apptainer, Docker."""

from gangstart.triage.table.row import Row

CONTAINER = (
    Row(
        "container_failed",
        (
            "pyxis: ",
            "enroot",
            "spank_pyxis",
            "FATAL: ",
            "container creation failed",
            "nvidia-container-cli",
            "Error response from daemon",
            "unable to pull",
            "manifest unknown",
        ),
        r"pyxis: (?:container start failed|couldn't start container|failed to (?:import|"
        r"create|pull|start|mount)[^:]*|child \d+ failed|couldn't \w+ .*|\[ERROR\].*)|"
        r"enroot-\w+: (?:failed|couldn't).*|spank_pyxis\.so: \w+\(\) failed|"
        r"FATAL: +(?:[Cc]ould not open image|container creation failed|[Ww]hile|"
        r"[Uu]nable to|[Ii]mage).*|container creation failed|nvidia-container-cli: .*"
        r"error.*|Error response from daemon: .*|unable to pull.*|manifest unknown",
        "slurmstepd: error: pyxis: container start failed with error code: 1",
        "CONTAINER_START",
    ),
    Row(
        "container_log",
        ("pyxis:     ",),
        r"pyxis: {3,}(?P<why>.*)",
        "slurmstepd: error: pyxis:     [ERROR] URL https://registry returned error "
        "code: 401 Unauthorized",
    ),
)
