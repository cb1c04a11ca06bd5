"""What a worker reports about the exception that ends it."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec
import pytest

from engine.spec.catalog import recipe as builtin_recipe
from engine.spec.recipe_file import RecipeInfo
from engine.training.errors import TrainingFailed
from engine.worker.failure_report import LONGEST_DETAILS, failure_report
from tests.support.sentences import sentence


@pytest.fixture
def recipe(tmp_path: Path) -> RecipeInfo:
    """A recipe whose line 2 raises what it is given."""
    path = tmp_path / "mine.py"
    path.write_text("def fail(error):\n    raise error\n")
    return RecipeInfo(name="mine", path=str(path), builtin=False)


def raised(error: BaseException, recipe: RecipeInfo | None = None) -> BaseException:
    """`error`, raised by the recipe or here."""
    names: dict[str, object] = {}
    try:
        if recipe:
            exec(compile(Path(recipe.path).read_text(), recipe.path, "exec"), names)
            names["fail"](error)  # type: ignore[operator]
        raise error
    except BaseException as caught:
        return caught


def test_an_exception_of_the_recipes_has_its_line(recipe: RecipeInfo) -> None:
    report = failure_report(1, recipe, raised(ValueError("no\nmore"), recipe))
    assert (report.rank, report.message) == (1, "ValueError: no")
    assert report.where == f"{recipe.path}:2"
    assert "Traceback" in report.traceback


def test_what_the_recipe_caused_further_down_has_its_line_too(recipe: RecipeInfo) -> None:
    error = TrainingFailed("There is no memory left.")
    error.__cause__ = raised(RuntimeError("out of memory"), recipe)
    assert failure_report(0, recipe, raised(error)).where == f"{recipe.path}:2"


def test_the_text_of_a_training_failure_stays_as_it_is(recipe: RecipeInfo) -> None:
    class Ours(TrainingFailed):
        pass

    report = failure_report(0, recipe, raised(Ours("Two sentences.\nOver two lines.")))
    assert report.message == "Two sentences. Over two lines."
    assert report.where == ""


def test_a_traceback_of_another_process_is_read(recipe: RecipeInfo) -> None:
    text = f"""Caught ValueError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/somewhere/site-packages/torch/utils/data/worker.py", line 9, in loop
  File "{recipe.path}", line 14, in __getitem__
    return self.pick(index)
  File "{recipe.path}", line 17, in pick
    raise ValueError("this sample is damaged")
  File "/somewhere/else.py", line 3, in wrapped
ValueError: this sample is damaged
"""
    report = failure_report(0, recipe, raised(ValueError(text)))
    assert report.where == f"{recipe.path}:17"
    assert report.message == (
        "ValueError: this sample is damaged (Caught ValueError in DataLoader worker process 0)"
    )


def test_of_a_message_of_several_lines_the_one_that_says_what_is_wrong_is_told(
    recipe: RecipeInfo,
) -> None:
    text = """CheckpointException ranks:dict_keys([0])
Traceback (most recent call last): (RANK 0)
  File "/somewhere/saver.py", line 9, in save
    raise RuntimeError(text)
RuntimeError: 
            Some   tensors share memory: a, b.
            More information at the bottom of the sea.
"""  # noqa: W291
    report = failure_report(0, recipe, raised(RuntimeError(text)))
    assert report.message == (
        "RuntimeError: Some tensors share memory: a, b. (CheckpointException ranks:dict_keys([0]))"
    )


def test_a_syntax_error_lies_where_it_is(recipe: RecipeInfo) -> None:
    with pytest.raises(SyntaxError) as caught:
        compile("x = (", "helper.py", "exec")
    assert failure_report(0, recipe, caught.value).where == "helper.py:1"


def test_an_exception_without_a_message_is_named(recipe: RecipeInfo) -> None:
    assert failure_report(0, recipe, raised(KeyboardInterrupt())).message == "KeyboardInterrupt"


def test_a_lost_peer_is_recognised(recipe: RecipeInfo) -> None:
    lost = RuntimeError("[gloo] Connection closed by peer [127.0.0.1]:123")
    assert failure_report(0, recipe, raised(lost)).lost_peer
    assert not failure_report(0, recipe, raised(RuntimeError("x"))).lost_peer


def test_what_tensorflow_raises_for_a_lost_peer_is_recognised(recipe: RecipeInfo) -> None:
    class UnavailableError(Exception):
        pass

    assert failure_report(0, recipe, raised(UnavailableError("whatever"))).lost_peer


def test_the_reason_of_an_error_in_a_graph_is_said(recipe: RecipeInfo) -> None:
    text = f"""Graph execution error:

Detected at node Gather defined at (most recent call last):
  File "{recipe.path}", line 7, in loss

indices[0] = 99 is not in [0, 10)
\t [[{{{{node Gather}}}}]] [Op:__inference_steps_1]"""
    report = failure_report(0, recipe, raised(RuntimeError(text)))
    assert report.message == "RuntimeError: indices[0] = 99 is not in [0, 10)"
    assert report.where == f"{recipe.path}:7"


def test_files_beside_a_built_in_recipe_are_not_the_users() -> None:
    digits = builtin_recipe("digits")
    text = f'  File "{Path(digits.path).parent / "other.py"}", line 3'
    assert failure_report(0, digits, raised(ValueError(text))).where == ""


def test_what_went_wrong_while_a_graph_was_traced_comes_after_the_code(recipe: RecipeInfo) -> None:
    text = f"""in user code:

    File "{recipe.path}", line 2, in loss  *
        raise error

    ValueError: Cannot reshape 4 elements to 15.

    Arguments received by call():
      • args=('x',)
"""
    report = failure_report(0, recipe, raised(ValueError(text)))
    assert report.message == "ValueError: Cannot reshape 4 elements to 15."
    assert report.where == f"{recipe.path}:2"


def test_the_first_of_several_errors_in_a_graph_is_told(recipe: RecipeInfo) -> None:
    text = """Graph execution error:

Detected at node while/Call defined at (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main

2 root error(s) found.
  (0) INVALID_ARGUMENT:  Trying to access a resource.
     [[{{node while/Call}}]]
  (1) INVALID_ARGUMENT:  Trying to access a resource.
"""
    report = failure_report(0, recipe, raised(RuntimeError(text)))
    assert report.message == "RuntimeError: Trying to access a resource."


def test_an_exception_that_cannot_be_printed_is_named(recipe: RecipeInfo) -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    report = failure_report(0, recipe, raised(Broken(), recipe))
    assert (report.message, report.where) == ("Broken", f"{recipe.path}:2")


def test_any_message_of_an_exception_can_be_sent(recipe: RecipeInfo) -> None:
    report = failure_report(0, recipe, raised(OSError("a file \udcff " + "x" * 10_000_000), recipe))
    assert report.message.startswith(r"OSError: a file \udcff xx")
    assert len(msgspec.msgpack.encode(report)) < 1_000_000
    assert report.where == f"{recipe.path}:2"


def test_colours_are_for_a_terminal(recipe: RecipeInfo) -> None:
    """PyTorch's advice on a checkpoint that holds objects has bold words."""
    report = failure_report(
        0, recipe, raised(ValueError("only if \x1b[1myou trust it\x1b[0m."), recipe)
    )
    assert report.message == "ValueError: only if you trust it."
    assert "\x1b" not in report.traceback


def test_all_of_the_text_that_helps_is_reported(recipe: RecipeInfo) -> None:
    error = RuntimeError(
        "Expected to have finished reduction.\n  Indices without a gradient: 2 3\n"
    )
    error.add_note("In sample 63 of the training data: /a/63.png.")
    error.__cause__ = OSError("We could not connect.\nCheck your connection.")
    error.__cause__.__context__ = KeyError("name")
    report = failure_report(0, recipe, raised(error))
    assert report.message == "RuntimeError: Expected to have finished reduction."
    assert report.details.splitlines() == [
        "Indices without a gradient: 2 3",
        "In sample 63 of the training data: /a/63.png.",
        "Caused by OSError: We could not connect.",
        "  Check your connection.",
        "While handling KeyError: 'name'",
    ]


def test_each_member_of_a_group_is_told_with_the_line_of_the_recipe(recipe: RecipeInfo) -> None:
    inner = ExceptionGroup("two", [raised(ValueError("a\nb"), recipe), TypeError("c")])
    report = failure_report(0, recipe, raised(ExceptionGroup("several", [OSError("x"), inner])))
    assert report.message == "ExceptionGroup: several (2 sub-exceptions)"
    assert report.details.splitlines() == [
        "1. OSError: x",
        "2. ExceptionGroup: two (2 sub-exceptions)",
        "   1. ValueError: a",
        "      b",
        "   2. TypeError: c",
    ]
    assert report.where == f"{recipe.path}:2"


def test_the_text_after_the_message_of_another_process_is_kept(recipe: RecipeInfo) -> None:
    text = """Caught ValueError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/somewhere/worker.py", line 9, in loop
ValueError: this sample is damaged
It should have 3 channels.
In sample 63.
"""
    report = failure_report(0, recipe, raised(ValueError(text)))
    assert report.message.startswith("ValueError: this sample is damaged (")
    assert report.details == "It should have 3 channels.\nIn sample 63."


def test_details_have_a_limit_and_a_training_failure_needs_none(recipe: RecipeInfo) -> None:
    report = failure_report(0, recipe, raised(ValueError("a\n" + "b" * 10_000)))
    assert len(report.details) < LONGEST_DETAILS + 10
    error = TrainingFailed("There is no memory left.")
    error.__cause__ = RuntimeError("out of memory\nlong")
    assert failure_report(0, recipe, raised(error)).details == ""


def test_an_exit_is_told_in_a_sentence(recipe: RecipeInfo) -> None:
    report = failure_report(0, recipe, raised(SystemExit(3), recipe))
    assert sentence("it-has-left-by-itself") in report.message
    assert report.where == f"{recipe.path}:2"
    assert "with 'Goodbye'" in failure_report(0, recipe, raised(SystemExit("Goodbye"))).message
    parser = argparse.ArgumentParser(prog="train.py")
    parser.add_argument("--data", required=True)
    with pytest.raises(SystemExit) as caught:
        parser.parse_args([])
    message = failure_report(0, recipe, caught.value).message
    assert sentence("refuses-following-arguments-are-required-data") in message
    assert sentence("recipe-gets-no-arguments") in message
