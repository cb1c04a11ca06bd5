"""What the head of a run and the program on another machine say to each other."""

from __future__ import annotations

import msgspec

from engine.diagnosis.process_memory import Measurement
from engine.supervisor.machines.shared_folder import Mark
from engine.telemetry.snapshot import Snapshot


class _Message(msgspec.Struct, frozen=True, tag_field="kind"):
    pass


class Begin(_Message, frozen=True, tag="begin"):
    """Make the folder of the run there; answered by `Begun`."""

    run: str
    """A name of the run that no other run of the cluster has."""

    attempt: str

    machine: str
    """What the machine is called in the cluster."""

    files: dict[str, bytes]
    """The settings and the recipe, by their path in the folder."""

    devices: tuple[str, ...]
    """Those of all ranks."""

    threads: str = ""
    """OMP_NUM_THREADS of the head; empty: each machine chooses."""

    sends_folder: bool = False
    """Whether the folder of the recipe is sent to a machine that lacks it."""

    shared: str = ""
    """The place of the run in a folder that all machines share; empty: there is none."""

    mark: Mark | None = None
    """What the head has written there."""


class Begun(_Message, frozen=True, tag="begun"):
    """The folder is there."""

    address: str
    """The IPv4 address of the machine in the cluster."""

    ports: tuple[int, ...]
    """A free port for each of its ranks, by rank."""

    problem: str = ""
    """Why the machine cannot take part, in a sentence; empty: it can."""

    lacks_folder: bool = False
    """Whether the folder of the recipe does not exist there."""

    mark: Mark | None = None
    """What the machine has written into the shared folder."""

    clock: float = 0.0
    """The time of its clock: seconds since the epoch; 0: it does not tell."""


class CheckpointPiece(_Message, frozen=True, tag="piece"):
    """The next bytes of a file of the checkpoint from which the workers resume."""

    name: str
    """The path in the folder of checkpoints."""

    data: bytes


class FolderPiece(_Message, frozen=True, tag="folder_piece"):
    """The next bytes of the packed folder of the recipe."""

    data: bytes


class Launch(_Message, frozen=True, tag="launch"):
    """Start the workers of this machine with these variables in their environment."""

    environment: dict[str, str]


class ToRank(_Message, frozen=True, tag="to_rank"):
    """A message for the worker of `rank`, as its channel encodes it."""

    rank: int
    frame: bytes


class AskStacks(_Message, frozen=True, tag="ask_stacks"):
    """Send the stacks of all threads of `rank`; answered by `Stacks`."""

    rank: int


class End(_Message, frozen=True, tag="end"):
    """Terminate or kill the workers."""

    kill: bool


HeadMessage = Begin | CheckpointPiece | FolderPiece | Launch | ToRank | AskStacks | End


class Launched(_Message, frozen=True, tag="launched"):
    """The process of a worker runs."""

    rank: int


class Cold(_Message, frozen=True, tag="cold"):
    """The workers import their framework; the reason is a clause."""

    reason: str


class NotLaunched(_Message, frozen=True, tag="not_launched"):
    """A worker could not be started; the reason is a sentence."""

    reason: str


class LaunchDone(_Message, frozen=True, tag="launch_done"):
    """No more workers will be started."""


class RankConnected(_Message, frozen=True, tag="connected"):
    """The worker of `rank` has opened its channel."""

    rank: int


class FromRank(_Message, frozen=True, tag="from_rank"):
    """A message of the worker of `rank`, as its channel encodes it."""

    rank: int
    frame: bytes


class RankClosed(_Message, frozen=True, tag="closed"):
    """The worker of `rank` will send no more."""

    rank: int


class RankExited(_Message, frozen=True, tag="exited"):
    """The process of `rank` has ended."""

    rank: int
    code: int


class LogText(_Message, frozen=True, tag="log"):
    """New output of `rank`."""

    rank: int
    data: bytes


class Stacks(_Message, frozen=True, tag="stacks"):
    """What the worker of `rank` has written about its threads."""

    rank: int
    text: str


class Devices(_Message, frozen=True, tag="devices"):
    """The state of the devices there."""

    snapshot: Snapshot


class Memory(_Message, frozen=True, tag="memory"):
    """What the processes of a run on CPUs hold there."""

    measurement: Measurement


class Beat(_Message, frozen=True, tag="beat"):
    """A sign of life, every second."""


NodeMessage = (
    Begun
    | Launched
    | Cold
    | NotLaunched
    | LaunchDone
    | RankConnected
    | FromRank
    | RankClosed
    | RankExited
    | LogText
    | Stacks
    | Devices
    | Memory
    | Beat
)

encode = msgspec.msgpack.Encoder().encode
decode_for_node: msgspec.msgpack.Decoder[HeadMessage] = msgspec.msgpack.Decoder(HeadMessage)
decode_for_head: msgspec.msgpack.Decoder[NodeMessage] = msgspec.msgpack.Decoder(NodeMessage)
