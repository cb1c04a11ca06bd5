"""A script as people have it: CUDA, fp16 with a GradScaler, fused AdamW. It knows no Traindeck.

`mixed_precision.py DEVICE FIRST LAST` writes into the file of ACCEPTANCE_RESULT what a step between
these two took, and its losses.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
from torch import nn

device = torch.device(sys.argv[1])
first, last = int(sys.argv[2]), int(sys.argv[3])
is_gpu = device.type == "cuda"
torch.manual_seed(0)
width = 1024 if is_gpu else 64
model = nn.Sequential(
    nn.Linear(256, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
scaler = torch.amp.GradScaler(device.type, enabled=is_gpu)
inputs = torch.randn(64 * 512, 256, device=device)
targets = torch.randint(0, 10, (len(inputs),), device=device)
losses = []
begin = cpu = 0.0
for step in range(last):
    if step == first:
        if is_gpu:
            torch.cuda.synchronize()
        begin, cpu = time.perf_counter(), time.thread_time()
    part = slice(step % 64 * 512, (step % 64 + 1) * 512)
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device.type, torch.float16 if is_gpu else torch.bfloat16):
        loss = nn.functional.cross_entropy(model(inputs[part]), targets[part])
    scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    if step % 50 == 0:
        losses.append([step, float(loss)])
if is_gpu:
    torch.cuda.synchronize()
steps = last - first
found = {
    "step_ms": 1000 * (time.perf_counter() - begin) / steps,
    "main_thread_cpu_ms": 1000 * (time.thread_time() - cpu) / steps,
    "reserved": torch.cuda.memory_reserved() if is_gpu else 0,
    "losses": losses,
}
Path(os.environ["ACCEPTANCE_RESULT"]).write_text(json.dumps(found))
