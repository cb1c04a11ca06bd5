"""What the run form is filled in for: a new run, or one that goes on from a checkpoint."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from engine.cli.equivalent_command import resume_command, train_command
from engine.runs import resume_rules
from engine.runs.checkpoint_files import CheckpointInfo
from engine.runs.run_info import RunInfo
from engine.spec.field_info import Setting
from engine.spec.run_spec import RunSpec
from engine.spec.validation import Problem
from gui.bridge.run_controller import ResumeRequest
from gui.style.translation import translate


class FixedValue(NamedTuple):
    """A value that stays as it is, and why."""

    value: Setting
    reason: str


class FormMode(Protocol):
    """What becomes of the settings in the form."""

    @property
    def heading(self) -> str:
        """What the form writes above them."""

    @property
    def start_text(self) -> str:
        """What its button says."""

    @property
    def name(self) -> str:
        """What the run is called, which the form does not ask."""

    def fixed_value(self, field: str) -> FixedValue | None:
        """The value that the spec's `field` keeps, if nobody may change it."""

    def problems(self, spec: RunSpec) -> list[Problem]:
        """What speaks against `spec`, beside what always would."""

    def command(self, spec: RunSpec) -> str:
        """The command line that does the same."""


class NewRun:
    """A run from the beginning."""

    @property
    def heading(self) -> str:
        return translate("RunForm", "NEW RUN")

    @property
    def start_text(self) -> str:
        return translate("RunForm", "Start run")

    @property
    def name(self) -> str:
        return ""

    def fixed_value(self, field: str) -> FixedValue | None:
        return None

    def problems(self, spec: RunSpec) -> list[Problem]:
        return []

    def command(self, spec: RunSpec) -> str:
        return train_command(spec)


class Continuation(NamedTuple):
    """A run that is over and goes on from one of its checkpoints, maybe with other settings."""

    info: RunInfo
    checkpoint: CheckpointInfo
    as_new: bool = False
    """Whether a new run goes on, and this one stays as it is."""

    @property
    def heading(self) -> str:
        return translate("RunForm", "CONTINUE RUN {run}").format(run=self.info.id)

    @property
    def start_text(self) -> str:
        return translate("RunForm", "Continue run")

    @property
    def name(self) -> str:
        return self.info.spec.name

    @property
    def origin(self) -> str:
        """From where it goes on, in a sentence."""
        position = self.checkpoint.manifest.position
        text = translate("RunForm", "From step {step} ({epochs} of {all} epochs done).")
        text = text.format(
            step=f"{position.step:,}", epochs=position.epoch, all=self.info.spec.epochs
        )
        if self.as_new or position.step >= self.info.status.step:
            return text
        return f"{text} {translate('RunForm', 'Later points leave the plots.')}"

    def fixed_value(self, field: str) -> FixedValue | None:
        reason = resume_rules.fixed(field)
        return FixedValue(getattr(self.info.spec, field), reason) if reason else None

    def problems(self, spec: RunSpec) -> list[Problem]:
        return resume_rules.change_problems(self.info, spec, self.checkpoint.manifest)

    def command(self, spec: RunSpec) -> str:
        name = self.checkpoint.folder.name
        before = self.info.spec
        return resume_command(self.info.id, name, before, spec, as_new=self.as_new)

    def request(self, spec: RunSpec) -> ResumeRequest:
        """The wish for it to go on as `spec`."""
        return ResumeRequest(self.info.id, self.checkpoint.folder, spec, self.as_new)

    def has_begun_as(self, run_id: str, *, asked: bool) -> bool:
        """Whether the run `run_id`, which has begun now, is what became of this; `asked`: somebody
        asked for that."""
        return asked if self.as_new else run_id == self.info.id
