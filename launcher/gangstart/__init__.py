"""Gang start for Slurm: everybody present, wired and healthy before step one."""

__version__ = "0.1.0"
