"""Builds the C core into its two homes: gangstart._core and the SPANK plugin."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
PLUGIN = "gangstart.spank_gangstart"
PROBE = "gangstart.gangstart-probe"
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


def fortify() -> list[str]:
    """Run-time checks of the C library, unless a sanitizer brings its own."""
    sanitized = "-fsanitize" in os.environ.get("CFLAGS", "")
    return [] if sanitized else ["-D_FORTIFY_SOURCE=2"]


def ours(name: str, folder: str, *link: str, include: str | None = None) -> Extension:
    """The core together with the sources of one folder below spank/."""
    return Extension(
        name,
        sources("spank/core") + sources(f"spank/{folder}"),
        include_dirs=["spank/core", f"spank/{folder}", *([include] if include else [])],
        define_macros=[("_GNU_SOURCE", None), ("GS_VERSION", f'"{version()}"')],
        undef_macros=["NDEBUG"],
        extra_compile_args=STRICT + fortify(),
        extra_link_args=["-Wl,-z,relro,-z,noexecstack", "-pthread", *link],
    )


def probe() -> Extension:
    """The program that asks the GPU driver; BuildExt links it as an executable."""
    return ours(PROBE, "probe", "-Wl,-z,now,--gc-sections", "-ldl")


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
    script = "-Wl,--version-script=spank/plugin/exports.map"
    return [ours(PLUGIN, "plugin", script, "-Wl,-z,nodelete", include=include)]


class BuildExt(build_ext):
    """Builds what is no Python module: the plugin and the probe, under their names."""

    def get_ext_filename(self, fullname: str) -> str:
        """File name of one extension; the plugin's without Python's suffix."""
        last = fullname.rpartition(".")[2]
        if last == PLUGIN.rpartition(".")[2]:
            return str(Path(*fullname.split(".")).with_suffix(".so"))
        if last == PROBE.rpartition(".")[2]:
            return str(Path(*fullname.split(".")))
        name: str = super().get_ext_filename(fullname)  # type: ignore[no-untyped-call]
        return name

    def build_extension(self, ext: Extension) -> None:
        """Build one extension; the probe as a program."""
        if ext.name != PROBE:
            super().build_extension(ext)
            return
        undefined: list[tuple[str]] = [(name,) for name in ext.undef_macros]
        objects = self.compiler.compile(
            ext.sources,
            output_dir=self.build_temp,
            macros=[*ext.define_macros, *undefined],
            include_dirs=ext.include_dirs,
            extra_postargs=["-fPIE", *ext.extra_compile_args],
        )
        path = Path(self.get_ext_fullpath(ext.name))
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = shlex.split(os.environ.get("LDFLAGS", ""))
        self.compiler.link_executable(
            objects,
            path.name,
            output_dir=str(path.parent),
            extra_postargs=["-pie", *ext.extra_link_args, *flags],
        )


setup(
    cffi_modules=["spank/binding/build_core.py:ffibuilder"],
    ext_modules=[probe(), *plugin()],
    cmdclass={"build_ext": BuildExt},
)
