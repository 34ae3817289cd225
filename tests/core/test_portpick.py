"""MASTER_PORT: which ports, in which order."""

from __future__ import annotations

from itertools import islice

import pytest
from gangstart import core
from gangstart.errors import GangstartError
from gangstart.port import choose_port

RULES = core.PortRules(ephemeral=(32768, 60999))


def all_ports(rules: core.PortRules, job: int = 7, step: int = 0) -> list[int]:
    """Every candidate, up to the sentence that there are no more."""
    found: list[int] = []
    candidates = core.port_candidates(rules, job, step)
    try:
        for port in candidates:
            found.append(port)  # noqa: PERF402 - the iterator ends in an exception
    except GangstartError as err:
        assert f"all {len(found)} that may be used" in err.message  # noqa: PT017
    return found


def test_every_admissible_port_comes_once_and_no_other() -> None:
    ports = all_ports(RULES)
    assert sorted(ports) == [p for p in range(1024, 65536) if not 6817 <= p <= 6820]


def test_ephemeral_ports_come_last_and_service_ports_before_them() -> None:
    ports = all_ports(RULES)
    good = 65535 - 10000 + 1 - (60999 - 32768 + 1)
    low = 10000 - 1024 - 4
    assert all(p >= 10000 and not 32768 <= p <= 60999 for p in ports[:good])
    assert all(1024 <= p < 10000 for p in ports[good : good + low])
    assert all(32768 <= p <= 60999 for p in ports[good + low :])


def test_jobs_congruent_modulo_anything_start_apart() -> None:
    starts = {next(core.port_candidates(RULES, 1000 + 1000 * i, 0)) for i in range(200)}
    assert len(starts) > 190


def test_steps_of_one_job_start_apart() -> None:
    starts = {next(core.port_candidates(RULES, 7, step)) for step in range(200)}
    assert len(starts) > 190


def test_every_node_computes_the_same_order() -> None:
    first = list(islice(core.port_candidates(RULES, 7910, 3), 50))
    assert first == list(islice(core.port_candidates(RULES, 7910, 3), 50))


def test_a_sites_range_is_all_there_is_with_its_free_part_first() -> None:
    rules = core.PortRules(ephemeral=(32768, 60999), allowed=[(32760, 32775)])
    ports = all_ports(rules)
    assert sorted(ports) == list(range(32760, 32776))
    assert sorted(ports[:8]) == list(range(32760, 32768))


def test_overlapping_ranges_and_slurms_ports_leave_each_port_once() -> None:
    rules = core.PortRules(
        allowed=[(6810, 6830), (6815, 6835), (500, 1026)], avoid=[(6825, 6826)]
    )
    wanted = set(range(6810, 6836)) - {6817, 6818, 6819, 6820, 6825, 6826}
    assert sorted(all_ports(rules)) == sorted(wanted | {1024, 1025, 1026})


def test_one_port_is_a_range() -> None:
    assert all_ports(core.PortRules(allowed=[(29500, 29500)])) == [29500]


def test_a_backward_range_is_refused() -> None:
    with pytest.raises(GangstartError, match="smaller port first"):
        next(core.port_candidates(core.PortRules(allowed=[(3000, 2000)]), 1, 1))


@pytest.mark.parametrize("value", ["1024", "29500", "65535"])
def test_a_users_port_is_read(value: str) -> None:
    assert core.read_port(value) == int(value)


@pytest.mark.parametrize(
    "value",
    [
        *("", "0", "80", "1023", "65536", "-1", "+5000", " 5000", "5000 ", "05000"),
        *("0x1388", "5000.0", "abc", "99999999999999999999"),
    ],
)
def test_a_users_bad_port_is_named(value: str) -> None:
    with pytest.raises(GangstartError) as caught:
        core.read_port(value)
    assert f"MASTER_PORT='{value}'" in caught.value.message
    assert "1024 to 65535" in caught.value.message


def test_a_busy_port_is_passed_over_and_a_users_busy_port_is_refused() -> None:
    first, second = islice(core.port_candidates(core.PortRules(), 7, 0), 2)
    assert choose_port((7, 0), "gn01", lambda p: p != first) == second
    with pytest.raises(GangstartError, match="29500 is already in use on node gn01"):
        choose_port((7, 0), "gn01", lambda _: False, wanted="29500")


def test_no_free_port_names_node_and_range() -> None:
    rules = core.PortRules(allowed=[(61000, 61003)])
    with pytest.raises(GangstartError, match=r"gn01: .*all 4 .*61000-61003"):
        choose_port((7, 0), "gn01", lambda _: False, rules=rules)
