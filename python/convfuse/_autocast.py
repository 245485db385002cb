"""Chains under autocast: the types that PyTorch's layers give there, and in which a chain runs.

Autocast gives convolutions operands of 16 bits, has some layers compute in float32, and leaves the rest to the types that come in.
A chain gives the type that its layers would, with one exception: where everybody who reads its float32 rounds it to 16 bits at once (convolutions,
products of matrices: ``rounds``), it may give the rounded value itself, in half the bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import torch

from ._chain import Parsed

__all__ = ["TYPES", "Step", "Way", "gives_float32", "steps", "type_of_layers", "way"]

TYPES = (torch.float32, torch.float16, torch.bfloat16)

_NARROWED = frozenset({"conv1d", "conv2d", "conv3d", "prelu"})
"""What autocast gives operands of 16 bits to."""

_WIDENED = {
    "cuda": frozenset({"group_norm", "layer_norm", "softplus", "sum"}),
    "cpu": frozenset({"max_pool3d", "avg_pool3d", "adaptive_avg_pool3d"}),
}
"""What it computes in float32, by the kind of device."""


class Step(NamedTuple):
    """What a layer does to the type, where it does something."""

    operator: str
    source: int
    """Of a residual, which of the further inputs it is; of a scale, which of the parameters."""
    in_place: bool


def steps(chain: Parsed, in_place: Collection[int]) -> tuple[Step, ...]:
    """The layers of a chain that decide about types. Those whose number is in ``in_place`` write into what they are given."""
    found = []
    for index, (operator, attributes) in enumerate(chain.layers):
        source = -1
        if operator == "add":
            source = chain.inputs.index(attributes["input"])
        elif operator == "scale":
            source = chain.names.index(attributes["name"])
        elif operator not in _NARROWED and not any(operator in some for some in _WIDENED.values()):
            continue
        found.append(Step(operator, source, index in in_place))
    return tuple(found)


def type_of_layers(
    deciding: Sequence[Step],
    kind: str,
    low: torch.dtype,
    x: torch.dtype,
    inputs: Sequence[torch.dtype],
    parameters: Sequence[torch.dtype],
) -> torch.dtype:
    """The type of what PyTorch's layers give on a device of this kind for a first input of type ``x``."""
    widened = _WIDENED.get(kind, ())
    for operator, source, in_place in deciding:
        if operator in _NARROWED:
            x = low
        elif operator in widened:
            x = torch.float32
        elif source >= 0 and not in_place:
            other = (inputs if operator == "add" else parameters)[source]
            x = x if x is other else torch.float32
    return x


def gives_float32(deciding: Sequence[Step], inputs: int, parameters: int) -> bool:
    """Whether on a GPU the layers give float32 for inputs of 16 bits, with parameters of float32."""
    low = torch.float16
    types = [low] * inputs, [torch.float32] * parameters
    return type_of_layers(deciding, "cuda", low, low, *types) is torch.float32


class Way(NamedTuple):
    """How a chain runs: in which type, and in which it gives its output."""

    runs: torch.dtype
    gives: torch.dtype


def way(
    multiplies: bool,
    low: torch.dtype,
    layers: torch.dtype,
    rounds: bool,
    x: torch.dtype,
    inputs: Sequence[torch.dtype],
) -> Way:
    """The way for inputs of these types, where PyTorch's layers would give the type ``layers``. No residual is rounded before it is
    added, nor the input of a chain without products before it is normed."""
    if multiplies:
        is_wide = any([one is not low for one in inputs])
        if is_wide or (layers is torch.float32 and x is torch.float32 and not rounds):
            # tf32-class products, without conversions before or after.
            return Way(torch.float32, layers)
        return Way(low, low if rounds and layers is torch.float32 else layers)
    wanted = low if rounds and layers is torch.float32 else layers
    if x is wanted and all([one is wanted for one in inputs]):
        return Way(wanted, wanted)
    return Way(torch.float32, layers)
