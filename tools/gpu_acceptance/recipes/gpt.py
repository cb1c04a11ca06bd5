"""A model like GPT-2, on made-up words; its loss takes the time of a step."""

import torch
from torch import nn
from torch.nn import functional as F

from tools.gpu_acceptance.marks import asked_marks

DEFAULTS = {"epochs": 1, "batch_size": 8, "learning_rate": 0.0003}

SIZES = {
    "tiny": (64, 2, 2, 512),
    "small": (768, 12, 12, 50304),
    "few_words": (768, 12, 12, 4096),
    "wide": (2048, 20, 16, 50304),
}
"""Width, blocks, heads and words. The logits of `few_words` take little memory, so that a batch
which fills a card has no tensor of 2^31 elements."""

marks = asked_marks()


class Block(nn.Module):
    """Attention and a perceptron, each beside a residual path."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to the same."""
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        added: torch.Tensor = self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
        return x + added


class Gpt(nn.Module):
    """Embeddings, blocks and a head."""

    def __init__(self, width: int, blocks: int, heads: int, words: int, length: int) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Numbers of words (batch, length) to logits (batch, words, length)."""
        x = self.token(words) + self.place(torch.arange(words.shape[1], device=words.device))
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits.transpose(1, 2)


def model(size: str = "small", length: int = 1024) -> nn.Module:
    """A model of one of SIZES; its weights repeat, as many random numbers would take long."""
    width, blocks, heads, words = SIZES[size]
    with torch.device("meta"):
        made = Gpt(width, blocks, heads, words, length)
    made.to_empty(device="cpu")
    noise = 0.02 * torch.randn(2**20)
    for name, parameter in made.named_parameters():
        flat = parameter.data.view(-1)
        if "norm" in name and name.endswith("weight"):
            flat.fill_(1.0)
        elif name.endswith("bias"):
            flat.zero_()
        else:
            flat.copy_(noise.repeat(-(-len(flat) // len(noise)))[: len(flat)])
    return made


def datasets(
    size: str = "small", length: int = 1024, samples: int = 2048
) -> tuple[tuple[torch.Tensor, torch.Tensor], None]:
    """Random words, each followed by the next."""
    generator = torch.Generator().manual_seed(0)
    words = torch.randint(0, SIZES[size][3], (samples, length + 1), generator=generator)
    return (words[:, :-1].contiguous(), words[:, 1:].contiguous()), None


def optimizer(parameters: list[nn.Parameter], learning_rate: float) -> torch.optim.Optimizer:
    """AdamW."""
    return torch.optim.AdamW(parameters, learning_rate)


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the next word."""
    return marks.note(F.cross_entropy(outputs, targets))
