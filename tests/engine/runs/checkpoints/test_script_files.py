"""Which of the files that a script has written its command goes on from."""

from __future__ import annotations

import pytest

from engine.runs.checkpoints.checkpoint_files import final_folder
from engine.runs.checkpoints.script_files import (
    ScriptFile,
    continuation,
    newest_file,
    note_file,
    resume_sentence,
)
from engine.spec.run_spec import RunSpec
from tests.support.sentences import sentence


def test_weights_that_are_written_last_do_not_hide_what_a_library_goes_on_from(tmp_path):
    """The Trainer of Hugging Face writes its model once more when it ends."""
    names = ["checkpoint-2", "checkpoint-4", "model.safetensors"]
    for name in names:
        (tmp_path / name).mkdir()
        note_file(tmp_path, ScriptFile(str(tmp_path / name), 4, 0.0, name.startswith("check")))
    assert newest_file(tmp_path).path == str(tmp_path / "checkpoint-4")
    (tmp_path / "checkpoint-4").rmdir()
    assert newest_file(tmp_path).path == str(tmp_path / "checkpoint-2")
    (tmp_path / "checkpoint-2").rmdir()
    assert newest_file(tmp_path).path == str(tmp_path / "model.safetensors")


@pytest.mark.parametrize(
    ("arguments", "step", "says"),
    [
        ("--resume {latest}", 9, sentence("script-saved-this-checkpoint-at-step")),
        (
            "--netG netG_0.pth",
            4,
            sentence("netg-script-saved-this-checkpoint"),
        ),
        ("netG=netG_0.pth", 4, sentence("with-script-saved-this-checkpoint")),
        (
            "--resume",
            9,
            sentence("resume-newest-file-that-script-saved"),
        ),
    ],
)
def test_the_curves_go_on_at_the_step_of_the_file_that_the_words_name(
    arguments, step, says, tmp_path
):
    run, folder = tmp_path / "run", tmp_path / "work"
    run.mkdir()
    folder.mkdir()
    for name, saved in (("netG_0.pth", 4), ("netD_0.pth", 4), ("netG_1.pth", 9), ("netD_1.pth", 9)):
        (folder / name).touch()
        note_file(run, ScriptFile(str(folder / name), saved, 0.0))
    spec = RunSpec(
        recipe=str(folder / "train.py"),
        strategy="script/single",
        devices=("cpu:0",),
        working_folder=str(folder),
        command=("train.py",),
        resume_arguments=arguments,
    )
    assert continuation(run, spec).first_step == step
    assert resume_sentence(run, spec, by_calls=False).endswith(says)


def test_a_script_with_calls_goes_on_from_its_newest_checkpoint_if_there_is_one(tmp_path):
    spec = RunSpec(recipe="train.py", strategy="script/single", devices=("cpu:0",))
    assert "from the beginning" in resume_sentence(tmp_path, spec, by_calls=True)
    final_folder(tmp_path, 7).mkdir(parents=True)
    assert "exactly where" in resume_sentence(tmp_path, spec, by_calls=True)
