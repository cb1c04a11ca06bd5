"""ResNet-50 on made-up images; its loss takes the time of a step."""

import torch
from torch import nn
from torch.nn import functional as F

from tools.gpu_acceptance.marks import asked_marks

DEFAULTS = {"epochs": 1, "batch_size": 128, "learning_rate": 0.01}

DIFFERENT = 64
"""Images that differ; the others repeat them."""

marks = asked_marks()


def model() -> nn.Module:
    """The one of torchvision, without weights."""
    from torchvision.models import resnet50

    made: nn.Module = resnet50()
    return made


def datasets(
    pixels: int = 224, samples: int = 1024
) -> tuple[tuple[torch.Tensor, torch.Tensor], None]:
    """Noise in 1000 classes."""
    generator = torch.Generator().manual_seed(0)
    part = torch.randn(DIFFERENT, 3, pixels, pixels, generator=generator)
    images = part.repeat(-(-samples // DIFFERENT), 1, 1, 1)[:samples]
    return (images, torch.randint(0, 1000, (samples,), generator=generator)), None


def optimizer(parameters: list[nn.Parameter], learning_rate: float) -> torch.optim.Optimizer:
    """SGD with momentum."""
    return torch.optim.SGD(parameters, learning_rate, momentum=0.9)


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy."""
    return marks.note(F.cross_entropy(outputs, targets))
