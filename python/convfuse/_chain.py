"""Chains in Python: parsed from JSON, and evaluated by PyTorch's own layers."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch.nn import functional as F

from . import _native

__all__ = ["SOFTMAX", "Parsed", "evaluate", "output_shape", "parsed", "reduced_dims"]


@dataclass(frozen=True)
class Parsed:
    """A chain: its layers as pairs of operator and attributes, its parameters, the names of its further
    inputs."""

    in_channels: int
    layers: tuple[tuple[str, dict[str, Any]], ...]
    parameters: tuple[tuple[str, tuple[int, ...], str | float], ...]
    inputs: tuple[str, ...]

    @property
    def axes(self) -> int | None:
        """The number of axes after the channels, given by the layers that fix it; otherwise ``None``."""
        for operator, a in self.layers:
            if operator in ("pixel_shuffle", "pixel_unshuffle"):
                return 2
            if operator == "pad":
                return len(a["padding"]) // 2
            if operator[-2].isdigit():
                return int(operator[-2])
        return None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters, in their order."""
        return tuple(name for name, _, _ in self.parameters)


@lru_cache(maxsize=1024)
def parsed(text: str) -> Parsed:
    """Parses a chain in JSON. Raises ``ValueError`` with the reason if the library refuses it."""
    table = _native.parameters(text)
    content = json.loads(text)
    return Parsed(
        content["in_channels"],
        tuple(next(iter(layer.items())) for layer in content["layers"]),
        tuple((name, tuple(shape), how) for name, shape, how in table),
        tuple(_native.inputs(text)),
    )


def _each(value: int | Sequence[int], axes: int) -> list[int]:
    return [value] * axes if isinstance(value, int) else list(value)


def _convolution(x: torch.Tensor, values: dict[str, torch.Tensor], a: dict[str, Any], axes: int):
    name = a["name"]
    weight, bias = values[f"{name}.weight"], values.get(f"{name}.bias")
    stride, dilation = _each(a.get("stride", 1), axes), _each(a.get("dilation", 1), axes)
    padding, mode = a.get("padding", 0), a.get("padding_mode", "zeros")
    groups = a.get("groups", 1)
    function = (F.conv1d, F.conv2d, F.conv3d)[axes - 1]
    if mode != "zeros":
        if padding == "same":
            totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
            sides = [(total // 2, total - total // 2) for total in totals]
        else:
            padding = 0 if padding == "valid" else padding
            sides = [(side, side) for side in _each(padding, axes)]
        x = F.pad(x, [side for pair in reversed(sides) for side in pair], mode=mode)
        padding = 0
    if not isinstance(padding, str):
        padding = _each(padding, axes)
    return function(x, weight, bias, stride, padding, dilation, groups)


SOFTMAX = frozenset({"softmax", "log_softmax"})
"""Layers over dimensions, which their outputs keep."""


def reduced_dims(a: dict[str, Any]) -> list[int]:
    """The dimensions that a reduction or a softmax runs over; empty for other layers."""
    dim: Any = a.get("dim", [])
    return dim if isinstance(dim, list) else [dim]


def _pool(x: torch.Tensor, operator: str, a: dict[str, Any]) -> torch.Tensor:
    axes = int(operator[-2])
    kernel = _each(a["kernel_size"], axes)
    stride = _each(a.get("stride", kernel), axes)
    padding, ceil_mode = _each(a.get("padding", 0), axes), a.get("ceil_mode", False)
    if operator.startswith("max_pool"):
        function = F.max_pool2d if axes == 2 else F.max_pool3d
        return function(x, kernel, stride, padding, _each(a.get("dilation", 1), axes), ceil_mode)
    function = F.avg_pool2d if axes == 2 else F.avg_pool3d
    count, divisor = a.get("count_include_pad", True), a.get("divisor_override")
    return function(x, kernel, stride, padding, ceil_mode, count, divisor)


def _operand(
    a: dict[str, Any], x: torch.Tensor, values: dict[str, torch.Tensor], lacks_batch: bool
) -> float | torch.Tensor:
    """The second operand of arithmetic: a constant, or a parameter that is broadcast over ``x``."""
    if a.get("value") is not None:
        return a["value"]
    other = values[a["name"]]
    if other.numel() == 1 or (lacks_batch and other.dim() > x.dim()):
        # The value may have a batch of one after it.
        return other
    axes = x.dim() - (1 if lacks_batch else 2)
    return other.reshape(-1, *[1] * axes)


def _layer(
    operator: str,
    a: dict[str, Any],
    x: torch.Tensor,
    values: dict[str, torch.Tensor],
    lacks_batch: bool,
) -> torch.Tensor:
    name = a.get("name", "")
    weight, bias = values.get(f"{name}.weight"), values.get(f"{name}.bias")
    match operator:
        case "conv1d" | "conv2d" | "conv3d":
            return _convolution(x, values, a, int(operator[-2]))
        case "conv_transpose1d" | "conv_transpose2d" | "conv_transpose3d":
            axes = int(operator[-2])
            function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[axes - 1]
            stride, padding = _each(a.get("stride", 1), axes), _each(a.get("padding", 0), axes)
            more, dilation = (
                _each(a.get("output_padding", 0), axes),
                _each(a.get("dilation", 1), axes),
            )
            return function(x, weight, bias, stride, padding, more, a.get("groups", 1), dilation)
        case "linear" | "layer_norm" if a.get("dim") is not None:
            return _layer(operator, a | {"dim": None}, x.movedim(1, -1), values, lacks_batch).movedim(-1, 1)
        case "linear":
            return F.linear(x, weight, bias)
        case "flatten":
            return x.flatten(1)
        case "reshape":
            return x.reshape(x.shape[0], *a["shape"])
        case "pad":
            mode = a.get("padding_mode", "zeros")
            return F.pad(x, a["padding"], "constant" if mode == "zeros" else mode)
        case "upsample":
            mode = a.get("mode", "nearest")
            corners = None if mode.startswith("nearest") else a.get("align_corners", False)
            batch = x.unsqueeze(0) if lacks_batch else x
            y = F.interpolate(batch, a.get("size"), a.get("scale_factor"), mode, corners)
            return y.squeeze(0) if lacks_batch else y
        case "narrow":
            return x.narrow(a["dim"], a["start"], a["length"])
        case "channel_shuffle" | "pixel_shuffle" | "pixel_unshuffle":
            return getattr(F, operator)(x, *a.values())
        case "group_norm":
            return F.group_norm(x, a["num_groups"], weight, bias, a.get("eps", 1e-5))
        case "instance_norm":
            batch = x.unsqueeze(0) if lacks_batch else x
            y = F.instance_norm(batch, weight=weight, bias=bias, eps=a.get("eps", 1e-5))
            return y.squeeze(0) if lacks_batch else y
        case "batch_norm":
            mean, variance = values.get(f"{name}.running_mean"), values.get(f"{name}.running_var")
            by_batch = a.get("training", False) or mean is None
            momentum, eps = a.get("momentum", 0.1), a.get("eps", 1e-5)
            return F.batch_norm(x, mean, variance, weight, bias, by_batch, momentum or 0.0, eps)
        case "layer_norm":
            return F.layer_norm(x, a["normalized_shape"], weight, bias, a.get("eps", 1e-5))
        case "scale":
            return x * _operand(a, x, values, lacks_batch)
        case "add" | "sub" | "mul" | "div":
            return getattr(torch, operator)(x, _operand(a, x, values, lacks_batch))
        case "minimum":
            return torch.clamp(x, max=a["value"])
        case "maximum":
            return torch.clamp(x, min=a["value"])
        case "prelu":
            return F.prelu(x, weight)
        case "clamp":
            return torch.clamp(x, a.get("min"), a.get("max"))
        case "relu":
            return F.relu(x)
        case "leaky_relu":
            return F.leaky_relu(x, a.get("negative_slope", 0.01))
        case "silu":
            return F.silu(x)
        case "gelu":
            return F.gelu(x, approximate=a.get("approximate", "none"))
        case "sigmoid":
            return torch.sigmoid(x)
        case "tanh":
            return torch.tanh(x)
        case "hardswish":
            return F.hardswish(x)
        case "hardtanh":
            return F.hardtanh(x, a.get("min_val", -1.0), a.get("max_val", 1.0))
        case "hardsigmoid":
            return F.hardsigmoid(x)
        case "elu":
            return F.elu(x, a.get("alpha", 1.0))
        case "softplus":
            return F.softplus(x, a.get("beta", 1.0), a.get("threshold", 20.0))
        case "mish":
            return F.mish(x)
        case "adaptive_avg_pool2d":
            return F.adaptive_avg_pool2d(x, a["output_size"])
        case "adaptive_avg_pool3d":
            return F.adaptive_avg_pool3d(x, a["output_size"])
        case "softmax" | "log_softmax":
            dims = sorted(one % x.dim() for one in reduced_dims(a))
            flat = x.flatten(dims[0], dims[-1])
            return getattr(torch, operator)(flat, dims[0]).view(x.shape)
        case _ if "dim" in a:
            # A reduction. ``amax`` and ``amin`` are the maximum and minimum without indices.
            function = getattr(torch, f"a{operator}", None) or getattr(torch, operator)
            return function(x, dim=reduced_dims(a), keepdim=a.get("keepdim", False))
        case _:
            return _pool(x, operator, a)


def evaluate(
    chain: Parsed,
    x: torch.Tensor,
    parameters: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor] = (),
    axes: int | None = None,
) -> torch.Tensor:
    """Applies the layers of a chain to ``x``, one after the other, with PyTorch's functions. ``axes`` is the
    number of axes after the channels if the chain does not fix it: an input with one axis fewer than a batch
    has no batch."""
    axes = chain.axes or axes
    values = dict(zip(chain.names, parameters, strict=True))
    further = dict(zip(chain.inputs, inputs, strict=True))
    taken_again = {a["layer"] for _, a in chain.layers if a.get("layer") is not None}
    earlier: dict[int, torch.Tensor] = {}
    # Reductions number their dimensions with a batch.
    may_lack = axes is not None and not any(reduced_dims(a) for _, a in chain.layers)
    for number, (operator, attributes) in enumerate(chain.layers):
        lacks_batch = may_lack and x.dim() == axes + 1
        if operator == "cat":
            x = torch.cat([x, *(further[one] for one in attributes["inputs"])], attributes["dim"])
        elif operator == "gate":
            x = x * further[attributes["input"]]
        elif attributes.get("input") is not None:
            x = getattr(torch, operator)(x, further[attributes["input"]])
        elif attributes.get("layer") is not None:
            x = getattr(torch, operator)(x, earlier[attributes["layer"]])
        else:
            x = _layer(operator, attributes, x, values, lacks_batch)
        if number in taken_again:
            earlier[number] = x
    return x


def _windows(
    extent: Any, kernel: int, a: dict[str, Any], axis: int, axes: int, transposed: bool
) -> Any:
    """The number of windows along an axis, or of outputs of a transposed convolution."""
    stride = _each(a.get("stride", a["kernel_size"] if "name" not in a else 1), axes)[axis]
    dilation = _each(a.get("dilation", 1), axes)[axis]
    padding = a.get("padding", 0)
    if padding == "same":
        return extent
    padding = 0 if padding == "valid" else _each(padding, axes)[axis]
    if transposed:
        more = _each(a.get("output_padding", 0), axes)[axis]
        return (extent - 1) * stride - 2 * padding + dilation * (kernel - 1) + more + 1
    room = extent + 2 * padding - dilation * (kernel - 1) - 1
    if not a.get("ceil_mode", False):
        return room // stride + 1
    count = (room + stride - 1) // stride + 1
    # The last window must begin within the input or the padding before it.
    return count - 1 if (count - 1) * stride >= extent + padding else count


def output_shape(chain: Parsed, shape: Sequence[Any], layers: int | None = None) -> list[Any]:
    """The shape of the output, or of the first ``layers`` layers, for a first input of this shape. Extents
    may be symbols. Refuses nothing."""
    shape = list(shape)
    for operator, a in chain.layers[:layers]:
        axes = int(operator[-2]) if operator.endswith("d") and operator[-2].isdigit() else 0
        if operator in SOFTMAX:
            continue
        if operator in ("layer_norm", "gate"):
            continue
        if operator == "linear":
            shape[-1 if a.get("dim") is None else 1] = a["out_features"]
            continue
        if operator == "flatten":
            shape[1:] = [math.prod(shape[1:])]
            continue
        if operator == "reshape":
            left = math.prod(shape[1:]) // math.prod(one for one in a["shape"] if one != -1)
            shape[1:] = [left if one == -1 else one for one in a["shape"]]
            continue
        if operator == "pad":
            for axis, (before, after) in enumerate(zip(a["padding"][::2], a["padding"][1::2])):
                shape[-1 - axis] += before + after
            continue
        if operator == "upsample":
            axes = len(shape) - 2
            size, factor = a.get("size"), a.get("scale_factor")
            to = _each(size, axes) if factor is None else None
            by = [factor] * axes if isinstance(factor, (int, float)) else factor
            shape[2:] = to or [math.floor(one * each) for one, each in zip(shape[2:], by)]
            continue
        if operator == "narrow":
            shape[a["dim"]] = a["length"]
            continue
        if operator == "channel_shuffle":
            continue
        if operator == "pixel_shuffle":
            factor = a["upscale_factor"]
            shape[-3:] = [shape[-3] // factor**2, shape[-2] * factor, shape[-1] * factor]
            continue
        if operator == "pixel_unshuffle":
            factor = a["downscale_factor"]
            shape[-3:] = [shape[-3] * factor**2, shape[-2] // factor, shape[-1] // factor]
            continue
        if operator == "cat":
            # Further inputs have the shape of the first operand.
            shape[a["dim"]] = shape[a["dim"]] * (1 + len(a["inputs"]))
            continue
        if axes == 0:
            reduced = {dim % len(shape) for dim in reduced_dims(a)}
            for dim in sorted(reduced, reverse=True):
                shape[dim : dim + 1] = [1] if a.get("keepdim", False) else []
            continue
        first = len(shape) - axes
        if operator.startswith("adaptive"):
            shape[first:] = _each(a["output_size"], axes)
            continue
        kernel = _each(a["kernel_size"], axes)
        for axis in range(axes):
            extent = shape[first + axis]
            transposed = operator.startswith("conv_transpose")
            shape[first + axis] = _windows(extent, kernel[axis], a, axis, axes, transposed)
        if "out_channels" in a:
            shape[first - 1] = a["out_channels"]
    return shape
