"""The choice of regions by the time of the whole model, including host time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, Literal

import torch
from torch import fx

from ._chain import SOFTMAX, parsed, reduced_dims
from ._regions import Region, channels_last, is_norm
from ._report import Times
from .ops import operator_of

__all__ = [
    "CHOICES",
    "Choice",
    "better",
    "better_in_calls",
    "choose",
    "drawn",
    "is_like",
    "is_worthwhile",
    "measure",
    "median",
    "slower_alone",
]

Choice = Literal["time", "estimate", "all", "networks"]
CHOICES = ("time", "estimate", "all", "networks")

# The largest ratio of times at which a change counts as an improvement.
_MARGIN = 0.98

# The tolerance for the worse of call and graph time: medians of the same calls vary by as much.
_NOISE = 1.03

# A model that is called may be this much slower in a CUDA graph, if the product of both ratios is at most
# the second number. Calls of small models are limited by the host, and replays of graphs are not.
_SLOWER_IN_A_GRAPH, _FASTER_IN_ALL = 1.25, 0.8

# The least and the most repetitions of a measurement, and the seconds after which it may stop.
_LEAST, _MOST, _ENOUGH = 5, 40, 0.2

# The number of tries after which undecided regions are kept together.
_TRIES = 24

# The time limit in seconds for measuring regions separately, and the time for each measurement of a region.
_ALONE, _EACH = 10.0, 0.01


def is_worthwhile(region: Region, is_fast: bool) -> bool:
    """Estimates whether PyTorch is slower, from the records of ``docs/results``. That holds for norms that
    read their input twice, pools that reduce their input, including means over positions, softmax over other
    axes than the last, accurate float32 products, float32 convolutions with several taps on Hopper GPUs, and
    ungrouped or depthwise convolutions of channels-last 16-bit tensors. Other convolutions, and single
    average pools, are left to PyTorch."""
    if region.inputs[0].meta["val"].device.type == "cpu":
        # The caller requested it.
        return True
    layers = parsed(region.text).layers
    if len(layers) == 1 and "avg_pool" in layers[0][0]:
        return False
    is_slow_product = region.is_float32_product and (
        not is_fast or (_taps(region) > 1 and _is_on_hopper(region))
    )
    last = region.inputs[0].meta["val"].dim() - 1
    return is_slow_product or _is_of_tensor_maps(region) or _is_depthwise(region) or any(
        is_norm(one, a)
        or "pool" in one
        or (one == "mean" and 1 not in reduced_dims(a))
        or (one in SOFTMAX and last not in reduced_dims(a))
        for one, a in layers
    )


def _taps(region: Region) -> int:
    """The elements of a filter per channel, if the region begins with a convolution."""
    operator, a = parsed(region.text).layers[0]
    return math.prod(_extents_of(a["kernel_size"], region)) if operator.startswith("conv") else 1


def _channels_last(region: Region) -> tuple[dict[str, Any], int] | None:
    """Attributes and input channels of the region's first layer, if it is a convolution of a channels-last
    16-bit tensor."""
    operator, a = parsed(region.text).layers[0]
    x = region.inputs[0].meta["val"]
    if operator not in ("conv2d", "conv3d") or x.dtype is torch.float32 or x.stride(1) != 1:
        return None
    return a, int(x.shape[1])


def _is_of_tensor_maps(region: Region) -> bool:
    """Whether the region begins with an ungrouped convolution for Hopper's TMA kernels, which are faster
    unless there are few filters with many elements."""
    of = _channels_last(region)
    if of is None or of[0].get("groups", 1) != 1:
        return False
    a, channels = of
    taps = _taps(region)
    if a["out_channels"] % 8 or (a["out_channels"] <= 32 and taps > 1 and taps * channels > 512):
        return False
    return _is_on_hopper(region)


def _is_on_hopper(region: Region) -> bool:
    return torch.cuda.is_available() and torch.cuda.get_device_capability(region.inputs[0].meta["val"].device) == (9, 0)


def _is_depthwise(region: Region) -> bool:
    """Whether the region begins with a depthwise convolution of images with small square filters."""
    of = _channels_last(region)
    if of is None:
        return False
    a, channels = of
    extents = set(_extents_of(a["kernel_size"], region))
    is_square = len(extents) == 1 and extents <= {3, 5, 7}
    return is_square and a.get("groups", 1) == channels == a["out_channels"] and channels % 2 == 0


def _extents_of(value: int | list[int], region: Region) -> list[int]:
    """An attribute's value for each axis after the channels."""
    return value if isinstance(value, list) else [value] * (region.inputs[0].meta["val"].dim() - 2)


def measure(call: Callable[[], Any], device: torch.device, enough: float = _ENOUGH) -> Times:
    """Measures a call and, on a GPU, a replay of its CUDA graph if it can be captured. Repeats each for
    ``enough`` seconds."""
    for _ in range(3):
        call()
    if device.type != "cuda":
        return Times(duration(call, enough))
    # Synchronization and capture use the current device, which may be another one.
    with torch.cuda.device(device):
        taken = duration(call, enough, torch.cuda.synchronize)
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                call()
        except RuntimeError:
            torch.cuda.synchronize()
            return Times(taken)
        return Times(taken, duration(graph.replay, enough, torch.cuda.synchronize))


def duration(
    call: Callable[[], Any], seconds: float, wait: Callable[[], None] = lambda: None
) -> float:
    """The lower quartile of call times in milliseconds, each between two synchronizations: delays of the host
    only add time."""
    taken: list[float] = []
    until = time.perf_counter() + seconds
    while len(taken) < _LEAST or (len(taken) < _MOST and time.perf_counter() < until):
        wait()
        start = time.perf_counter()
        call()
        wait()
        taken.append((time.perf_counter() - start) * 1e3)
    return sorted(taken)[len(taken) // 4]


def better(one: Times, other: Times) -> bool:
    """Whether the first is faster in calls, and not slower in a CUDA graph beyond noise; or the other way
    round."""
    if one.graph is None or other.graph is None:
        return one.call < _MARGIN * other.call
    calls, graphs = one.call / other.call, one.graph / other.graph
    return min(calls, graphs) < _MARGIN and max(calls, graphs) <= _NOISE


def better_in_calls(one: Times, other: Times) -> bool:
    """Whether the first is :func:`better`, or so much faster in calls that a CUDA graph may be slower."""
    if better(one, other) or one.graph is None or other.graph is None:
        return better(one, other)
    calls, graphs = one.call / other.call, one.graph / other.graph
    return calls < graphs <= _SLOWER_IN_A_GRAPH and calls * graphs <= _FASTER_IN_ALL


def choose(units: Sequence[Any], taken: Callable[[set[Any]], Times]) -> tuple[set[Any], Times]:
    """Chooses the units to leave to PyTorch, and returns them with the resulting times. ``taken`` measures
    the model without some.

    At first all units are kept. Then halves are left out, and halves of those that cannot be left out as a
    whole.
    """
    refused: set[Any] = set()
    best, tries = taken(refused), 0
    parts = [list(units)] if len(units) > 1 else []
    while parts and tries < _TRIES:
        # Process the first ones first: an early refusal saves the most.
        part = parts.pop(0)
        for half in (part[: len(part) // 2], part[len(part) // 2 :]):
            times, tries = taken(refused | set(half)), tries + 1
            if better(times, best):
                refused, best = refused | set(half), times
            elif len(half) > 1:
                parts.append(half)
    return refused, best


def slower_alone(
    regions: Collection[Region], is_fast: bool, batch_invariant: bool, free: Collection[Any]
) -> set[Any]:
    """The keys of regions that alone are slower than PyTorch's kernels, measured on random tensors. Unary
    operators in ``free`` cost PyTorch nothing, since its compiler fuses them with the preceding operator.
    After a time limit, an estimate decides."""
    until = time.perf_counter() + _ALONE
    known: dict[Any, float] = {}
    sums: dict[Any, float] = {}
    for region in regions:
        shape = (region.key, *(_extents(one) for one in region.inputs))
        if shape not in known:
            known[shape] = -1.0 if is_worthwhile(region, is_fast) else 1.0
            if time.perf_counter() < until:
                ways = _ways(region, is_fast, batch_invariant, free)
                device = region.inputs[0].meta["val"].device
                # PyTorch may refuse to view a random value in another shape.
                with suppress(RuntimeError):
                    ours, theirs = (measure(one, device, _EACH) for one in ways)
                    known[shape] = (ours.graph or ours.call) - (theirs.graph or theirs.call)
        sums[region.key] = sums.get(region.key, 0.0) + known[shape]
    return {key for key, more in sums.items() if more >= 0.0}


def _number(one: Any) -> Any:
    """A number, or a symbol's value in the example."""
    return one.node.hint if isinstance(one, torch.SymInt) else one


def _extents(node: fx.Node) -> tuple[int, ...]:
    return tuple(map(_number, node.meta["val"].shape))


def drawn(node: fx.Node) -> Any:
    """A random value for a node, positive as variances are."""
    known = node.meta["val"]
    if not isinstance(known, torch.Tensor):
        return _number(known)
    shape, strides = _extents(node), tuple(map(_number, known.stride()))
    count = 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides))
    make = torch.rand if known.is_floating_point() else torch.zeros
    return make(count, device=known.device, dtype=known.dtype).as_strided(shape, strides)


def is_like(given: torch.Tensor, node: fx.Node) -> bool:
    """Whether a tensor matches a node's value in its properties."""
    known = node.meta["val"]
    if not isinstance(known, torch.Tensor):
        return False
    strides = tuple(map(_number, known.stride()))
    is_there = given.device == known.device and given.dtype is known.dtype
    return is_there and tuple(given.shape) == _extents(node) and given.stride() == strides


def _ways(
    region: Region, is_fast: bool, batch_invariant: bool, free: Collection[Any]
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A region as a call of the operator, and as a call with PyTorch's kernels."""
    read = [*region.inputs, *region.parameters]
    read += [one for node in region.nodes for one in node.all_input_nodes]
    given = {one: drawn(one) for one in dict.fromkeys(read) if one not in region.nodes}
    given |= {one: channels_last(given[one]) for one in region.inputs_last}
    inputs = [given[one] for one in region.inputs]
    parameters = [given[one] for one in region.parameters]
    fast = is_fast and region.is_float32_product

    def ours() -> Any:
        arguments = inputs, parameters, region.text, fast, batch_invariant
        return operator_of(region.text)(*arguments, channels_last=region.is_last)

    def theirs() -> Any:
        values = dict(given)
        for node in region.nodes:
            operands = node.all_input_nodes
            if node.target in free and len(operands) == 1:
                values[node] = values[operands[0]]
                continue
            arguments, named = fx.map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = node.target(*arguments, **named)
        return values[region.outputs[0]]

    return ours, theirs
