"""gangstart run: the start of a step verified from Python, under any MPI launcher."""
