"""`fill_card.py GIB` holds all memory of a GPU but so much, until its input is closed."""

import sys

import torch

free, _ = torch.cuda.mem_get_info(0)
held = torch.empty(int(free - float(sys.argv[1]) * 2**30), dtype=torch.uint8, device="cuda")
print("held", held.numel(), flush=True)
sys.stdin.read()
