"""Does the failed step again, with PyTorch alone: `python repro.py`.

`code/` holds the recipe of the run and its modules, `step.json` what is known of the step,
`batch.safetensors` its batch or the smallest part that fails, `weights.safetensors` the weights
before it. The exit code is 1 if it fails as it did in the run, 3 if it fails in another way, 0 if
it does not fail, and 2 if it cannot be tried here.
"""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any

import torch
from case_common import STEP, batch_of, call, make_model, read_tensors, run

TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
    "C64": torch.complex64,
}
DEVICE = "cuda" if STEP["device"] == "cuda" and torch.cuda.is_available() else "cpu"


def tensor(kind: str, shape: list[int], data: bytearray) -> torch.Tensor:
    """Return a tensor that the file holds."""
    flat = torch.frombuffer(data, dtype=TYPES[kind]) if data else torch.empty(0, dtype=TYPES[kind])
    return flat.reshape(shape).to(DEVICE)


def random(kind: str, shape: list[int]) -> torch.Tensor:
    """Return random values in place of those that are not in the file; whole numbers are 0."""
    if TYPES[kind].is_floating_point:
        return torch.randn(shape, device=DEVICE).to(TYPES[kind])
    return torch.zeros(shape, dtype=TYPES[kind], device=DEVICE)


def default_loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the loss of a recipe that has none of its own."""
    if targets.is_floating_point():
        return torch.nn.functional.mse_loss(outputs, targets)
    return torch.nn.functional.cross_entropy(outputs, targets)


def loss_of(module: ModuleType, model: Any, batch: Any) -> Any:
    """Compute the loss as the run did, from step(), training_step() or loss()."""
    in_validation = STEP["in_validation"]
    if in_validation and hasattr(module, "validate"):
        found = call(module.validate, model, batch)
    elif hasattr(module, "step"):
        found = call(module.step, model, batch, **step_arguments(module.step))
        found = found[0] if isinstance(found, tuple) else found
    elif hasattr(model, "training_step"):
        found = (model.validation_step if in_validation else model.training_step)(batch, 0)
    elif isinstance(batch, dict) and not hasattr(module, "loss"):
        found = model(**batch).loss
    else:
        inputs, targets = batch
        outputs = model(inputs)
        own = getattr(module, "loss", None)
        found = call(own, outputs, targets) if own else default_loss(outputs, targets)
    found = found.get("loss") if isinstance(found, dict) else found
    return found.mean() if isinstance(found, torch.Tensor) else found


def step_arguments(step: Any) -> dict[str, Any]:
    """Return what step() takes beside the model and the batch."""
    takes = inspect.signature(step).parameters
    more: dict[str, Any] = {"carried": None} if "carried" in takes else {}
    required = [name for name, each in takes.items() if each.default is each.empty]
    own = [name for name in required if name != "carried" and name not in STEP["settings"]]
    if "optimizer" in takes or len(own) > 2:
        more["optimizer" if "optimizer" in takes else own[2]] = STEP["optimizer"]
    return more


def do_step(module: ModuleType) -> float:
    """Do the step, and return its loss."""
    torch.manual_seed(STEP["seed"])
    model = make_model(module).to(DEVICE)
    batch = batch_of(STEP["tree"], read_tensors("batch", tensor), random)
    if any(torch.nn.parameter.is_lazy(each) for each in model.parameters()):
        model(batch[0])
    if STEP["has_weights"]:
        model.load_state_dict(read_tensors("weights", tensor))
    model.train(not STEP["in_validation"])
    optimizers = []
    if STEP["kind"] == "memory":
        optimizers.append(make_optimizer(module, model))
        limit_memory()
    precision = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(STEP["precision"])
    loss = None
    for _ in range(2 if optimizers else 1):  # the first step makes the optimizer's state
        with torch.autocast(DEVICE, precision or torch.bfloat16, enabled=precision is not None):
            loss = loss_of(module, model, batch)
        if isinstance(loss, torch.Tensor) and loss.requires_grad:
            torch.autograd.backward(loss)
        for optimizer in optimizers:
            optimizer.step()
    return float(loss.detach()) if isinstance(loss, torch.Tensor) else float("nan")


def make_optimizer(module: ModuleType, model: Any) -> Any:
    """Return the optimizer of the recipe, or AdamW, whose state is as large as any usual one."""
    try:
        found = call(module.optimizer, model.parameters(), STEP["learning_rate"])
    except Exception:  # there is none, or it wants something else
        found = None
    is_usable = isinstance(found, torch.optim.Optimizer)
    return found if is_usable else torch.optim.AdamW(model.parameters(), STEP["learning_rate"])


def limit_memory() -> None:
    """Let a larger card have no more memory than the process had in the run."""
    available = STEP["available"]
    if DEVICE == "cuda" and available:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, available / total), 0)
        print(f"note: the card has {total:,} bytes, of which {available:,} are used, as in the run")


if __name__ == "__main__":
    sys.exit(run(do_step))
