"""Names of the environment variables that tell a worker what it is to do.

`RANK`, `LOCAL_RANK`, `WORLD_SIZE` and `LOCAL_WORLD_SIZE` are torchrun's; these are ours.
"""

from __future__ import annotations

RENDEZVOUS = "TRAINDECK_RENDEZVOUS"
"""Path of a file that does not exist yet, by which the ranks of one attempt find each other."""

STACKS = "TRAINDECK_STACKS"
"""Path of the file for this worker's stacks. The worker sets it, for the processes it starts."""

RESUME = "TRAINDECK_RESUME"
"""Name of the checkpoint in the run folder from which to resume; empty: train from the start."""

PDB = "TRAINDECK_PDB"
"""`RANK:TERMINAL`, such as `1:/dev/pts/3`: that rank stops in pdb there before its first step."""
