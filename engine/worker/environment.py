"""The names of the environment variables by which a launcher tells a worker who it is.

`RANK`, `LOCAL_RANK`, `WORLD_SIZE` and `LOCAL_WORLD_SIZE` are torchrun's; these are ours.
"""

from __future__ import annotations

RENDEZVOUS = "TRAINDECK_RENDEZVOUS"
"""A file that does not exist yet, where the ranks of one attempt find each other."""

STACKS = "TRAINDECK_STACKS"
"""Where this worker writes what its threads are doing; set by itself, for those that help it."""

RESUME = "TRAINDECK_RESUME"
"""Name of the checkpoint, inside the run folder, to go on from; empty to begin anew."""
