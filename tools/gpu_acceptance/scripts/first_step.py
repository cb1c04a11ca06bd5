"""`first_step.py DEVICE FILE`: what torch/single does with the digits, up to the first step.

Its loss goes into the file. The caller takes the time.
"""

import sys
from pathlib import Path

import torch
from torch import nn

from engine.recipes import digits

device = torch.device(sys.argv[1])
torch.manual_seed(0)
model = digits.model().to(device)
(images, labels), _ = digits.datasets()
inputs, targets = torch.as_tensor(images[:64]).to(device), torch.as_tensor(labels[:64]).to(device)
optimizer = torch.optim.Adam(model.parameters(), 0.003)
loss = nn.functional.cross_entropy(model(inputs), targets)
loss.backward()  # type: ignore[no-untyped-call]
optimizer.step()
Path(sys.argv[2]).write_text(f"{float(loss)}\n")
