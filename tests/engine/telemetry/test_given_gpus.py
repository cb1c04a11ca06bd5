"""Which GPUs a process was given, as CUDA and SLURM say it."""

from __future__ import annotations

import pytest

from engine.spec import catalog
from engine.spec.validation import problems
from engine.telemetry.given_gpus import given_gpus
from engine.telemetry.snapshot import DeviceSnapshot, MigSlice, Snapshot
from tests.support.runs import spec
from tests.support.sentences import sentence

A, B, C = "GPU-aa11", "GPU-aa22", "GPU-cc33"
AMD = "GPU-8d2c0a4b5c6d7e8f"


def machine(*names: str, slices: tuple[str, ...] = (), lost: str = "") -> Snapshot:
    gpus = [
        DeviceSnapshot(
            id=uuid,
            kind="gpu",
            label=str(index),
            name=name,
            index=index,
            lost="It fell off the bus." if uuid == lost else None,
            slices=tuple(MigSlice(uuid=each, name="1g.10gb") for each in slices)
            if uuid == C
            else (),
        )
        for index, (uuid, name) in enumerate(zip((A, B, C), names or ("H100",) * 3, strict=True))
    ]
    return Snapshot(time=0.0, devices=tuple(gpus))


@pytest.mark.parametrize(
    ("visible", "uuids"),
    [
        (None, (A, B, C)),
        ("", ()),
        ("-1", ()),
        ("NoDevFiles", ()),
        ("2,0", (C, A)),
        (" 1 , 1", (B,)),
        ("GPU-aa22", (B,)),
        ("GPU-cc", (C,)),
        ("GPU-aa", ()),  # of two
        ("0,7,1", (A,)),  # what follows an unknown number is ignored
        ("1,-1,0", (B,)),
    ],
)
def test_what_cuda_would_see_is_given_in_its_order(
    visible: str | None, uuids: tuple[str, ...]
) -> None:
    given = given_gpus(machine(), {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
    assert given.uuids == uuids
    assert given.withheld == {A, B, C} - set(uuids)
    assert given.limit == ("" if visible is None else f"CUDA_VISIBLE_DEVICES={visible}")
    for uuid in (A, B, C):
        assert bool(given.refusal(uuid)) == (uuid not in uuids)


@pytest.mark.parametrize(
    ("visible", "uuids"),
    [
        ("MIG-2", ("MIG-2",)),
        ("MIG-GPU-cc33/1/0", ("MIG-1", "MIG-2")),
        ("2", ("MIG-1", "MIG-2")),
        ("0,1", (A, B)),
    ],
)
def test_slices_are_given_by_their_names_or_with_their_card(
    visible: str, uuids: tuple[str, ...]
) -> None:
    snapshot = machine(slices=("MIG-1", "MIG-2"))
    assert given_gpus(snapshot, {"CUDA_VISIBLE_DEVICES": visible}).uuids == uuids


def test_a_lost_card_is_neither_given_nor_withheld() -> None:
    given = given_gpus(machine(lost=B), {"CUDA_VISIBLE_DEVICES": "1,2"})
    assert (given.uuids, given.withheld) == ((C,), {A})


@pytest.mark.parametrize(
    ("environment", "uuids"),
    [
        ({"SLURM_JOB_GPUS": "2"}, (C,)),
        ({"SLURM_JOB_GPUS": "0-1"}, (A, B)),
        ({"SLURM_JOB_GPUS": "0,1", "SLURM_STEP_GPUS": "1"}, (B,)),
        ({"SLURM_JOB_GPUS": "5,6,7"}, (A, B, C)),  # a control group hides the others
        ({"SLURM_JOB_GPUS": ""}, (A, B, C)),
        ({"SLURM_JOB_GPUS": "0", "CUDA_VISIBLE_DEVICES": "2"}, (C,)),
    ],
    ids=str,
)
def test_the_gpus_of_a_job_are_given_where_cuda_says_nothing(
    environment: dict[str, str], uuids: tuple[str, ...]
) -> None:
    assert given_gpus(machine(), environment).uuids == uuids


@pytest.mark.parametrize(
    ("names", "environment", "is_ambiguous"),
    [
        (("A", "B", "B"), {}, True),
        (("A", "B", "B"), {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, False),
        (("A", "A", "A"), {}, False),
    ],
)
def test_numbers_are_ambiguous_for_cards_of_several_models(
    names: tuple[str, ...], environment: dict[str, str], is_ambiguous: bool
) -> None:
    found = given_gpus(machine(*names), {"CUDA_VISIBLE_DEVICES": "1", **environment})
    assert found.is_ambiguous is is_ambiguous
    assert not given_gpus(machine(*names), {"CUDA_VISIBLE_DEVICES": B}).is_ambiguous


def test_a_run_on_a_card_that_was_not_given_is_refused_by_its_name() -> None:
    given = given_gpus(machine(), {"CUDA_VISIBLE_DEVICES": "1"})
    recipe, strategy = catalog.recipe("digits"), catalog.strategy("torch/single")

    def of(device: str) -> list[str]:
        asked = spec("digits", "torch/single", devices=(device,))
        found = problems(asked, recipe, strategy, given.uuids, given.refusal)
        return [problem.text for problem in found]

    assert of(B) == []
    assert of(A) == [sentence("was-not-given-to-traindeck-limits", gpu=A, given=B)]
    [unknown] = of("GPU-dd44")
    assert sentence("is-not-on-this-machine-any") in unknown


@pytest.mark.parametrize(
    ("environment", "uuids"),
    [
        ({}, ("GPU-intel1", "GPU-intel2")),
        ({"ZE_AFFINITY_MASK": "2.0,2.1,7"}, ("GPU-intel2",)),
        ({"ZE_AFFINITY_MASK": "no number"}, ()),
        ({"CUDA_VISIBLE_DEVICES": ""}, ("GPU-intel1", "GPU-intel2")),
    ],
)
def test_intels_cards_are_given_by_the_mask_of_level_zero(
    environment: dict[str, str], uuids: tuple[str, ...]
) -> None:
    """Its numbers count the graphics within the processor, which is no device here."""
    gpus = [
        DeviceSnapshot(id=id, kind="gpu", label=str(index), name="Intel", index=index)
        for index, id in enumerate(("GPU-intel1", "GPU-intel2"))
    ]
    assert given_gpus(Snapshot(time=0.0, devices=tuple(gpus)), environment).uuids == uuids


@pytest.mark.parametrize(
    ("environment", "uuids"),
    [
        ({}, ("GPU-amd0", AMD)),
        (
            {"ROCR_VISIBLE_DEVICES": "GPU-8d2c", "CUDA_VISIBLE_DEVICES": "0"},
            (AMD,),
        ),
        ({"HIP_VISIBLE_DEVICES": "1"}, (AMD,)),
        ({"CUDA_VISIBLE_DEVICES": "0"}, ("GPU-amd0",)),
    ],
)
def test_amd_cards_are_given_by_the_variables_of_rocm(
    environment: dict[str, str], uuids: tuple[str, ...]
) -> None:
    cards = [
        DeviceSnapshot(id=id, kind="gpu", label=str(index), name="AMD", index=index)
        for index, id in enumerate(("GPU-amd0", AMD))
    ]
    assert given_gpus(Snapshot(time=0.0, devices=tuple(cards)), environment).uuids == uuids
