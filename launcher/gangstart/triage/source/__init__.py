"""What triage asks: Slurm, the archive, Prometheus, and where a job's files are."""
