"""The compiled SPANK plugin, one file per release line of Slurm: see plugin.path."""
