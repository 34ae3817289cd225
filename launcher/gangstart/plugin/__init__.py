"""The SPANK plugin's files: which one a Slurm needs, and how to make another.

command ──▶ path     picks the file for a Slurm's release line
        └─▶ build    compiles one from the C sources in this package
"""
