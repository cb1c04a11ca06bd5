"""Recordings of real sweeps: what was asked for, the trials, and the curves of their runs.

`python -m tools.screenshots.recorded_sweep SWEEP_FOLDER FILE` records the sweep in a folder.
"""

from __future__ import annotations

import lzma
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from engine.messages.events import AttemptStarted, Event, Metrics, RunEnded, TrainingStarted
from engine.runs.run_notes import SWEEP_TAG, TRIAL_TAG, RunNotes, ordered_tags, write_notes
from engine.runs.run_state import THROUGHPUT
from engine.sweeps import sweep as sweeps
from engine.sweeps.report import SweepReader
from engine.sweeps.study import REASON, RUN, TrialResult, open_study, suggest
from engine.sweeps.sweep import Sweep
from engine.system import paths
from tools.screenshots import fake_machine
from tools.screenshots.recording import FOLDER, RECIPE, SUFFIX, Moment, Recording, record
from tools.screenshots.replayed_run import ReplayedRun, replay

if TYPE_CHECKING:
    import optuna

_SERIES = ("train/loss", THROUGHPUT, "validation/loss", "validation/accuracy")


class SweepRecording(msgspec.Struct, frozen=True):
    """A sweep, without names of folders of the machine it ran on."""

    sweep: Sweep
    trials: list[TrialResult]
    runs: dict[str, Recording]
    """The run of each trial, by id: only what its curves need."""


def load_sweep(name: str) -> SweepRecording:
    """Return the recording `name`. Raises OSError or msgspec.DecodeError."""
    packed = (FOLDER / f"{name}{SUFFIX}").read_bytes()
    return msgspec.msgpack.decode(lzma.decompress(packed), type=SweepRecording)


def record_sweep(folder: Path) -> SweepRecording:
    """Return a recording of the sweep in `folder`, and of its runs in the data folder."""
    report = SweepReader(folder).read()
    assert report.sweep is not None, report.summary.problem
    runs = {each.run: _curves(record(paths.run_folder(each.run))) for each in report.trials}
    return SweepRecording(report.sweep, list(report.trials), runs)


def replay_sweep(recording: SweepRecording) -> tuple[Path, list[ReplayedRun]]:
    """Put the sweep and its runs into the data folder, on a GPU of the made-up machine."""
    base = msgspec.structs.replace(
        recording.sweep.base, recipe=str(RECIPE), devices=(fake_machine.uuid(0),)
    )
    sweep = msgspec.structs.replace(recording.sweep, base=base)
    folder = sweeps.create(sweep)
    study = open_study(folder, sweep)
    played = []
    for place, trial in enumerate(recording.trials):
        run = replay(recording.runs[trial.run], ago=60.0 * (len(recording.trials) - place))
        tags = ordered_tags([f"{SWEEP_TAG}{folder.name}", f"{TRIAL_TAG}{trial.number}"])
        write_notes(run.folder, RunNotes(tags=tags))
        played.append(run)
        _tell(study, sweep, trial, run.id)
    return folder, played


def _tell(study: optuna.Study, sweep: Sweep, trial: TrialResult, run: str) -> None:
    import optuna

    study.enqueue_trial(trial.settings)
    asked = study.ask()
    suggest(asked, sweep.ranges)
    asked.set_user_attr(RUN, run)
    match trial.state:
        case "finished":
            study.tell(asked, trial.value)
        case "pruned":
            asked.report(trial.value or 0.0, 1)
            study.tell(asked, state=optuna.trial.TrialState.PRUNED)
        case _:
            asked.set_user_attr(REASON, trial.reason)
            study.tell(asked, state=optuna.trial.TrialState.FAIL)


def _curves(whole: Recording) -> Recording:
    """Return a recording with the events that its curves need, as of one attempt."""
    moments: list[Moment] = []
    began: set[type[Event]] = set()
    for moment in whole.moments:
        event = moment.event
        match event:
            case AttemptStarted() | TrainingStarted() if type(event) not in began:
                began.add(type(event))
                moments.append(moment)
            case Metrics(points=points):
                kept = [each for each in points if each.series in _SERIES]
                kept_event = msgspec.structs.replace(event, points=kept)
                moments += [Moment(moment.after, kept_event)] * bool(kept)
    ends = [moment for moment in whole.moments if isinstance(moment.event, RunEnded)]
    return Recording(whole.spec, [*moments, ends[-1]], {})


if __name__ == "__main__":
    made = record_sweep(Path(sys.argv[1]).absolute())
    Path(sys.argv[2]).write_bytes(lzma.compress(msgspec.msgpack.encode(made), preset=9))
