"""What is new of runs, compared curves and sweeps: each is encoded by itself, and sent once."""
