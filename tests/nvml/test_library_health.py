"""gangstart.health(): readings in named units, and what is not known is None."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gangstart
import pytest
from gangstart.gpuhealth import looked
from nvml.fakenvml import link
from nvml.sound import failing
from nvml.test_health import place
from nvml.wellnode import make_well

if TYPE_CHECKING:
    from pathlib import Path

    from nvml.fakenvml import Node


NOT_SUPPORTED = 3


@pytest.fixture
def well(fake_objects: list[Path], tmp_path: Path) -> Node:
    return make_well(tmp_path, link(fake_objects, tmp_path / "libnvidia-ml.so.1"))


def test_readings_have_units_and_the_whole_record_is_there(
    well: Node, program: Path
) -> None:
    found = looked(10.0, place(well, program))
    assert (found.verdict, found.sentence, found.no_gpu) == ("ok", "2 GPUs ok", False)
    assert found.driver == "570.124.06"
    assert found.findings == ()
    first = found.gpus[0]
    assert (first.pci, first.verdict) == ("0000:1a:00.0", "ok")
    assert first.power_limit_w == 700.0
    assert first.utilization_percent == 0
    assert first.memory_total_bytes
    assert first.readings["power_limit"] == 700_000


def test_a_bad_gpu_is_a_finding_with_value_and_limit(well: Node, program: Path) -> None:
    well.gpus[1]["ecc_total.1.0"] = 3
    well.write()
    found = looked(10.0, place(well, program))
    assert found.verdict == "fail"
    assert found.findings[0].uuid == found.gpus[1].uuid
    assert found.gpus[1].ecc_uncorrected == 3


def test_what_the_driver_withholds_is_none_and_not_0(well: Node, program: Path) -> None:
    well.gpus[0] |= failing("nvmlDeviceGetUtilizationRates", NOT_SUPPORTED)
    well.write()
    first = looked(10.0, place(well, program)).gpus[0]
    assert first.utilization_percent is None
    assert first.readings["utilization"] == "NVML_ERROR_NOT_SUPPORTED"


def test_without_gpus_it_says_so() -> None:
    found = gangstart.health(10)
    assert found.no_gpu == (found.gpus == ())
    assert found.verdict in ("ok", "unknown", "warn", "fail")


@pytest.mark.parametrize("deadline", [0, -1, float("nan"), 3601, "5", None, True])
def test_a_bad_deadline_is_a_sentence(deadline: object) -> None:
    with pytest.raises(gangstart.GangstartError, match="seconds above 0"):
        gangstart.health(deadline)  # type: ignore[arg-type]  # on purpose
