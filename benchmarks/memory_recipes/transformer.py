"""A transformer that predicts words of made-up texts: its outputs need the most memory."""

import torch
from torch import nn

DEFAULTS = {"epochs": 1, "batch_size": 16, "learning_rate": 0.001}
WORDS, LENGTH = 4000, 64


class Transformer(nn.Module):
    """Embedding, encoder, and a layer with an output for each word."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return the outputs of each place, with the words in the second dimension."""
        outputs: torch.Tensor = self.head(self.encoder(self.embedding(words)))
        return outputs.transpose(1, 2)


def model(width: int = 128, layers: int = 4) -> nn.Module:
    """A transformer of `layers` layers of `width`."""
    return Transformer(width, layers)


def datasets() -> tuple[tuple[torch.Tensor, torch.Tensor], None]:
    """Random words; each is to be predicted from itself."""
    random = torch.Generator().manual_seed(0)
    words = torch.randint(0, WORDS, (1024, LENGTH), generator=random)
    return (words, words), None


def optimizer(model: nn.Module, learning_rate: float) -> torch.optim.Optimizer:
    """AdamW has two values for each weight."""
    return torch.optim.AdamW(model.parameters(), lr=learning_rate)
