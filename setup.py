"""Builds the C core into its homes: gangstart._core, the probe, a plugin per Slurm."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "launcher"))

from gangstart.plugin import recipe  # noqa: E402  it lies in the tree that is built

PLUGIN = "gangstart.plugins.spank_gangstart-"
PROBE = "gangstart.gangstart-probe"
#: Where the package keeps the C sources for `gangstart plugin build`.
SOURCE = Path("gangstart", "source")
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
    return [] if sanitized else [recipe.FORTIFY]


def probe() -> Extension:
    """The program that asks the GPU driver."""
    return Extension(PROBE, sources("spank/core") + sources("spank/probe"))


def plugins() -> list[Extension]:
    """The SPANK plugin for each release line; GANGSTART_NO_PLUGIN=1 leaves them out."""
    if os.environ.get("GANGSTART_NO_PLUGIN") == "1":
        return []
    if slurm_include() is None:
        sys.exit(
            "setup.py: slurm/spank.h was not found. Install Slurm's headers "
            "(Debian: apt-get install libslurm-dev), name their folder in "
            "GANGSTART_SLURM_INCLUDE, or set GANGSTART_NO_PLUGIN=1 to build "
            "without the SPANK plugin."
        )
    files = sources("spank/core") + sources("spank/plugin")
    lines = recipe.known(ROOT / "spank" / "plugin")
    return [Extension(f"{PLUGIN}{line.major}_{line.minor:02}", files) for line in lines]


def line_of(name: str) -> recipe.Line:
    """Release line that a plugin's extension is for."""
    major, minor = name.rpartition("-")[2].split("_")
    return recipe.Line(int(major), int(minor))


class BuildExt(build_ext):
    """Builds what is no Python module too: the probe, and a plugin per release line.

    Their objects are compiled once; for a release line one small file is added.
    """

    def get_ext_filename(self, fullname: str) -> str:
        """File name of one extension, without Python's suffix for what is none."""
        # In an editable build only the last part of the name comes here.
        path = Path(*fullname.split("."))
        if path.name.startswith(PLUGIN.rpartition(".")[2]):
            return str(path.with_name(line_of(fullname).file_name))
        if path.name == PROBE.rpartition(".")[2]:
            return str(path)
        name: str = super().get_ext_filename(fullname)  # type: ignore[no-untyped-call]
        return name

    def build_extension(self, ext: Extension) -> None:
        """Build one extension."""
        if ext.name == PROBE:
            self.link_probe(ext)
        elif ext.name.startswith(PLUGIN):
            self.link_plugin(ext)
        else:
            super().build_extension(ext)

    def objects(self, files: list[str], line: recipe.Line | None = None) -> list[str]:
        """Compile files of ours, each only once per line, and return the objects."""
        place = str(line or "")
        if not hasattr(self, "compiled"):
            self.compiled: dict[tuple[str, str], str] = {}
        fresh = [name for name in files if (name, place) not in self.compiled]
        include = slurm_include()
        made = self.compiler.compile(
            fresh,
            output_dir=str(Path(self.build_temp, "ours", place)),
            macros=[
                ("_GNU_SOURCE", None),
                ("GS_VERSION", f'"{version()}"'),
                *(line.defines if line else []),
                ("NDEBUG",),
            ],
            include_dirs=[
                *(f"spank/{folder}" for folder in ("core", "plugin", "probe")),
                *([include] if include else []),
            ],
            extra_postargs=[*recipe.COMPILE, *STRICT, *fortify()],
        )
        pairs = zip(fresh, made, strict=True)
        self.compiled |= {(name, place): of for name, of in pairs}
        return [self.compiled[name, place] for name in files]

    def target(self, ext: Extension) -> Path:
        """Where the result goes; its folder is made."""
        path = Path(self.get_ext_fullpath(ext.name))
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def link_probe(self, ext: Extension) -> None:
        """Link the probe, a program."""
        path = self.target(ext)
        flags = shlex.split(os.environ.get("LDFLAGS", ""))
        self.compiler.link_executable(
            self.objects([str(name) for name in ext.sources]),
            path.name,
            output_dir=str(path.parent),
            extra_postargs=[
                *("-pie", *recipe.LINK, "-Wl,-z,now,--gc-sections", "-ldl"),
                *flags,
            ],
        )

    def link_plugin(self, ext: Extension) -> None:
        """Link the plugin for one release line."""
        line = line_of(ext.name)
        release = f"spank/plugin/{recipe.RELEASE_FILE}"
        shared = [str(name) for name in ext.sources if name != release]
        self.compiler.link_shared_object(
            self.objects(shared) + self.objects([release], line),
            str(self.target(ext)),
            extra_postargs=[
                recipe.version_script("spank/plugin"),
                *recipe.LINK_PLUGIN,
            ],
        )


class BuildPy(build_py):
    """Puts the C sources into the package; an editable one has them beside it."""

    def run(self) -> None:
        """Copy the modules, then the sources."""
        super().run()
        if self.editable_mode:
            return
        for folder in ("core", "plugin"):
            target = Path(self.build_lib) / SOURCE / folder
            target.mkdir(parents=True, exist_ok=True)
            for path in sorted((ROOT / "spank" / folder).iterdir()):
                if path.suffix in {".c", ".h", ".map"}:
                    shutil.copy2(path, target)


setup(
    cffi_modules=["spank/binding/build_core.py:ffibuilder"],
    ext_modules=[probe(), *plugins()],
    cmdclass={"build_ext": BuildExt, "build_py": BuildPy},
)
