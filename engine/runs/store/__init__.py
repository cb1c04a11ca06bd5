"""The store of a run, `run.sqlite`: written by one process, read and followed by any."""
