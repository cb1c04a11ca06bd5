"""What the hooks of all libraries share: the step, the figures, commands, and what is told."""

from __future__ import annotations

import atexit
import faulthandler
import functools
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, NoReturn, TypeVar, cast

from traindeck_watch import role
from traindeck_watch.agreement import Act, Agreement, Command, Control, Stopped
from traindeck_watch.link import Frame, Link, identity_of
from traindeck_watch.printed import Printed
from traindeck_watch.recorder import Recorder
from traindeck_watch.throughput import Throughput

FLUSH_SECONDS = 0.2
MEMORY_SECONDS = 2.0
_FAREWELL_SECONDS = 5.0
_QUICK_FAREWELL_SECONDS = 1.0
_UNREAD_SECONDS = 60.0
"""Time at the end of the script for a process of the rank that is halted, and reads nothing."""

_WENT_ON_SECONDS = 5.0
_LARGEST_TEXT = 16_000
_AT_ONCE = (
    "Several processes of the command train at the same time, each by itself: the steps and curves "
    "are those of the first one."
)
_IN_TURN = "The command trains several times, in one process after another: "

Function = TypeVar("Function", bound=Callable[..., Any])


class NoModel(Exception):
    """A library cannot save what it trains now; the text says why."""


class Watch:
    """The watch of one process. Hooks call it; it never raises into the script but for a Stop."""

    def __init__(self) -> None:
        self.link = Link()
        self._has_schedule = threading.Event()
        self.recorder = Recorder(self.link, self.notice)
        self.agreement = Agreement(os.environ.get("TRAINDECK_AGREEMENT", ""), self.rank, self.world)
        self.control = Control(self.agreement, self._tell)
        self.control.stop = self._stop
        self.control.save = self._save
        self.step = role.number("TRAINDECK_FIRST_STEP", 0)
        self.epoch: int | None = None
        self.batch_size: int | None = None
        self.calls_are_used = False
        """Whether level 1 counts the steps and carries out the commands."""

        self.by_calls: set[str] = set()
        """Series that level 1 records itself, so that no figure comes twice."""

        self.trains = False
        """Whether this process has made a step, and is the one that reports them."""

        self.is_silent = False
        """Whether another process of this rank reports, or another rank's process of ours does."""

        self.fit_depth = 0
        """Above 0 while a library's own loop (Keras' `fit`) counts the steps."""

        self.graceful_stop: Callable[[], None] | None = None
        """How the library whose loop runs now is asked to end it."""

        self.savers: list[Callable[[str], list[str]]] = []
        """Each writes the weights that it knows, as `<path>` and an ending; returns the files."""

        self.memory: Callable[[], dict[str, float]] | None = None
        self.emptiers: list[Callable[[], tuple[str, int]]] = []
        self.ranks: Callable[[], tuple[int, int] | None] = lambda: None
        """Rank and number of ranks, if a framework knows them."""

        self._printed = Printed(self)
        self.polls: list[Callable[[], None]] = [self._printed.send]
        """Called by the thread before it sends, for what is only looked at now and then."""

        self.finishers: list[Callable[[], None]] = []
        """Called at the end of the script, for what hooks still hold back."""

        self.loading: Any = None
        """What is known of the loader that feeds the training (PyTorch)."""

        self.epoch_is_told = False
        """Whether a library tells the epoch, so that it need not be counted."""

        self.batch_is_told = False
        """Whether a library tells the batch size, so that it is not taken from a loader."""

        self.of_script: Exception | None = None
        """What a handler of the script has raised within our hooks: the script must get it."""

        self.local = _OfThread()
        self._told: set[str] = set()
        self._thread: threading.Thread | None = None
        self._thread_lock = threading.Lock()
        self._has_ended = False
        self._follows_output = False
        self._claim: int | None = None
        self._claim_is: tuple[int, int] | None = None
        self._started_training = False
        self._is_first_rank = True
        """Until it is known better: only rank 0's figures are kept."""

        self.throughput = Throughput()
        self._plan: Frame = {}
        self._outlined: set[int] = set()
        self.optimizers_outlined = 0
        """Number of Keras' optimizers whose models were told."""

        self._doing = ""
        self._stop_asked_at: float | None = None
        self._memory_due = 0.0
        self._failure_sent = False
        self._sent_progress: tuple[Any, ...] = ()
        self.control.empty_cache = self._empty_cache
        os.register_at_fork(after_in_child=self._forget_after_fork)

    # the process

    def connect(self) -> None:
        """Connect, and tell of an error that ends the script. The thread starts when needed."""
        if not self.link.connect():
            return
        self.guard(_dump_stacks_on_request, "a script that hangs")()
        atexit.register(self._end)
        if not self._follows_output:
            self._follows_output = True
            self.guard(self._printed.follow, "what the script prints")()
        previous = sys.excepthook

        def excepthook(
            kind: type[BaseException], error: BaseException, trace: TracebackType | None
        ) -> None:
            self.failed(error)
            if isinstance(error, Stopped):
                sys.stderr.write(f"Stopped by Traindeck after step {self.step}.\n")
            else:
                previous(kind, error, trace)

        sys.excepthook = excepthook
        leave = os._exit

        @functools.wraps(leave)
        def leave_at_once(status: int) -> NoReturn:
            if self.link.is_open:
                end = functools.partial(self._end_quietly, _QUICK_FAREWELL_SECONDS)
                self.guard(end, "the end of the script")()
            leave(status)

        os._exit = leave_at_once

    def start_thread(self) -> None:
        """Begin to send; called when something is there that may train."""
        if self._thread is not None or not self.link.is_open or self._has_ended:
            return
        with self._thread_lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="traindeck-watch", daemon=True
                )
                self._thread.start()

    @property
    def sends(self) -> bool:
        """Whether the thread that sends runs."""
        return self._thread is not None

    def begin_training(self) -> None:
        """The first step was made: is this the process that reports?"""
        self._started_training = True
        rank, world = self.rank(), self.world()
        self.agreement.is_alone = world < 2
        self.agreement.begin()
        self._is_first_rank = rank == 0
        if rank != role.link_rank():
            self.is_silent = True  # it only does what the ranks agree on
            return
        self._claim = role.claim_training()
        if self._claim is None:
            self.is_silent = True
            if self.link.is_open or self.link.connect():
                self.notice(_AT_ONCE)
            return
        self._claim_is = identity_of(self._claim)
        self.trains = True
        self._count_on(role.steps_before(self._claim), world)
        if not self.link.is_open:
            self.connect()
        self.start_thread()

    def _count_on(self, before: int, world: int) -> None:
        """The command has trained before, in a process that has ended; so many steps are done."""
        if before <= self.step:
            return
        if world > 1 or self.calls_are_used:
            self.notice(_IN_TURN + "the steps of each begin anew, so their curves overlap.")
            return
        self.step = before
        self.notice(_IN_TURN + "their steps are counted on, and their curves follow each other.")

    def take_calls(self, save: Command, stop: Command) -> bool:
        """Level 1 counts the steps, saves and stops, unless another process trains."""
        self.calls_are_used = True
        if not self._started_training:
            self.begin_training()
        if self.is_silent:
            self.calls_are_used = False
            return False
        self.control.save, self.control.stop = save, stop
        self.recorder.put({"kind": "calls"})
        return True

    def rank(self) -> int:
        """This process' number among all ranks."""
        known = self.ranks()
        return known[0] if known is not None else role.number("RANK", role.link_rank())

    def world(self) -> int:
        """Number of ranks that make the same steps."""
        known = self.ranks()
        otherwise = role.number("TRAINDECK_WORLD", 1)
        return max(known[1], otherwise) if known is not None else otherwise

    def _run(self) -> None:
        while self.link.is_open and not self._has_ended:
            try:
                for frame in self.link.receive(FLUSH_SECONDS):
                    self._take(frame)
                self.flush()
            except Exception as error:
                self.notice(f"Sending figures failed: {error}")

    def _take(self, frame: Frame) -> None:
        if frame.get("kind") == "act":
            if self.is_silent:
                return  # the process that reports gets it, too
            what, number = str(frame.get("what")), int(frame.get("number") or 0)
            details = {k: v for k, v in frame.items() if k not in ("kind", "what", "number")}
            self.agreement.ask(Act(what, number, details))
        elif frame.get("kind") == "save_every":
            self._schedule = frame
            self._has_schedule.set()

    def schedule(self, seconds: float) -> Frame | None:
        """The newest `save_every`, for level 1; wait for the first one for some seconds."""
        if self.link.is_open:
            self._has_schedule.wait(seconds)
        return self._schedule

    _schedule: Frame | None = None

    def flush(self) -> None:
        """Send what waits. Called by the thread, and at the end."""
        for poll in self.polls:
            poll()
        if self._claim is not None and self.step:
            role.note_steps(self._claim, self.step)
        if self.is_silent:
            self.recorder.flush({})
            return
        self._report_memory()
        step, seconds = self.step, self.throughput.step_seconds
        rate = self.throughput.look(step)
        if self.throughput.step_seconds is not None:
            seconds = self.agreement.seconds_per_step = self.throughput.step_seconds
        progress: Frame = {
            "step": step,
            "epoch": self.epoch,
            "step_seconds": seconds,
            "samples_per_second": rate,
        }
        now = (self.step, self.epoch)
        self.recorder.flush(progress if now != self._sent_progress or self._waits() else {})
        self._sent_progress = now

    def _waits(self) -> bool:
        return self.recorder.has_pending

    def _report_memory(self) -> None:
        now = time.monotonic()
        if self.memory is None or now < self._memory_due or not self.step:
            return
        self._memory_due = now + MEMORY_SECONDS
        figures = self.memory()
        if figures:
            self.recorder.put({"kind": "memory", **figures})

    def _end(self) -> None:
        """At the end of the interpreter: send what is left, and let the thread end before."""
        self.guard(self._end_quietly, "the end of the script")()

    def _end_quietly(self, seconds: float = _FAREWELL_SECONDS) -> None:
        self._has_ended = True
        for finish in self.finishers:
            finish()
        error = getattr(sys, "last_value", None)
        if isinstance(error, BaseException):
            self.failed(error)
        if self._thread is not None:
            deadline = time.monotonic() + _UNREAD_SECONDS
            self._thread.join(seconds)
            while self._thread.is_alive() and self.link.waits and time.monotonic() < deadline:
                self._thread.join(1.0)
            if self._thread.is_alive():
                return  # it waits for a device; what it holds cannot be sent twice
        if self.link.is_open:
            self.flush()
            self.recorder.tell_left_out()
            self.flush()
            self.link.send({"kind": "ended"})
            self.link.close()

    def _forget_after_fork(self) -> None:
        """A forked child, such as a loader's worker, is silent unless it trains itself."""
        self.link.forget_after_fork()
        self.recorder.forget_after_fork()
        self._printed.forget_after_fork()
        self._thread, self._thread_lock = None, threading.Lock()
        self.trains = self.is_silent = self._started_training = False
        self._is_first_rank = True
        if self._claim is not None and identity_of(self._claim) == self._claim_is is not None:
            os.close(self._claim)
        self._claim = None
        self.step = 0
        self.throughput.forget_after_fork()

    # what hooks tell

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is to be captured in this process, or here and now."""
        return self.is_silent or self.local.nested > 0

    def count_step(self, at: float | None = None) -> None:
        """A step is done, `at` this time of `monotonic`; None: now. The caller has recorded its
        figures for `step + 1`, or does so next."""
        if not self._started_training:
            self.begin_training()
        if self.calls_are_used:
            return
        self.step += 1
        if (loading := self.loading) is not None:
            begins = loading.begun is not None and loading.stepped(self.step - 1)
            if begins and not self.epoch_is_told:
                self.epoch = loading.epochs
            loading.trained = loading.samples
        self.throughput.stepped(at=at)
        if self._doing and self._doing != "training":
            self.doing("training")

    def boundary(self) -> None:
        """Between two steps: carry out commands. Raises Stopped."""
        if self.calls_are_used:
            return
        if self._stop_asked_at is not None:
            self._insist()
        if self.agreement.is_idle:
            return
        self.carry_out(self.step)

    def carry_out(self, step: int) -> None:
        """Do what is due after `step`. Raises what a Stop does."""
        begin = self.control.paused_seconds
        self.control.boundary(step)
        if self.control.paused_seconds != begin:
            self.throughput.goes_on()

    def record(self, series: str, value: Any, step: int | None = None) -> None:
        """Keep a figure that a hook captured."""
        if self.is_silent or not self._is_first_rank or series in self.by_calls:
            return
        self.start_thread()
        self.recorder.record(series, self.present_step if step is None else step, value)

    def record_step(
        self, loss_series: str, loss: Any, rate_series: str, rate: Any, step: int
    ) -> None:
        """Keep the figures of an optimizer's step; None is none. The hot path: one entry for both,
        with the time of `count_step`."""
        if self.by_calls or self.calls_are_used:
            if loss is not None:
                self.record(loss_series, loss, step)
            if rate is not None:
                self.record(rate_series, rate, step)
        elif self._is_first_rank and not self.is_silent:
            if self._thread is None:
                self.start_thread()
            self.recorder.record_step(
                (loss_series, step, self.throughput.last_step_at, loss, rate_series, rate)
            )

    @property
    def present_step(self) -> int:
        """The step that figures without one belong to: the last one done, also of a process that
        this one has started, or the one that level 1 is computing."""
        if self.calls_are_used:
            return self.step + 1
        return self.step if self.trains else max(self.step, role.steps_of_others())

    def plan(self, **known: int | None) -> None:
        """Tell what is known of the training; a name that is None stays as it was."""
        fresh = {name: value for name, value in known.items() if value is not None}
        if self.is_silent or all(self._plan.get(name) == value for name, value in fresh.items()):
            return
        self._plan.update(fresh)
        self.recorder.put({"kind": "plan", **self._plan})

    def outline(self, models: list[Any]) -> None:
        """Tell which models train, by their layers; `models` are the outermost ones."""
        if self.is_silent or not self._is_first_rank or not models:
            return
        from traindeck_watch.models import outline

        known = {id(model) for model in models}
        if known <= self._outlined:
            return
        self._outlined = known
        rows = [
            row for model in models if outline.is_model(model) for row in outline.outline(model)
        ]
        versions = outline.library_versions()
        self.recorder.put({"kind": "outline", "rows": rows, "versions": versions})

    @property
    def sees_steps(self) -> bool:
        """Whether steps are counted: in this process, or in one that it has started."""
        return self.trains or self.calls_are_used or self.present_step > 0

    def doing(self, what: str) -> None:
        """Tell what the script does now, such as validation."""
        if what != "training":
            self.throughput.interrupted()
        if what != self._doing and not self.is_silent:
            self._doing = what
            self.recorder.put({"kind": "doing", "what": what, "step": self.step})

    def versions(self, **versions: str) -> None:
        """Tell the version of a library that the script uses."""
        self.recorder.put({"kind": "versions", "versions": versions})
        self.start_thread()

    def wrote_file(self, path: Any, *, is_state: bool = False) -> None:
        """The script has written a checkpoint; `path` may be an open file.

        `is_state`: it is one from which a library goes on.
        """
        if not isinstance(path, (str, os.PathLike)):
            path = getattr(path, "name", None)
        if self.is_quiet or self.rank() != 0 or not isinstance(path, (str, os.PathLike)):
            return
        name, step = os.path.abspath(os.fspath(path)), self.step  # noqa: PTH100
        if not isinstance(name, str):
            return
        folder = os.path.dirname(name)  # noqa: PTH120
        if _CHECKPOINT_FOLDER.fullmatch(os.path.basename(folder)):  # noqa: PTH119
            name = folder  # what the script's own flag for a resume expects
            is_state = True
        try:
            inode: int | None = os.stat(name).st_ino  # noqa: PTH116
        except OSError:
            inode = None

        def told() -> Frame | None:
            final = _where_now(name, inode)
            found = {"kind": "file", "path": final, "step": step, "is_state": is_state}
            return found if final else None

        self.start_thread()
        self.recorder.put(told)

    def notice(self, text: str) -> None:
        """Tell a person something, once."""
        if text not in self._told:
            self._told.add(text)
            self.recorder.put({"kind": "notice", "text": text})
            self.start_thread()

    def failed(self, error: BaseException) -> None:
        """Tell of the exception that ends the script, and where in the user's code it came from."""
        if self._failure_sent or isinstance(error, (SystemExit, Stopped)):
            return
        self._failure_sent = True
        text = "".join(traceback.format_exception_only(type(error), error)).strip()
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self.recorder.put(
            {
                "kind": "failed",
                "message": text[:_LARGEST_TEXT],
                "where": _where(error.__traceback__),
                "traceback": trace[-_LARGEST_TEXT:],
                "step": self.step,
            }
        )

    def guard(self, function: Function, what: str) -> Function:
        """Return the function as one whose errors are told once and never reach the script."""

        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except Exception as error:
                self.tell_error(error, what)
                return None

        return cast(Function, guarded)

    def tell_error(self, error: Exception, what: str) -> None:
        """Tell once of an error of our own, while it is handled; one of the script is raised."""
        if error is self.of_script:
            raise error
        self.notice(f"Traindeck could not watch {what}: {type(error).__name__}: {error}")

    # commands

    def _tell(self, frame: Frame) -> None:
        """Answer a command; not from a process beside the one that reports."""
        if not self.is_silent:
            self.recorder.put(frame)

    def _save(self, step: int, act: Act) -> None:
        begin = time.monotonic()
        self.doing("checkpoint")
        folder = os.path.join(  # noqa: PTH118
            os.environ.get("TRAINDECK_RUN_FOLDER", "."), "checkpoints", f"step-{step:08d}.tmp"
        )
        try:
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103
            path = os.path.join(folder, f"rank{self.rank()}")  # noqa: PTH118
            files = [file for saver in self.savers for file in saver(path)]
            problem = "" if files else "no model that trains was found"
        except NoModel as error:
            files, problem = [], str(error)
        except Exception as error:
            files, problem = [], f"{type(error).__name__}: {error}"
        frame: Frame = {"number": act.number, "step": step, "rank": self.rank()}
        if act.details.get("kinds"):
            frame["kinds"] = act.details["kinds"]
        if problem:
            text = f"The weights could not be saved: {problem}"
            self._tell({"kind": "not_saved", "text": text, **frame})
        else:
            self._tell(
                {
                    "kind": "saved",
                    "epoch": self.epoch or 0,
                    "batch": 0,
                    "seconds": time.monotonic() - begin,
                    "parameters": self._plan.get("parameters") or 0,
                    "files": [os.path.basename(file) for file in files],  # noqa: PTH119
                    **frame,
                }
            )
        self.doing("training")
        self.throughput.goes_on()

    def _stop(self, step: int, act: Act) -> None:
        if act.details.get("save", True):
            self._save(step, act)
        self._tell({"kind": "stopping", "step": step, "number": act.number})
        self._stop_asked_at = time.monotonic()
        if self.graceful_stop is not None:
            self.graceful_stop()
            return
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or _has_handler(signal.SIGINT):
            self._signal(signal.SIGINT)  # the main thread has to end, not only this one
        elif _has_handler(signal.SIGTERM) and not _catches_interrupt(sys._getframe(1)):
            self._signal(signal.SIGTERM)
        else:
            raise Stopped(f"stopped by Traindeck after step {step}")

    def _signal(self, number: int) -> None:
        """Let the script's own handler end it, as it would without us."""
        try:
            signal.raise_signal(number)
        except Exception as error:
            self.of_script = error
            raise

    def _insist(self) -> None:
        """The script made another step after a Stop: it caught the interruption, and goes on."""
        assert self._stop_asked_at is not None
        if time.monotonic() - self._stop_asked_at < _WENT_ON_SECONDS:
            return
        self._stop_asked_at = None
        self.notice("The script goes on with its training after a Stop, so it is terminated.")
        self._tell({"kind": "went_on", "step": self.step})
        self.flush()
        os.kill(os.getpid(), signal.SIGTERM)

    def _empty_cache(self) -> None:
        for empty in self.emptiers:
            device, freed = empty()
            self._tell({"kind": "cache_emptied", "device": device, "freed": freed})


class _OfThread(threading.local):
    """What belongs to one thread of the script."""

    nested = 0


class nested:
    """Within it, what the script's libraries do for one another is not captured twice."""

    __slots__ = ("_local",)

    def __init__(self, watch: Watch) -> None:
        self._local = watch.local

    def __enter__(self) -> None:
        self._local.nested += 1

    def __exit__(self, *error: object) -> None:
        self._local.nested -= 1


def _has_handler(number: signal.Signals) -> bool:
    """Whether the script has a function of its own for this signal."""
    handler = signal.getsignal(number)
    return callable(handler) and handler is not signal.default_int_handler


def _catches_interrupt(frame: FrameType | None) -> bool:
    """Whether the code that runs names KeyboardInterrupt, so that it seems to wait for Ctrl-C."""
    while frame is not None:
        if "KeyboardInterrupt" in frame.f_code.co_names:
            return True
        frame = frame.f_back
    return False


_CHECKPOINT_FOLDER = re.compile(r"checkpoint-\d+")


def _dump_stacks_on_request() -> None:
    """Let the hang watch of Traindeck see in which line the script is."""
    path = os.environ.get("TRAINDECK_STACKS", "")
    if not path:
        return
    name, dot, ending = path.rpartition(".")
    file = open(f"{name}-helper{os.getpid()}{dot}{ending}", "a")  # noqa: PTH123, SIM115 stays open
    number = signal.SIGRTMIN + 7 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR2
    faulthandler.register(number, file=file, all_threads=True)
    if not faulthandler.is_enabled():
        faulthandler.enable()


def _where_now(name: str, inode: int | None) -> str:
    """Where a written file is now: many scripts write under another name and then rename it."""
    if os.path.exists(name):  # noqa: PTH110
        return name
    if inode is None:
        return ""
    try:
        with os.scandir(os.path.dirname(name)) as entries:  # noqa: PTH120
            for entry in entries:
                if entry.inode() == inode:
                    return entry.path
    except OSError:
        pass
    return ""


def _where(trace: TracebackType | None) -> str:
    """The innermost line of the user's own code; of any code if there is none."""
    from traindeck_watch.libraries import is_library

    own = last = ""
    for frame, line in traceback.walk_tb(trace):
        file = frame.f_code.co_filename
        last = f"{file}:{line}"
        if not file.startswith("<") and not is_library(file):
            own = last
    return own or last
