"""The two modes of the run form: start a new run, or continue a run from a checkpoint."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from engine.facts.equivalent_command import resume_command, train_command
from engine.runs import resume_rules
from engine.runs.checkpoints.checkpoint_files import CheckpointInfo
from engine.runs.run_info import RunInfo
from engine.spec.field_info import Setting
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.spec.validation import Problem
from gui.bridge.engine_client import ResumeRequest
from gui.bridge.files.script_files import resuming


class FixedValue(NamedTuple):
    """A value that cannot be changed, and why."""

    value: Setting
    reason: str


class FormMode(Protocol):
    """What the settings in the form are used for."""

    @property
    def heading(self) -> str:
        """The heading of the form."""

    @property
    def start_text(self) -> str:
        """The text of the start button."""

    @property
    def name(self) -> str:
        """The name of a run that continues; empty: the form has a field for it."""

    def fixed_value(self, field: str) -> FixedValue | None:
        """Return the value of `field` if it cannot be changed, else None."""

    def problems(self, spec: RunSpec) -> list[Problem]:
        """Return the problems of `spec` that exist in this mode only."""

    def command(self, spec: RunSpec, tags: tuple[str, ...], machine: str) -> str:
        """Return the equivalent command line; `tags` and `machine` are those of a new run."""


class NewRun:
    """A new run, from the beginning."""

    @property
    def heading(self) -> str:
        return "NEW RUN"

    @property
    def start_text(self) -> str:
        return "Start run"

    @property
    def name(self) -> str:
        return ""

    def fixed_value(self, field: str) -> FixedValue | None:
        return None

    def problems(self, spec: RunSpec) -> list[Problem]:
        return []

    def command(self, spec: RunSpec, tags: tuple[str, ...], machine: str) -> str:
        return train_command(spec, tags, machine)


class Continuation(NamedTuple):
    """A run that has ended continues from one of its checkpoints; its settings can be changed."""

    info: RunInfo
    checkpoint: CheckpointInfo | None
    """None: it has no checkpoint, and starts from the beginning."""

    recipe: RecipeInfo
    """The one that it trains."""

    as_new: bool = False
    """Whether a new run continues from the checkpoint, and this run is not changed."""

    @property
    def heading(self) -> str:
        return f"RESUME RUN {self.info.id}"

    @property
    def start_text(self) -> str:
        return "Resume run"

    @property
    def name(self) -> str:
        return self.info.spec.name

    @property
    def origin(self) -> str:
        """The step from which the run continues, in a sentence."""
        if self.checkpoint is None and self.info.spec.is_script:
            return resuming(self.info)
        if self.checkpoint is None:
            text = "From the beginning: there is no checkpoint."
            if not self.info.status.step:
                return text
            return f"{text} Its points are removed."
        position = self.checkpoint.manifest.position
        text = (
            f"From step {position.step:,} ({position.epoch} of {self.info.spec.epochs} "
            "epochs done)."
        )
        if self.info.spec.is_script:
            text = f"From step {position.step:,}."
        if self.as_new or position.step >= self.info.status.step:
            return text
        return f"{text} Points after this step are removed."

    def fixed_value(self, field: str) -> FixedValue | None:
        reason = resume_rules.fixed(field)
        return FixedValue(getattr(self.info.spec, field), reason) if reason else None

    def problems(self, spec: RunSpec) -> list[Problem]:
        manifest = self.checkpoint.manifest if self.checkpoint else None
        return resume_rules.change_problems(self.info, spec, manifest)

    def command(self, spec: RunSpec, tags: tuple[str, ...], machine: str) -> str:
        name = self.checkpoint.folder.name if self.checkpoint else ""
        before = self.info.spec
        return resume_command(
            self.info.id, name, before, spec, as_new=self.as_new, recipe=self.recipe
        )

    def request(self, spec: RunSpec) -> ResumeRequest:
        """Return the request to continue the run with the settings of `spec`."""
        folder = self.checkpoint.folder if self.checkpoint else None
        return ResumeRequest(self.info.id, folder, spec, self.as_new)

    def was_started_as(self, run_id: str, *, requested: bool) -> bool:
        """Whether the start of run `run_id` was the start of this continuation. `requested`: the
        user pressed the start button of the form in this mode."""
        return requested if self.as_new else run_id == self.info.id
