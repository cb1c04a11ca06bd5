"""The recipe of the trials with an average of its weights."""

from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils._python_dispatch import _disable_current_modes

from tests.ghost.recipe_torch import datasets, metrics, model

__all__ = ["datasets", "ema", "metrics", "model"]


def ema(trained: nn.Module) -> AveragedModel:
    """Return the average that validation uses; of another model, as the engine copies its own."""
    with _disable_current_modes():
        average = get_ema_multi_avg_fn(0.99)  # type: ignore[no-untyped-call]
        return AveragedModel(nn.Linear(1, 1), multi_avg_fn=average)
