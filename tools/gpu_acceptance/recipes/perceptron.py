"""A perceptron whose step takes as long as its width and batch say; its loss takes the time."""

import torch
from torch import nn

from tools.gpu_acceptance.marks import asked_marks

DEFAULTS = {"epochs": 1, "batch_size": 256, "learning_rate": 0.01}

FEATURES, LAYERS = 64, 4

marks = asked_marks()


def model(width: int = 256) -> nn.Module:
    """Hidden layers of `width`."""
    parts: list[nn.Module] = [nn.Linear(FEATURES, width), nn.ReLU()]
    for _ in range(LAYERS):
        parts += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(width, 10))


def datasets(samples: int = 65536) -> tuple[tuple[torch.Tensor, torch.Tensor], None]:
    """Noise in ten classes."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(samples, FEATURES, generator=generator)
    return (inputs, torch.randint(0, 10, (samples,), generator=generator)), None


def optimizer(parameters: list[nn.Parameter], learning_rate: float) -> torch.optim.Optimizer:
    """Plain SGD."""
    return torch.optim.SGD(parameters, learning_rate)


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy."""
    return marks.note(nn.functional.cross_entropy(outputs, targets))
