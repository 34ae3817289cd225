"""What the plugin's file offers and what it asks for, as the linker sees it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

HOOKS = {
    "slurm_spank_init",
    "slurm_spank_init_post_opt",
    "slurm_spank_local_user_init",
    "slurm_spank_task_post_fork",
    "slurm_spank_task_init",
    "slurm_spank_task_exit",
    "slurm_spank_exit",
    "slurm_spank_job_epilog",
    "slurm_spank_job_prolog",
}
IDENTITY = {"plugin_name", "plugin_type", "plugin_version", "spank_plugin_version"}
# In every Slurm from 22.05 on; with a name beyond these an old one cannot load it.
SLURM = {
    "slurm_error",
    "slurm_free_node_info_msg",
    "slurm_info",
    "slurm_job_step_layout_free",
    "slurm_job_step_layout_get",
    "slurm_job_step_stat",
    "slurm_job_step_stat_response_msg_free",
    "slurm_list_iterator_create",
    "slurm_list_iterator_destroy",
    "slurm_list_next",
    "slurm_load_node_single",
    "slurm_spank_log",
    "spank_context",
    "spank_get_item",
    "spank_getenv",
    "spank_option_register",
    "spank_setenv",
    "spank_unsetenv",
}
TOOLCHAIN = {
    "__gmon_start__",
    "_ITM_deregisterTMCloneTable",
    "_ITM_registerTMCloneTable",
}


def output(*argv: str) -> str:
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} (Debian: binutils) is not installed")
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=30, check=True
    ).stdout


def symbols(path: Path, which: str) -> set[str]:
    """Names of dynamic symbols, with the library's version where there is one."""
    lines = output("nm", "-D", which, str(path)).splitlines()
    return {line.split()[-1] for line in lines}


@pytest.fixture
def plain(plugin: Path) -> Path:
    """The plugin, if it is an ordinary build."""
    if any("__asan" in name for name in symbols(plugin, "--undefined-only")):
        pytest.skip("a sanitized build needs the sanitizer's library")
    return plugin


def test_the_plugin_exports_its_hooks_and_identity_and_nothing_else(
    plugin: Path,
) -> None:
    exported = {n for n in symbols(plugin, "--defined-only") if "asan" not in n}

    assert exported == HOOKS | IDENTITY


def test_the_plugin_asks_of_slurm_only_what_every_release_has(plain: Path) -> None:
    asked = symbols(plain, "--undefined-only")

    assert {name for name in asked if "@GLIBC" not in name} - TOOLCHAIN == SLURM


def test_this_machines_slurm_has_all_that_the_plugin_asks_for() -> None:
    srun = shutil.which("srun")
    if srun is None:
        pytest.skip("srun (Debian: slurm-client) is not installed")
    libraries = re.findall(r"=> (\S*slurm\S*\.so\S*)", output("ldd", srun))
    offered = {s for one in libraries for s in symbols(Path(one), "--defined-only")}
    offered |= symbols(Path(srun), "--defined-only")

    assert {name.split("@")[0] for name in offered} >= SLURM


def test_the_plugin_needs_only_libc(plain: Path) -> None:
    dynamic = output("readelf", "-d", str(plain))

    assert re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic) == ["libc.so.6"]
    assert "TEXTREL" not in dynamic
    assert "NODELETE" in dynamic
