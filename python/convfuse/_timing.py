"""Chains beside the layers that they stand for: times, and results held against float64."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from ._chain import evaluate
from ._fused import FusedChain
from ._report import Entry

__all__ = ["judge"]

# How much faster a chain must be than PyTorch's layers to be kept.
_MARGIN = 0.98

# How often each way is timed, and after how many seconds that is enough.
_ROUNDS = 12
_ENOUGH = 0.2


def judge(
    runner: FusedChain, inputs: tuple[torch.Tensor, ...], rounds: bool, entry: Entry
) -> None:
    """Times both ways on an example, and holds the results against float64. Where the chain rounds for its readers, as it may if
    ``rounds`` says so, PyTorch's way has their rounding, too."""
    x, rounded = inputs[0], None

    def fused() -> torch.Tensor:
        return runner(*inputs, rounds=rounds)

    def layers() -> torch.Tensor:
        y = runner.layers(*inputs)
        return y if rounded is None else y.to(rounded)

    with torch.no_grad():
        ours, theirs = fused(), layers()
        if rounds and theirs.dtype is torch.float32 and ours.dtype is not torch.float32:
            rounded = ours.dtype
            theirs = layers()
        if ours.dtype is not theirs.dtype:
            entry.replaced, entry.reason = False, f"PyTorch gives {theirs.dtype}"
            return
        with torch.autocast(x.device.type, enabled=False):
            values = [value.double() for value in runner.parameters()]
            doubles = [one.double() for one in inputs]
            exact = evaluate(runner.parsed, doubles[0], values, doubles[1:], runner.axes)
        if not _is_within_bound(runner, ours, theirs, exact):
            entry.replaced, entry.reason = False, "the results differ by more than the bound"
            return
        del ours, theirs, exact
        entry.layers_us, entry.fused_us = _duration(layers, x.device), _duration(fused, x.device)
    entry.replaced = entry.fused_us <= _MARGIN * entry.layers_us
    entry.reason = "faster" if entry.replaced else "PyTorch's layers are as fast"


def _is_within_bound(
    runner: FusedChain, ours: torch.Tensor, theirs: torch.Tensor, exact: torch.Tensor
) -> bool:
    """As near to float64 as PyTorch's layers are, or nearer than 32 units in the last place of the largest value; 2^12 times as far for
    float32 with products of fewer bits."""
    same = torch.equal(ours.isnan(), exact.isnan())
    error = (ours.double() - exact).nan_to_num().abs().max().item()
    reference = (theirs.double() - exact).nan_to_num().abs().max().item()
    unit = torch.finfo(ours.dtype).eps * exact.nan_to_num().abs().max().item()
    under_autocast = torch.is_autocast_enabled(ours.device.type)
    is_fast = runner.multiplies and (runner._is_fast() or under_autocast)
    is_fast = is_fast and ours.dtype is torch.float32
    return same and error <= max(2 * reference, 32 * unit * (4096 if is_fast else 1))


def _duration(call: Callable[[], Any], device: torch.device) -> float:
    """Microseconds: on a GPU by events around several calls, so that the device's time counts where it is longer than the host's. What
    takes long is called less often."""
    until = time.perf_counter() + _ENOUGH
    for _ in range(3):
        call()
        if time.perf_counter() > until:
            break
    times: list[float] = []
    until = time.perf_counter() + _ENOUGH
    while len(times) < 3 or (len(times) < _ROUNDS and time.perf_counter() < until):
        if device.type == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(5):
                call()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e3 / 5)
        else:
            start = time.perf_counter()
            call()
            times.append((time.perf_counter() - start) * 1e6)
    return sorted(times)[len(times) // 2]
