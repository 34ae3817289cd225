"""Lines of gangstart itself."""

from gangstart.triage.table.row import Row

OURS = (
    Row(
        "gang_refused",
        ("gang-start: ",),
        r"gang-start: (?:step (?P<step>\d+\.\d+) )?refused after (?P<after>[\d.]+) s: "
        r"(?P<why>.*)",
        "gang-start: step 7877.0 refused after 60 s: 2 of 64 nodes are not ready (62 "
        "nodes, 496 tasks were)",
    ),
    Row(
        "gang_started",
        ("gang-start: ",),
        r"gang-start: (?P<tasks>\d+)/\d+ tasks on (?P<nodes>\d+)/\d+ nodes? in "
        r"(?P<after>[\d.]+) s",
        "gang-start: 32/32 tasks on 4/4 nodes in 1.4 s (last: rank 9 on n2, +0.3 s) · "
        "master n1:41873",
    ),
    Row(
        "gang_missing",
        ("gang",),
        r"(?i)\bgang[-_ ]?(?:start|barrier)?\b(?!.*\bin [\d.]+ s \().*(?:barrier "
        r"(?:timed out|timeout|failed)|timed out|missing|not (?:all )?(?:ready|"
        r"arrived|there))(?:.*?nodes?:? (?P<node>[A-Za-z][\w.-]*\d))?(?:.*?ranks?:? "
        r"(?P<ranks>[\d,-]+))?",
        "gangstart: barrier timed out after 300 s: missing node gn12 (ranks 16-23)",
    ),
    Row(
        "gang_blamed",
        ("  rank",),
        r"^ {2}(?P<node>[\w.\[\],-]+) +ranks? (?P<ranks>[\d,-]+) +(?P<why>\S.*)",
        "  gn03        ranks 16-23     container import is running",
    ),
)
