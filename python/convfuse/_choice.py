"""Which regions a model is faster with, the whole of it, host time included."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ._report import Times

__all__ = ["better", "choose", "measure"]

# How much of the time must go for a change to count.
_MARGIN = 0.98

# How often each way is called, at least and at most, and after how many seconds that is enough.
_LEAST, _MOST, _ENOUGH = 5, 40, 0.2

# After how many tries what is left is kept together.
_TRIES = 24


def measure(call: Callable[[], Any], device: torch.device) -> Times:
    """What a call takes, and on a GPU a replay of its CUDA graph, where it can be captured."""
    is_cuda = device.type == "cuda"
    for _ in range(3):
        call()
    if not is_cuda:
        return Times(_median(call, lambda: None))
    taken = _median(call, torch.cuda.synchronize)
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
    except RuntimeError:
        torch.cuda.synchronize()
        return Times(taken)
    return Times(taken, _median(graph.replay, torch.cuda.synchronize))


def _median(call: Callable[[], Any], wait: Callable[[], None]) -> float:
    taken: list[float] = []
    until = time.perf_counter() + _ENOUGH
    while len(taken) < _LEAST or (len(taken) < _MOST and time.perf_counter() < until):
        wait()
        start = time.perf_counter()
        call()
        wait()
        taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(taken)


def better(one: Times, other: Times) -> bool:
    """Whether the first is faster as calls, and no slower in a CUDA graph; or the other way round."""
    if one.graph is None or other.graph is None:
        return one.call < _MARGIN * other.call
    calls, graphs = one.call / other.call, one.graph / other.graph
    return min(calls, graphs) < _MARGIN and max(calls, graphs) <= 1.0


def choose(units: Sequence[Any], taken: Callable[[set[Any]], Times]) -> tuple[set[Any], Times]:
    """Which of these to leave to PyTorch, and the times then. ``taken`` says what the model takes without some of them.

    All are kept at first. Then halves are left out, and halves of those that cannot be left out as a whole.
    """
    refused: set[Any] = set()
    best, tries = taken(refused), 0
    parts = [list(units)] if len(units) > 1 else []
    while parts and tries < _TRIES:
        # The first ones first: what is refused early saves the most.
        part = parts.pop(0)
        for half in (part[: len(part) // 2], part[len(part) // 2 :]):
            times, tries = taken(refused | set(half)), tries + 1
            if better(times, best):
                refused, best = refused | set(half), times
            elif len(half) > 1:
                parts.append(half)
    return refused, best
