"""Figures in lines of output: what a person would read there, and nothing else."""

from __future__ import annotations

import math

import pytest

from engine.script_rank.figures import Figure, FigureReader, RepeatedFigures, series_name


def read(text: str) -> dict[str, tuple[int, float]]:
    return {each.series: (each.step, each.value) for each in FigureReader().read(text.encode())}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Loss after iteration 100: 0.5", {"train/loss": (100, 0.5)}),
        ("train loss step 10 0.5", {"train/loss": (10, 0.5)}),
        ("loss 0.5 step 10/100", {"train/loss": (10, 0.5)}),
        ("validation loss at iteration 10 | lm loss: 10.4 |", {"validation/lm_loss": (10, 10.4)}),
        ("INFO - Epoch(val) [1][20/20] acc/top1: 55.1", {"validation/acc/top1": (1, 55.1)}),
        ("2026-01-02 10:00:00,123 INFO Test: Loss 0.5", {"test/loss": (1, 0.5)}),
        ("{'loss': '0.75', 'num_updates': '100'}", {"train/loss": (100, 0.75)}),
        ("Train Epoch: 1 [6400/60000 (11%)]\tLoss: 0.25", {"train/loss": (1, 0.25)}),
        ("Test set loss: 537.6", {"test/loss": (1, 537.6)}),
        ("Test set average loss: 2.5", {"test/loss": (1, 2.5)}),
        ("Testset: loss 0.5", {"test/loss": (1, 0.5)}),
        ("Test set: Average loss: 0.5, Accuracy: 982/1000", {"test/loss": (1, 0.5)}),
        (
            "Epoch: 0030 loss_train: 1.75 acc_train: 0.5 loss_val: 2.0 acc_val: 0.25 time: 0.1s",
            {
                "train/loss": (1, 1.75),
                "train/accuracy": (1, 0.5),
                "validation/loss": (1, 2.0),
                "validation/accuracy": (1, 0.25),
            },
        ),
        ("iter 250: loss 2.5, time 32.1ms, mfu 4.05%", {"train/loss": (250, 2.5)}),
        ("epoch done val loss: 0.5", {"validation/loss": (1, 0.5)}),
        (
            "step 500: train loss 1.25, val loss 1.5",
            {"train/loss": (500, 1.25), "validation/loss": (500, 1.5)},
        ),
        (
            "[1/25][0/196] Loss_D: 1.5 Loss_G: 4.5",
            {"train/loss_d": (1, 1.5), "train/loss_g": (1, 4.5)},
        ),
        (
            "Epoch 3/10 loss=0.25 acc=90% lr=1e-3 eta 0:01:02",
            {
                "train/loss": (1, 0.25),
                "train/accuracy": (1, 0.9),
                "train/learning_rate": (1, 0.001),
            },
        ),
        (
            "{'loss': 0.5, 'learning_rate': 5e-05, 'epoch': 1.0}",
            {"train/loss": (1, 0.5), "train/learning_rate": (1, 5e-05)},
        ),
        (
            "938/938 - 3s 3ms/step - accuracy: 0.5 - loss: 0.25 - val_loss: 0.75",
            {
                "train/accuracy": (1, 0.5),
                "train/loss": (1, 0.25),
                "validation/loss": (1, 0.75),
            },
        ),
        (
            "[1]\ttraining's auc: 0.75\tvalid_0's auc: 0.5\tvalid_1's auc: 0.25",
            {"train/auc": (1, 0.75), "validation/auc": (1, 0.5), "validation/auc_1": (1, 0.25)},
        ),
        (
            "[7]\ttrain-rmse:0.5\teval-rmse:0.25",
            {"train/rmse": (7, 0.5), "validation/rmse": (7, 0.25)},
        ),
        (
            "4:\tlearn: 0.5\ttest: 0.25\tbest: 0.25 (4)\ttotal: 3.2ms\tremaining: 1s",
            {"train/metric": (4, 0.5), "test/metric": (4, 0.25)},
        ),
        (
            "Epoch: 003, Loss: 2.5, Train: 0.75, Val: 0.5, Test: 0.25",
            {
                "train/loss": (1, 2.5),
                "train/metric": (1, 0.75),
                "validation/metric": (1, 0.5),
                "test/metric": (1, 0.25),
            },
        ),
        ("Train: 60000, Val: 5000, Test: 10000", {}),
        (
            "Epoch: 2, Steps: 61 | Train Loss: 0.5 Vali Loss: 0.25 Test Loss: 0.75",
            {"train/loss": (61, 0.5), "validation/loss": (61, 0.25), "test/loss": (61, 0.75)},
        ),
        (
            "Test: [ 1/1] Time: 0.1 (0.2) Loss:   0.75 ( 0.5)  Acc@1:  12.5 ( 43.75)",
            {"test/loss": (1, 0.5), "test/acc@1": (1, 43.75)},
        ),
        ("Train: 0 [ 1/6 (33%)] Loss: 0.75 (0.5) Time: 0.1s", {"train/loss": (1, 0.75)}),
        ("val loss: 0.75 (4)", {"validation/loss": (1, 0.75)}),
        ("Validation loss decreased (inf --> 0.25).  Saving model ...", {}),
        ("Epoch 2: val_accuracy improved from 0.5 to 0.75, saving model to a.keras", {}),
        ("Epoch 3: val_loss did not improve from 0.25", {}),
        ("Metric val_loss improved by 0.25 >= min_delta = 0.0. New best score: 0.5", {}),
        ("step 1,500 loss: 1,234.5", {"train/loss": (1500, 1234.5)}),
        ("step 3000000000 loss: 0.5", {"train/loss": (3_000_000_000, 0.5)}),
        (f"step {10**30} loss: 0.5", {"train/loss": (1, 0.5)}),
        ("loss: 1 234,5", {}),
        ("loss: 0.5,0.4", {}),
        ("Namespace(lr=0.001, loss=0.5, score=3.0)", {}),
        ("power: 0.9 loss_weight: 0.5 max_grad_norm: 1.0 label_smoothing_loss: 0.1", {}),
        (
            "mIoU: 0.5 mAP@0.5: 0.25 roc_auc 0.75",
            {"train/miou": (1, 0.5), "train/map@0.5": (1, 0.25), "train/roc_auc": (1, 0.75)},
        ),
        ("Gradient Accumulation steps = 4, access: 1", {}),
        ("\x1b[32mINFO loss 0.5\x1b[0m", {"train/loss": (1, 0.5)}),
        (
            "mean_squared_error: 0.5 - mean loss: 0.25",
            {"train/mean_squared_error": (1, 0.5), "train/loss": (1, 0.25)},
        ),
        (
            "2026-01-02 10:11:12.345678: E external/cuda.cc:51] failed call to cuInit: "
            "UNKNOWN ERROR (303)",
            {},
        ),
        ("E0000 00:00:1 100 cuda.cc:51] UNKNOWN ERROR (303)", {}),
        ("Downloading 12.5MB at 3.2 MB/s", {}),
        ("2024-01-02 10:11:12 saved model 3", {}),
        ("loss: tensor(0.5)", {}),
        ("10 1.5 2.4", {}),
        ("loss " * 1000 + "0.5", {}),
    ],
)
def test_the_figures_of_a_line(line: str, expected: dict[str, tuple[int, float]]) -> None:
    assert read(line + "\n") == expected


def test_progress_bars_and_lines_in_pieces() -> None:
    reader = FigureReader()
    pieces = [b"step 1 lo", b"ss: 0.5\rstep 2 loss: 0.25\rste", b"p 3 loss: nan\n", b"loss: 9"]
    found = [each for piece in pieces for each in reader.read(piece)]
    assert [each.step for each in found] == [1, 2, 3]
    assert [each.value for each in found[:2]] == [0.5, 0.25]
    assert math.isnan(found[2].value)


def test_a_bar_that_shows_a_step_again_makes_no_further_one() -> None:
    bar = b"step 10 loss 0.5\rstep 10 loss 0.4\rstep 10 loss 0.3\nstep 11 loss 0.2\r"
    found = [(each.step, each.value) for each in FigureReader().read(bar)]
    assert found == [(10, 0.5), (10, 0.4), (10, 0.3), (11, 0.2)]
    lines = b"step 0 loss 0.5\nstep 0 loss 0.4\n"  # each of its own epoch
    assert [each.step for each in FigureReader().read(lines)] == [0, 1]


def test_steps_never_go_back() -> None:
    reader = FigureReader()
    found = list(reader.read(b"step 5 loss 1.0\nstep 1 loss 2.0\nstep 2 loss 3.0\n"))
    assert [each.step for each in found] == [5, 6, 7]


def test_a_value_printed_after_the_training_makes_no_step_of_it() -> None:
    boosting = "[0]\teval-error:0.5\ttrain-error:0.25\n[1]\teval-error:0.5\ttrain-error:0.125\n"
    after = "error=0.02\nTest accuracy: 0.75\nrmse=0.5\nerror=0.02\nrmse=0.5\n"
    found = list(FigureReader().read((boosting + after).encode()))
    assert [(each.step, each.value) for each in found if each.series == "train/error"] == [
        (0, 0.25),
        (1, 0.125),
    ]
    assert {each.step for each in found} == {0, 1}
    assert [each.step for each in found if each.series == "test/accuracy"] == [1]


def test_one_line_with_a_step_does_not_silence_those_without() -> None:
    text = "step 5 loss 1.0\n" + "".join(f"loss {n}.5 accuracy 0.{n}\n" for n in range(1, 9))
    found = list(FigureReader().read(text.encode()))
    assert [each.value for each in found if each.series == "train/loss"] == [
        1.0,
        5.5,
        6.5,
        7.5,
        8.5,
    ]


def test_there_are_not_too_many_series() -> None:
    reader = FigureReader()
    text = "".join(f"loss{number} 1.0\n" for number in range(500))
    assert len({each.series for each in reader.read(text.encode())}) == 100


@pytest.mark.parametrize(
    ("name", "series"),
    [
        ("Val loss", "validation/loss"),
        ("Test set loss", "test/loss"),
        ("Train set loss", "train/loss"),
        ("Validation set loss", "validation/loss"),
        ("test_set_accuracy", "test/accuracy"),
        ("testset loss", "test/loss"),
        ("Training Loss", "train/loss"),
        ("loss test set", "test/loss"),
        ("set average loss", "train/loss"),
        ("reset score", "train/reset_score"),
        ("epoch done val loss", "validation/loss"),
        ("Average train acc", "train/accuracy"),
        ("test_f1", "test/f1"),
        ("Testing loss", "test/loss"),
        ("acc_test", "test/accuracy"),
        ("Accuracy on test", "test/accuracy"),
        ("loss/val", "validation/loss"),
        ("mean squared error train", "train/mean_squared_error"),
        ("mean_absolute_error_eval", "validation/mean_absolute_error"),
        ("interval", ""),
        ("time", ""),
        ("batch_size", ""),
    ],
)
def test_names(name: str, series: str) -> None:
    assert series_name(name) == series


def test_what_looks_like_a_setting_waits_for_the_end():
    figures = RepeatedFigures()
    setting, again = Figure("train/learning_rate", 1, 0.1), Figure("train/learning_rate", 2, 0.1)
    first, second = Figure("train/loss", 2, 0.5), Figure("train/loss", 3, 0.25)
    assert figures.take([setting, first], final=False) == []
    assert figures.take([again, second], final=False) == [first, second]
    assert figures.take([], final=True) == [setting, again]


def test_what_is_printed_before_all_figures_and_never_again_is_a_setting() -> None:
    figures = RepeatedFigures()
    setting = Figure("train/learning_rate", 1, 0.1)
    losses = [Figure("train/loss", step, 1 / step) for step in (2, 3)]
    result = Figure("test/accuracy", 4, 0.9)
    assert figures.take([setting, *losses], final=False) == losses
    assert figures.take([result], final=True) == [result]


def test_results_alone_are_no_settings() -> None:
    result = Figure("test/accuracy", 4, 0.9)
    assert RepeatedFigures().take([result], final=True) == [result]


def test_a_figure_that_stays_the_same_is_shown_from_its_third_line_on():
    figures = RepeatedFigures()
    lines = [Figure("train/learning_rate", step, 0.1) for step in range(1, 5)]
    assert figures.take(lines[:2], final=False) == []
    assert figures.take(lines[2:3], final=False) == lines[:3]
    assert figures.take(lines[3:], final=False) == lines[3:]


def test_rows_of_a_table_have_the_names_of_its_columns() -> None:
    table = "  epoch    train_loss    valid_acc  dur\n-----  -----  ----  ----\n"
    rows = "      1      \x1b[36m0.75\x1b[0m    0.5  0.03\n      2      0.5    0.25  0.02\n"
    reader = FigureReader()
    found = [figure[:3] for figure in reader.read((table + rows + "3 4 5\n").encode())]
    assert found == [
        ("train/loss", 1, 0.75),
        ("validation/accuracy", 1, 0.5),
        ("train/loss", 2, 0.5),
        ("validation/accuracy", 2, 0.25),
    ]
    assert reader.epoch == 2
