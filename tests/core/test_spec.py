"""SPEC: what a user and a site can ask for, and what they are told otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from gangstart import core
from gangstart._core import ffi, lib
from gangstart.errors import GangstartError
from seeded import seeded

if TYPE_CHECKING:
    import random

    from gangstart._core import CData


def spec_struct(*, arguments: tuple[str, ...] = ()) -> CData:
    spec = ffi.new("struct gs_spec *")
    lib.gs_spec_init(spec)
    error = ffi.new("struct gs_error *")
    for argument in arguments:
        core.check(lib.gs_spec_arg(spec, argument.encode(), error), error)
    return spec


def test_without_any_word_it_is_off_with_the_documented_defaults() -> None:
    spec = core.parse_spec()
    assert not spec.on
    assert spec.canonical == (
        "off,timeout=120,health=record,require=fail,env=torch,master-port=auto,master-addr=ip,"
        "master-iface=auto,report=auto,slack=0"
    )


@pytest.mark.parametrize("bare", [None, "", "(null)"])
def test_a_bare_flag_switches_on_and_keeps_what_was_said_before(
    bare: str | None,
) -> None:
    spec = core.parse_spec("timeout=45,health=off", bare, arguments=["slack=3"])
    assert (spec.on, spec.timeout_s, spec.health, spec.slack_s) == (True, 45, "off", 3)


def test_flag_beats_environment_beats_site_beats_built_in() -> None:
    site = ["timeout=10", "health=require", "master-addr=name"]
    spec = core.parse_spec("timeout=20,health=off", "timeout=30", arguments=site)
    assert (spec.timeout_s, spec.health, spec.master_name) == (30, "off", True)


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("60", "timeout_s", 60),
        ("86400", "timeout_s", 86400),
        ("on", "on", True),
        ("off", "on", False),
        ("off,timeout=5", "on", False),
        ("master-port=29500", "master_port", 29500),
        ("master-port=auto", "master_port", 0),
        ("master-iface=ib0", "master_iface", "ib0"),
        ("master-iface=bond0.100", "master_iface", "bond0.100"),
        ("master-iface=10.0.0.0/8", "master_iface", "10.0.0.0/8"),
        ("master-iface=fd00::/64", "master_iface", "fd00::/64"),
        ("report=/a/b=c.json", "report", "/a/b=c.json"),
        ("report=none", "report", "none"),
        ("report=auto", "report", ""),
        ("slack=0.25", "slack_s", 0.25),
        ("slack=86400", "slack_s", 86400),
        ("env=none", "env_presets", 0),
        ("env=torch", "env_presets", lib.GS_ENV_TORCH),
        ("env=jax+torch", "env_presets", lib.GS_ENV_TORCH | lib.GS_ENV_JAX),
        ("env=torch-LOCAL_RANK", "env_without", 1 << lib.GS_VAR_LOCAL_RANK),
        (
            "env=torch-RANK-MASTER_PORT",
            "env_without",
            1 << lib.GS_VAR_RANK | 1 << lib.GS_VAR_MASTER_PORT,
        ),
    ],
)
def test_each_key_reads_its_values(text: str, field: str, value: object) -> None:
    assert getattr(core.parse_spec(text), field) == value


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("timeout=0", ["timeout=0", "1 to 86400"]),
        ("86401", ["timeout=86401", "1 to 86400"]),
        ("60s", ["timeout=60s", "whole seconds"]),
        ("timeout=", ["timeout=", "whole seconds"]),
        ("timeout=-1", ["-1"]),
        ("timeout=99999999999999999999", ["86400"]),
        ("health=maybe", ["health=maybe", "off, record or require"]),
        ("env=mxnet", ["env=mxnet", "torch"]),
        ("env=torch+mxnet", ["env=torch+mxnet", "horovod"]),
        ("env=torch+torch", ["env=torch+torch"]),
        ("env=none-RANK", ["env=none-RANK"]),
        ("env=torch-GANGSTART_STEP", ["GANGSTART_STEP"]),
        ("env=torch-PATH", ["PATH"]),
        ("env=torch-", ["env=torch-"]),
        ("master-port=80", ["80", "1024 to 65535"]),
        ("master-port=65536", ["65536"]),
        ("master-addr=host", ["ip or name"]),
        ("master-iface=10.0.0.0/33", ["10.0.0.0/33"]),
        ("master-iface=300.0.0.0/8", ["network"]),
        ("master-iface=sixteencharacter", ["15 characters"]),
        ("report=relative", ["relative", "absolute"]),
        ("report=/a b", ["blanks"]),
        ("report=/a#b", ["'#'"]),
        ("report=/a,b", ["'b'", "commas"]),
        ("report=/" + "x" * 1024, ["absolute"]),
        ("slack=1.2345", ["three decimals"]),
        ("slack=86400.001", ["86400"]),
        ("slack=.5", ["slack=.5"]),
        ("slack=1e3", ["slack=1e3"]),
        ("slack=nan", ["slack=nan"]),
        ("nonsense=1", ["nonsense=1", "timeout", "slack"]),
        ("nonsense", ["nonsense", "on, off"]),
        ("timeout = 5", ["timeout = 5"]),
        ("on,", ["''"]),
        ("timeout=5,timeout=6", ["timeout", "twice"]),
        ("5,timeout=6", ["timeout", "twice"]),
        ("on,off", ["twice"]),
        ("auto=gpu", ["auto", "plugstack.conf"]),
        ("spool=/x", ["spool", "plugstack.conf"]),
        ("x" * 3000, ["3000", "2047"]),
        ("\x1b[31m", ["?[31m"]),
    ],
)
def test_a_mistake_is_named_with_what_is_allowed(text: str, parts: list[str]) -> None:
    with pytest.raises(GangstartError) as caught:
        core.parse_spec(text)
    for part in parts:
        assert part in caught.value.message


def test_a_mistake_at_the_end_changes_nothing_at_all() -> None:
    spec = spec_struct()
    error = ffi.new("struct gs_error *")
    before = bytes(ffi.buffer(spec))
    assert lib.gs_spec_parse(spec, b"timeout=5,health=off,report=/x,oops", error) < 0
    assert bytes(ffi.buffer(spec)) == before


def test_a_site_sets_its_own_keys_in_plugstack_conf() -> None:
    spec = spec_struct(
        arguments=(
            "auto=gpu",
            "rendezvous=node",
            "ports=20000-20100",
            "spool=/var/spool/gs",
            "archive=/shared/gs",
            "probe=/usr/libexec/gangstart-probe",
            "conf=none",
        )
    )
    assert spec.auto_start == lib.GS_AUTO_GPU
    assert spec.rendezvous == lib.GS_RENDEZVOUS_NODE
    assert (spec.port_lo, spec.port_hi) == (20000, 20100)
    assert core.text(spec.spool) == "/var/spool/gs"
    assert core.text(spec.archive) == "/shared/gs"
    assert core.text(spec.conf) == ""
    assert not spec.on


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("any", ""),
        ("train", "train"),
        ("a+b-2_x.y", "a+b-2_x.y"),
        ("p" * 255, "p" * 255),
    ],
)
def test_the_partitions_where_auto_counts(value: str, names: str) -> None:
    spec = spec_struct(arguments=(f"partition={value}",))
    assert core.text(spec.partitions) == names


@pytest.mark.parametrize("value", ["", "+", "a+", "+a", "a++b", "a,b", "p" * 256])
def test_what_names_no_partition_is_refused(value: str) -> None:
    with pytest.raises(GangstartError, match=r"partition.*joined by \+"):
        spec_struct(arguments=(f"partition={value}",))


@pytest.mark.parametrize(
    ("argument", "part"),
    [
        ("on", "auto="),
        ("off", "auto="),
        ("60", "timeout"),
        ("", "timeout"),
        ("ports=20100-20000", "smaller first"),
        ("ports=80-90", "1024"),
        ("ports=20000", "LO-HI"),
        ("spool=none", "absolute path"),
        ("spool=run", "absolute path"),
        ("auto=yes", "never, gpu or always"),
        ("typo=1", "rendezvous"),
    ],
)
def test_a_wrong_plugstack_argument_is_named(argument: str, part: str) -> None:
    with pytest.raises(GangstartError) as caught:
        core.parse_spec(arguments=[argument])
    assert part in caught.value.message


def random_spec(rng: random.Random) -> str:
    choices = {
        "timeout": ["1", "300", "86400"],
        "health": ["off", "record", "require"],
        "env": ["none", "torch", "torch-RANK", "torch-GROUP_RANK-WORLD_SIZE"],
        "master-port": ["auto", "1024", "65535"],
        "master-addr": ["ip", "name"],
        "master-iface": ["auto", "ib0", "10.1.0.0/16", "fd00:1::/64"],
        "report": ["auto", "none", "/scratch/r.json", "/" + "d" * 1000],
        "slack": ["0", "1.5", "0.001", "86400"],
    }
    keys = rng.sample(sorted(choices), rng.randint(0, len(choices)))
    return ",".join(
        [rng.choice(["on", "off"]), *(f"{k}={rng.choice(choices[k])}" for k in keys)]
    )


def test_the_canonical_text_reproduces_every_spec_over_any_other() -> None:
    rng = seeded(5)
    for _ in range(300):
        spec = core.parse_spec(random_spec(rng))
        assert core.parse_spec(random_spec(rng), spec.canonical) == spec
        assert " " not in spec.canonical
        assert "#" not in spec.canonical


def test_a_buffer_that_is_too_small_is_refused_not_overrun() -> None:
    out = ffi.new("char[8]", b"keep")
    assert lib.gs_spec_format(spec_struct(), out, 8) < 0
    assert core.text(out) == "keep"


def test_the_help_names_every_key() -> None:
    text = core.spec_help()
    for key in ("timeout", "health", "env", "master-port", "report", "slack", "spool"):
        assert f"  {key}=" in text
    assert max(len(line) for line in text.splitlines()) <= 120
    assert text.endswith("\n")
