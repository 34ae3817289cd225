"""A node with GPUs that do not exist: the fake NVML, its state, and a /sys."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
LINKS = 18
GIB = 1 << 30


def healthy(bus: int) -> dict[str, object]:
    """Every answer of one healthy GPU; all values differ, so that none is mixed up."""
    return {
        "uuid": f"GPU-0000{bus:02x}-aaaa",
        "pci": f"00000000:{bus:02X}:00.0",
        "name": "NVIDIA H200",
        "vbios": "96.00.BC.00.02",
        "serial": f"16523{bus}",
        "ecc": 1,
        "ecc.pending": 1,
        "mig": 0,
        "mig.pending": 1,
        "ecc_total.1.0": 2,
        "ecc_total.1.1": 3,
        "ecc_total.0.0": (1 << 40) + 4,
        "ecc_place.1.0.7": 5,
        "sram_threshold": 1,
        "unrepairable": 1,
        "remapped": "6 7 1 1",
        "retired_pending": 1,
        "temperature.0": 41,
        "threshold.1": 87,
        "threshold.2": 95,
        "margin": 44,
        "banks": "640 1 2 3 4",
        "clock.1": 1980,
        "clock_max.1": 1981,
        "clock_reasons": (1 << 33) + 0x44,
        "power": 101_234,
        "power_limit": 690_000,
        "power_default": 700_000,
        "pcie_width": 8,
        "pcie_width_max": 16,
        "pcie_gen": 3,
        "pcie_gen_max": 5,
        "pcie_replays": 17,
        "compute_mode": 3,
        "persistence": 1,
        "virtualization": 2,
        "minor": bus,
        "numa_node": 9,
        "utilization": 97,
        "memory_utilization": 55,
        "memory.total": 141 * GIB,
        "memory.reserved": 700 << 20,
        "memory.free": 100 * GIB,
        "memory.used": 41 * GIB,
        "fabric.state": 3,
        "fabric.status": 18,
        "fabric.health": 0x1A5,
        "fabric.clique": 32766,
        "fabric.cluster": 0x10,
        "field.230": "1:4",
        "field.29": "2:21",
        "field.30": "3:22",
        "field.82": "1:58",
        "field.91": f"1:{LINKS}",
        **{f"nvlink.{link}": int(link != 5) for link in range(LINKS)},
        **{
            f"field.{kind}.{link}": f"3:{kind - 160}"
            for kind in (161, 162, 163)
            for link in range(LINKS)
        },
        **{f"remote.{link}": 255 if link == 5 else 2 for link in range(LINKS)},
        "p2p.2.0": 5,
        "p2p.2.1": 5,
        "field.170": "1:5",
        **{f"field.171.{link}": f"6:{int(link < 2)}" for link in range(5)},
        "processes": "4711:1048576 4712:",
        "graphics": "4713:5",
        "mps": "4711:1048576",
    }


@dataclass
class Node:
    """One fake node: change ``node`` and ``gpus``, then ``write()``."""

    folder: Path
    library: Path
    node: dict[str, object] = field(default_factory=dict)
    gpus: list[dict[str, object]] = field(default_factory=list)

    @property
    def root(self) -> Path:
        """What stands in for / before /sys and /proc."""
        return self.folder / "root"

    @property
    def state(self) -> Path:
        """The file that the fake reads beside itself."""
        return Path(f"{self.library}.ini")

    @property
    def log(self) -> Path:
        """Calls of the fake, when the environment asks for them."""
        return self.folder / "calls"

    def write(self) -> None:
        """Put the state where the fake finds it, all at once."""
        node = {"driver": "570.124.06", "nvml": "12.570.124", "count": len(self.gpus)}
        sections = {"node": node | self.node} | {
            f"gpu {i}": gpu for i, gpu in enumerate(self.gpus)
        }
        lines = [
            f"[{name}]\n" + "".join(f"{k} = {v}\n" for k, v in section.items())
            for name, section in sections.items()
        ]
        new = self.state.with_suffix(".new")
        new.write_text("".join(lines), encoding="ascii")
        new.replace(self.state)

    def put(self, path: str, text: str) -> None:
        """Make a file below the root."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n", encoding="ascii")

    def device(self, pci: str, vendor: str = "0x10de", kind: str = "0x030200") -> None:
        """Put a device on the PCI bus."""
        self.put(f"/sys/bus/pci/devices/{pci}/vendor", vendor)
        self.put(f"/sys/bus/pci/devices/{pci}/class", kind)

    def driver(self) -> None:
        """Load NVIDIA's driver, with every GPU on the bus."""
        self.put("/sys/module/nvidia/initstate", "live")
        for gpu in self.gpus:
            self.device(str(gpu["pci"]).lower()[4:])


def objects(folder: Path) -> list[Path]:
    """Compile the fake, with the flags of a sanitized build if there are any."""
    made = []
    for source in sorted(HERE.glob("*.c")):
        made.append(folder / f"{source.stem}.o")
        own = shlex.split(os.environ.get("CFLAGS", ""))
        flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-g", "-O1"]
        run(["-D_GNU_SOURCE", "-fPIC", *flags, *own, "-c", source, "-o", made[-1]])
    return made


def link(made: list[Path], path: Path, missing: tuple[str, ...] = ()) -> Path:
    """Link the fake without some of its symbols, as an older driver's library is."""
    hidden = "".join(f"{name};" for name in missing)
    script = path.with_suffix(".map")
    script.write_text(f"{{ global: nvml*; local: {hidden} fake*; }};")
    own = shlex.split(os.environ.get("LDFLAGS", ""))
    run(["-shared", f"-Wl,--version-script={script}", *made, *own, "-o", path])
    return path


def run(arguments: list[str | Path]) -> None:
    compiler = shlex.split(os.environ.get("CC", "gcc"))
    subprocess.run([*compiler, *map(str, arguments)], check=True, timeout=60)


def compiler_is_here() -> bool:
    """Whether the fake can be compiled at all."""
    return shutil.which(shlex.split(os.environ.get("CC", "gcc"))[0]) is not None
