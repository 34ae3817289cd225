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
        r"pyxis: (?:container start failed|couldn't start container|failed to "
        r"(?:import|create|pull|start|mount)[^:]*|child \d+ failed|couldn't \w+ .*|"
        r"\[ERROR\].*|.*(?:No such file|[Dd]enied|not found).*)|enroot-\w+: (?:failed|"
        r"couldn't).*|spank_pyxis\.so: \w+\(\) failed|FATAL: +(?:[Cc]ould not open "
        r"image|container creation failed|[Ww]hile|[Uu]nable to|[Ii]mage).*|container "
        r"creation failed|nvidia-container-cli: .*error.*|Error response from daemon: "
        r".*|unable to pull.*|manifest unknown",
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
