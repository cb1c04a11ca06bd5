"""Names of the environment variables that a supervisor or a developer sets for a worker.

`RANK`, `LOCAL_RANK`, `WORLD_SIZE` and `LOCAL_WORLD_SIZE` are torchrun's; these are ours.
"""

from __future__ import annotations

RENDEZVOUS = "TRAINDECK_RENDEZVOUS"
"""Path of a file, which does not exist yet, for the rendezvous of the ranks of one attempt."""

ADDRESSES = "TRAINDECK_ADDRESSES"
"""For ranks on several machines: an address, IP:PORT, for each, by rank, with commas between; only
processes of this user can open the port. Empty: all ranks are on this machine."""

SHARED = "TRAINDECK_SHARED"
"""On another machine than the head: where its parts of checkpoints lie, in a folder that both see.
Empty: the parts are sent to the head."""

KEY = "TRAINDECK_KEY"
"""The key, in hexadecimal, with which ranks on several machines know each other."""

DEVICES = "TRAINDECK_DEVICES"
"""The devices of the attempt, with commas between: fewer than those of the spec after a machine was
lost. Empty: those of the spec."""

ACCUMULATION = "TRAINDECK_ACCUMULATION"
"""The accumulation steps of the attempt: more than those of the spec after a device was out of
memory. Empty: those of the spec."""

STACKS = "TRAINDECK_STACKS"
"""Path of the file for the stacks of a worker, which sets it for the processes that it starts."""

RECIPE = "TRAINDECK_RECIPE"
"""Path of the recipe, which a worker sets for the processes that it starts."""

COPY = "TRAINDECK_RECIPE_COPY"
"""Path of the copy of the recipe that is executed, set likewise; empty: there is none."""

SET_ASIDE = "TRAINDECK_SET_ASIDE"
"""Set in the processes that a worker starts, if the user has a package `engine` too."""

RUN_FOLDER = "TRAINDECK_RUN_FOLDER"
"""Path of the folder of the run, which a worker sets for its recipe."""

RESUME = "TRAINDECK_RESUME"
"""Name of the checkpoint in the run folder from which to resume; empty: train from the start."""

ATTEMPT = "TRAINDECK_ATTEMPT"
"""Number of the attempt of the run that the worker belongs to."""

SUPERVISOR = "TRAINDECK_SUPERVISOR"
"""Pid of the supervisor that starts the worker."""

CONTROL_GROUP = "TRAINDECK_CONTROL_GROUP"
"""Folder of the control group that the worker enters; empty: it has none of its own."""

PDB = "TRAINDECK_PDB"
"""`RANK:TERMINAL`, such as `1:/dev/pts/3`: that rank stops in pdb there before its first step."""

EXCHANGE = "TRAINDECK_EXCHANGE"
"""Folder that the ranks of one attempt of a script share; private, on a local disk."""

PORTS = "TRAINDECK_PORTS"
"""Free ports for the ranks of a script, separated by commas."""

CONTINUATION = "TRAINDECK_CONTINUATION"
"""JSON: what is added to the command of a script because it goes on, and the steps it has done."""
