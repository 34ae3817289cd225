"""Builds the C core into its two homes: gangstart._core and the SPANK plugin."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
PLUGIN = "gangstart.spank_gangstart"
STRICT = [
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wshadow",
    "-Wformat=2",
    "-Wundef",
    "-Wvla",
    "-Wstrict-prototypes",
    "-Wmissing-prototypes",
    "-Wold-style-definition",
    "-Wpointer-arith",
    "-Wcast-qual",
    "-Wimplicit-fallthrough",
    "-Wnull-dereference",
    "-Wconversion",
    "-Wno-sign-conversion",
    "-Wdouble-promotion",
    "-fstack-protector-strong",
]


def sources(folder: str) -> list[str]:
    """C files of one folder, relative to the repository root."""
    return [str(p.relative_to(ROOT)) for p in sorted((ROOT / folder).glob("*.c"))]


def version() -> str:
    """The one version number, from pyproject.toml."""
    for line in (ROOT / "pyproject.toml").read_text().splitlines():
        if line.startswith("version = "):
            return line.split('"')[1]
    raise SystemExit("setup.py: pyproject.toml has no line 'version = \"…\"'")


def slurm_include() -> str | None:
    """Folder that holds slurm/spank.h, or None (GANGSTART_SLURM_INCLUDE overrides)."""
    given = os.environ.get("GANGSTART_SLURM_INCLUDE")
    for folder in [given] if given else ["/usr/include", "/usr/local/include"]:
        if (Path(folder) / "slurm" / "spank.h").exists():
            return folder
    return None


def plugin() -> list[Extension]:
    """The SPANK plugin, unless GANGSTART_NO_PLUGIN=1 asks for the Python part only."""
    if os.environ.get("GANGSTART_NO_PLUGIN") == "1":
        return []
    include = slurm_include()
    if include is None:
        sys.exit(
            "setup.py: slurm/spank.h was not found. Install Slurm's headers "
            "(Debian: apt-get install libslurm-dev), name their folder in "
            "GANGSTART_SLURM_INCLUDE, or set GANGSTART_NO_PLUGIN=1 to build "
            "without the SPANK plugin."
        )
    fortify = (
        [] if "-fsanitize" in os.environ.get("CFLAGS", "") else ["-D_FORTIFY_SOURCE=2"]
    )
    return [
        Extension(
            PLUGIN,
            sources("spank/core") + sources("spank/plugin"),
            include_dirs=["spank/core", "spank/plugin", include],
            define_macros=[
                ("_GNU_SOURCE", None),
                ("GS_VERSION", f'"{version()}"'),
            ],
            undef_macros=["NDEBUG"],
            extra_compile_args=STRICT + fortify,
            extra_link_args=[
                "-Wl,--version-script=spank/plugin/exports.map",
                "-Wl,-z,nodelete,-z,relro,-z,noexecstack",
                "-pthread",
            ],
        )
    ]


class BuildExt(build_ext):
    """Names the plugin spank_gangstart.so: it is not a Python module."""

    def get_ext_filename(self, fullname: str) -> str:
        """File name of one extension; the plugin's without Python's suffix."""
        if fullname.rpartition(".")[2] == PLUGIN.rpartition(".")[2]:
            return str(Path(*fullname.split(".")).with_suffix(".so"))
        name: str = super().get_ext_filename(fullname)  # type: ignore[no-untyped-call]
        return name


setup(
    cffi_modules=["spank/binding/build_core.py:ffibuilder"],
    ext_modules=plugin(),
    cmdclass={"build_ext": BuildExt},
)
