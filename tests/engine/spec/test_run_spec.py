"""Which values a spec may have, and the messages about the others."""

from __future__ import annotations

import math
from typing import Any

import pytest

from engine.spec import catalog
from engine.spec.device_names import is_logical_cpu
from engine.spec.field_info import FieldInfo
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec, batch_arithmetic
from engine.spec.spec_fields import LARGEST
from engine.spec.validation import problems
from tests.support.sentences import sentence

GPU = "GPU-11111111-2222-3333-4444-555555555555"
RECIPE = RecipeInfo(
    name="example",
    path="/somewhere/example.py",
    builtin=False,
    framework="torch",
    fields=(
        FieldInfo("width", "int", 32),
        FieldInfo("activation", "choice", "relu", ("relu", "tanh")),
    ),
)


def spec(**changes: Any) -> RunSpec:
    settings: dict[str, Any] = {
        "recipe": RECIPE.path,
        "strategy": "torch/ddp",
        "devices": ("cpu:0", "cpu:1"),
    }
    return RunSpec(**(settings | changes))


def found(wanted: RunSpec, recipe: RecipeInfo = RECIPE) -> list[tuple[str, str]]:
    strategy = catalog.strategy(wanted.strategy)
    known = (GPU, "MIG-a")
    return [(p.field, p.text) for p in problems(wanted, recipe, strategy, known)]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"devices": (GPU,)},
        {"batch_size": 2},
        {"epochs": 1},
        {"seed": 0},
        {"seed": LARGEST},
        {"learning_rate": 1e-9},
        {"settings": {"width": 8, "activation": "tanh"}},
    ],
    ids=str,
)
def test_a_spec_that_can_run_has_no_problems(changes: dict[str, Any]) -> None:
    assert found(spec(**changes)) == []


@pytest.mark.parametrize(
    ("changes", "field", "phrase"),
    [
        ({"devices": ()}, "devices", "choose at least one"),
        ({"devices": ("cpu:0", "cpu:0")}, "devices", "cpu:0 is chosen 2 times"),
        ({"devices": ("GPU-gone",)}, "devices", sentence("gpu-gone-is-not-on-this-machine")),
        ({"devices": ("cpu:64",)}, "devices", sentence("cpu-is-not-on-this-machine")),
        ({"devices": ("cpu:0", GPU)}, "devices", sentence("cpu-and-gpu-devices-cannot-train")),
        ({"devices": (GPU, "MIG-a")}, "devices", sentence("only-one-slice-of-divided-gpu")),
        ({"strategy": "torch/single"}, "devices", sentence("trains-on-device-and-are-chosen")),
        ({"batch_size": 0}, "batch_size", "at least 1"),
        ({"batch_size": -5}, "batch_size", "at least 1"),
        ({"batch_size": 1}, "batch_size", sentence("cannot-be-shared-by-replicas-choose")),
        ({"epochs": 0}, "epochs", "at least 1"),
        ({"learning_rate": 0.0}, "learning_rate", "above 0"),
        ({"learning_rate": -1.0}, "learning_rate", "above 0"),
        ({"learning_rate": math.nan}, "learning_rate", "finite number"),
        ({"batch_size": 10**400}, "batch_size", "smaller number"),
        ({"learning_rate": math.inf}, "learning_rate", "finite number"),
        ({"seed": -1}, "seed", "at least 0"),
        ({"seed": LARGEST + 1}, "seed", "at most 2147483647"),
        ({"seed": 999_999_999_999}, "seed", "at most 2147483647, not 999999999999."),
        ({"precision": "fp64"}, "precision", "one of default, fp32, tf32, bf16, fp16"),
        ({"accumulation": 65}, "batch_size", "choose at least 130"),
        ({"settings": {"depth": 3}}, "settings.depth", "no setting 'depth'"),
        ({"settings": {"width": "wide"}}, "settings.width", "must be a whole number"),
        ({"settings": {"activation": "gelu"}}, "settings.activation", "one of relu, tanh"),
    ],
    ids=str,
)
def test_a_problem_is_reported_with_its_field(
    changes: dict[str, Any], field: str, phrase: str
) -> None:
    [(where, text)] = found(spec(**changes))
    assert where == field
    assert phrase in text


def test_all_problems_are_found_at_once() -> None:
    wrong = spec(devices=(), batch_size=0, epochs=0, learning_rate=0.0, seed=-1)
    assert [field for field, _ in found(wrong)] == [
        "devices",
        "batch_size",
        "epochs",
        "learning_rate",
        "seed",
    ]


def test_a_strategy_of_another_framework_is_refused() -> None:
    keras = RecipeInfo(name="other", path="/other.py", builtin=False, framework="keras")
    [(field, text)] = found(spec(), keras)
    assert field == "strategy"
    assert sentence("trains-torch-recipes-other-is-keras") in text


@pytest.mark.parametrize(
    ("strategy", "changes", "field", "phrase"),
    [
        (
            "torch/ddp",
            {"precision": "tf32"},
            "precision",
            sentence("on-cpu-choose-default-or-bf16"),
        ),
        ("torch/ddp", {"backend": "nccl"}, "backend", sentence("on-cpus-choose-gloo-or-auto")),
        ("torch/ddp", {"momentum": 0.9}, "momentum", "choose one of them"),
        ("torch/ddp", {"weight_decay": 0.1}, "weight_decay", "choose an optimizer here"),
        ("torch/ddp", {"microbatches": 4}, "microbatches", "Only torch/pipeline"),
        (
            "torch/ddp",
            {"schedule": "one_cycle", "warmup_steps": 5},
            "warmup_steps",
            "warms up by itself",
        ),
        ("torch/single", {"backend": "gloo"}, "backend", sentence("no-ranks-exchange-anything")),
        ("torch/single", {"workers_per_device": 2}, "workers_per_device", "such as torch/ddp"),
        ("torch/data_parallel", {"compile": True}, "compile", "choose torch/ddp"),
        ("torch/pipeline", {"precision": "fp16"}, "precision", "bf16"),
        ("tf/single", {"backend": "gloo"}, "backend", "cross_device"),
        ("tf/single", {"workers_per_device": 2}, "workers_per_device", "choose tf/mirrored"),
    ],
    ids=str,
)
def test_an_option_that_a_strategy_cannot_do_is_refused_with_the_reason(
    strategy: str, changes: dict[str, Any], field: str, phrase: str
) -> None:
    framework = "keras" if strategy.startswith("tf/") else "torch"
    recipe = RecipeInfo(
        name="r", path="/r.py", builtin=False, framework=framework, can_be_partitioned=True
    )
    count = 2 if strategy in ("torch/ddp", "torch/pipeline") else 1
    devices = tuple(f"cpu:{k}" for k in range(count))
    [(where, text)] = found(spec(strategy=strategy, devices=devices, **changes), recipe)
    assert where == field
    assert phrase in text


@pytest.mark.parametrize(
    ("strategy", "changes"),
    [
        ("torch/ddp", {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.1}),
        ("torch/ddp", {"precision": "bf16", "accumulation": 4, "clip_norm": 1.0}),
        ("torch/fsdp", {"precision": "fp16", "backend": "gloo"}),
        ("torch/ddp", {"devices": (GPU,), "workers_per_device": 2}),
        ("torch/single", {"devices": (GPU,), "precision": "tf32", "compile": True}),
    ],
    ids=str,
)
def test_options_that_a_strategy_can_do(strategy: str, changes: dict[str, Any]) -> None:
    assert found(spec(strategy=strategy, **changes)) == []


@pytest.mark.parametrize(
    ("strategy", "changes", "field"),
    [
        ("torch/ddp", {"workers_per_device": 2, "backend": "nccl"}, "backend"),
        ("torch/fsdp", {"workers_per_device": 2}, "workers_per_device"),
        ("torch/fsdp", {"backend": "gloo"}, "backend"),
    ],
    ids=str,
)
def test_what_gloo_and_nccl_cannot_do_on_gpus(
    strategy: str, changes: dict[str, Any], field: str
) -> None:
    [(where, _)] = found(spec(strategy=strategy, devices=(GPU,), **changes))
    assert where == field


def test_an_unusable_recipe_is_not_also_called_unfit_for_the_strategy() -> None:
    broken = RecipeInfo(name="b", path="/b.py", builtin=False, problem="It is broken.")
    assert found(spec(), broken) == [("recipe", "It is broken.")]


@pytest.mark.parametrize("device", ["cpu:0", "cpu:1", "cpu:63"])
def test_logical_cpus(device: str) -> None:
    assert is_logical_cpu(device)


NO_CPUS = ["cpu", "cpu:", "cpu:64", "cpu:-1", "cpu:00", "cpu:0 ", "CPU:0", GPU, ""]


@pytest.mark.parametrize("device", NO_CPUS)
def test_what_is_no_logical_cpu(device: str) -> None:
    assert not is_logical_cpu(device)


@pytest.mark.parametrize(
    ("batch_size", "replicas", "said"),
    [
        (128, 1, sentence("128-per-replica-on-1")),
        (128, 2, sentence("64-per-replica-on-2")),
        (128, 3, "128 = 2 × 43 + 1 × 42 over 3 replicas"),
        (1, 2, "1 = 1 × 1 + 1 × 0 over 2 replicas"),
        (0, 2, ""),
        (128, 0, ""),
    ],
)
def test_how_a_global_batch_is_shared_in_words(batch_size: int, replicas: int, said: str) -> None:
    assert batch_arithmetic(batch_size, replicas) == said


@pytest.mark.parametrize("best", ["mae:MIN", "mae:sideways", "mae:", ":min", ":", "a:b"])
def test_a_direction_that_is_none_is_refused_before_the_run(best: str) -> None:
    [(field, text)] = found(spec(checkpoint_best=best))
    assert field == "checkpoint_best"
    assert sentence("min-if-lower-values-are-better") in text


@pytest.mark.parametrize("best", ["mae", "mae:min", "score: max", "a:b:max", "validation/mae:min"])
def test_a_direction_of_a_metric_may_be_given(best: str) -> None:
    assert found(spec(checkpoint_best=best)) == []


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"patience": 3}, "patience", sentence("choose-metric-or-leave", value=10)),
        ({"min_delta": 0.1}, "min_delta", sentence("choose-metric-or-leave", value="0.0")),
        (
            {"early_stopping": "mae:down"},
            "early_stopping",
            sentence("min-if-lower-values-are-better"),
        ),
        (
            {"early_stopping": "train/loss"},
            "early_stopping",
            sentence("choose-metric-such", metric="loss"),
        ),
        (
            {"checkpoint_best": "train/f1:max"},
            "checkpoint_best",
            sentence("choose-metric-such", metric="f1"),
        ),
        (
            {"early_stopping": "mae:min", "checkpoint_best": "mae:max"},
            "early_stopping",
            sentence("keep-best-says-mae-max"),
        ),
        ({"energy_limit_wh": 5.0}, "energy_limit_wh", sentence("cpu-power-is-not-measured")),
    ],
)
def test_early_stopping_and_limits_that_cannot_be_kept_are_refused(
    changes: dict[str, Any], field: str, words: str
) -> None:
    [(found_field, text)] = found(spec(**changes))
    assert found_field == field
    assert words in text


def test_early_stopping_keeps_the_best_checkpoint_by_its_metric_unless_another_is_chosen() -> None:
    assert found(spec(early_stopping="loss", patience=3, min_delta=0.1)) == []
    assert spec(early_stopping="loss").best_metric == "loss"
    assert spec(early_stopping="loss", checkpoint_best="f1").best_metric == "f1"
