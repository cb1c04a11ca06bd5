"""`memory` and `batch-size`: what a run will need of its devices, and the largest batch."""

from __future__ import annotations

from rich.table import Table

from engine.cli.commands.train import RunOptions, make_spec
from engine.cli.follow import CtrlC
from engine.cli.measuring import measure
from engine.cli.output import Exit, Refused, err, out, print_json
from engine.interface.engine import Engine
from engine.planning.requests import AskBatch, AskMemory
from engine.planning.results import BatchSearch, Doing, MemoryEstimate, News, Sized, Tried
from engine.spec import catalog
from engine.system.units import byte_size

_PARTS = ("weights", "gradients", "optimizer", "activations", "other", "total")


def memory(engine: Engine, recipe: str, options: RunOptions, *, limit_mib: int, json: bool) -> Exit:
    """Predict the peak memory of a run, and print it. Raises Refused, UnknownName, Interrupted.

    `limit_mib` is the memory of the CPU devices together, in MiB; 0: what the machine has free.
    """
    _check(limit_mib)
    spec = make_spec(engine, catalog.recipe(recipe), options)
    with CtrlC() as ctrl_c:
        found, _ = measure(engine, AskMemory(spec, limit_mib), MemoryEstimate, _tell, ctrl_c)
    if found.text or found.problem:
        err().print(found.text or found.problem, soft_wrap=True)
    if json:
        print_json(found)
    elif found.devices:
        out().print(_estimate_table(found))
    return Exit.FAILED if found.problem or found.fits is False else Exit.DONE


def batch_size(
    engine: Engine, recipe: str, options: RunOptions, *, limit_mib: int, json: bool
) -> Exit:
    """Search the largest and the fastest batch, and print them. Raises Refused, UnknownName.

    Ctrl-C ends the search, and what it has found until then is printed.
    """
    _check(limit_mib)
    spec = make_spec(engine, catalog.recipe(recipe), options)
    with CtrlC() as ctrl_c:
        found, _ = measure(engine, AskBatch(spec, limit_mib), BatchSearch, _tell, ctrl_c)
        for text in (found.problem, found.text):
            if text:
                err().print(text, soft_wrap=True)
        if json:
            print_json(found)
        else:
            _print_search(found)
    if ctrl_c.count:
        return Exit.STOPPED
    return Exit.DONE if found.largest and not found.problem else Exit.FAILED


def _check(limit_mib: int) -> None:
    if limit_mib < 0:
        raise Refused("--memory-limit takes MiB, such as 4096; 0 is what the machine has free.")


def _tell(news: News) -> None:
    match news:
        case Doing(text):
            err().print(f"{text} …", soft_wrap=True)
        case Sized(tried):
            end = f"{tried.samples_per_second:,.0f} samples/s, {byte_size(tried.memory)}"
            err().print(f"  {end if tried.fits else tried.problem}", soft_wrap=True)
        case _:
            return


def _estimate_table(found: MemoryEstimate) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("device", *_PARTS, "available"):
        table.add_column(column, justify="left" if column == "device" else "right")
    for device in found.devices:
        sizes = (byte_size(getattr(device, part)) for part in _PARTS)
        available = byte_size(device.available) if device.available else "–"
        table.add_row(device.device, *sizes, available)
    return table


def _result(tried: Tried) -> str:
    if tried.fits:
        return ""
    return "fails" if tried.is_failure else "does not fit"


def _print_search(found: BatchSearch) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("batch", "samples/s", "memory", ""):
        table.add_column(column, justify="right" if column else "left", overflow="fold")
    for tried in found.tried:
        rate = f"{tried.samples_per_second:,.0f}" if tried.fits else "–"
        held = byte_size(tried.memory) if tried.memory else "–"
        table.add_row(str(tried.batch_size), rate, held, _result(tried))
    if found.tried:
        out().print(table)
    for change in found.changes:
        flags = " ".join(f"--{k.replace('_', '-')} {v}" for k, v in change.fields.items())
        out().print(f"{change.label}: {flags}", soft_wrap=True)
