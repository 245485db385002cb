"""The operator ``torch.ops.convfuse.run``, and the properties that PyTorch needs in addition to its kernels.

``run_`` is the same for chains that update running statistics, in place. Both also run networks with one
output; ``run_network`` and ``run_network_`` return the outputs of a network with several. The operators are
native: the extension registers their kernels for CUDA and the CPU, and a call runs no Python code. This
module has their *fake* implementations, which give ``torch.compile`` and ``torch.export`` the properties of
their outputs, and their count of floating-point operations. The operators are for inference: :func:`run`
computes with PyTorch's own layers if gradients are required.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils.flop_counter import register_flop_formula

from . import _native
from ._chain import evaluate, output_shape, parsed

__all__ = ["run"]

_native.register()

RUN = torch.ops.convfuse.run.default
RUN_RENEWING = torch.ops.convfuse.run_.default
RUN_NETWORK = torch.ops.convfuse.run_network.default
RUN_NETWORK_RENEWING = torch.ops.convfuse.run_network_.default

OPERATORS = frozenset({RUN, RUN_RENEWING, RUN_NETWORK, RUN_NETWORK_RENEWING})

# Local names that save an attribute lookup per call.
_is_grad_enabled, _is_compiling = torch.is_grad_enabled, torch.compiler.is_compiling
_level = torch._C._functorch.maybe_current_level


def renews(chain: str) -> bool:
    """Whether a chain may update running statistics."""
    return '"training"' in chain


def operator_of(text: str, outputs: int = 1) -> torch._ops.OpOverload:
    """The operator for a chain, or for a network with this number of outputs."""
    if outputs > 1:
        return RUN_NETWORK_RENEWING if renews(text) else RUN_NETWORK
    return RUN_RENEWING if renews(text) else RUN


@torch.library.register_fake("convfuse::run")
@torch.library.register_fake("convfuse::run_")
def _fake(
    inputs: Sequence[torch.Tensor],
    parameters: Sequence[torch.Tensor],
    chain: str,
    fast: bool,
    batch_invariant: bool = False,
    channels_last: bool = False,
) -> torch.Tensor:
    x = inputs[0]
    _expect_one_device(x, inputs, parameters)
    shape = _shapes(chain, x)[0] if _is_network(chain) else output_shape(parsed(chain), x.shape)
    return _output(x, shape, channels_last)


@torch.library.register_fake("convfuse::run_network")
@torch.library.register_fake("convfuse::run_network_")
def _fake_of_network(
    inputs: Sequence[torch.Tensor],
    parameters: Sequence[torch.Tensor],
    network: str,
    fast: bool,
    batch_invariant: bool = False,
    channels_last: bool = False,
) -> list[torch.Tensor]:
    x = inputs[0]
    _expect_one_device(x, inputs, parameters)
    return [_output(x, shape, channels_last) for shape in _shapes(network, x)]


@RUN_NETWORK_RENEWING.py_functionalize_impl
def _functionalized(*_: Any) -> Any:
    # Inductor compiles an operator that writes to arguments and returns a list only if this exists. Our calls
    # are put into graphs later.
    raise NotImplementedError("convfuse: run_network_ cannot be traced, since it writes to running statistics")


def _is_network(text: str) -> bool:
    """Whether a text in the library's normal form is a network's."""
    return text.startswith('{"version":')


def _shapes(network: str, x: torch.Tensor) -> list[list[Any]]:
    """The shapes of a network's outputs. Only the number of samples may be a symbol."""
    samples, *extents = x.shape
    number = samples if type(samples) is int else samples.node.hint
    return [[samples, *shape[1:]] for shape in _native.output_shapes(network, [number, *extents])]


def _expect_one_device(
    x: torch.Tensor, inputs: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor]
) -> None:
    for one in (*parameters, *inputs):
        if one.device != x.device:
            raise RuntimeError(
                f"convfuse: the input is on {x.device}, a parameter or a further input on {one.device}; move the module and its inputs "
                "to one device"
            )


def _output(x: torch.Tensor, shape: Sequence[int], channels_last: bool) -> torch.Tensor:
    """An output for a first input ``x``, dense in its memory order."""
    if x.dim() not in (4, 5) or len(shape) != x.dim():
        return x.new_empty(shape)
    if not channels_last and (x.stride(1) != 1 or x.is_contiguous()):
        return x.new_empty(shape)
    last = x.new_empty([shape[0], *shape[2:], shape[1]])
    return last.permute([0, x.dim() - 1, *range(1, x.dim() - 1)])


@register_flop_formula([one.overloadpacket for one in OPERATORS])
def _flops(inputs, parameters, chain, fast, *others, out_shape=None, **named):
    return 2 * _native.multiply_adds(chain, list(inputs[0]))


def is_differentiated(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether derivatives of these tensors are required: gradients are recorded, a ``torch.func`` transform
    is active, or tangents are attached."""
    if _is_grad_enabled() and any([one.requires_grad for one in tensors]):
        return True
    if _is_compiling():
        return False
    return _level() is not None or forward_ad._current_level >= 0


def run(
    inputs: Sequence[torch.Tensor],
    parameters: Sequence[torch.Tensor],
    chain: str,
    *,
    fast: bool = False,
    batch_invariant: bool = False,
) -> torch.Tensor:
    """The output of a chain, as a dense tensor with the type of its first input, and channels-last if that
    is.

    ``chain`` is a chain in JSON. ``inputs`` are the first input and the residuals of the chain.
    ``parameters`` are in the order of ``convfuse.arrays.parameters(chain)``, and are rounded to the type of
    the inputs if they have another type. Tensors may have any strides. On a GPU, work goes to PyTorch's
    current stream, and the output is from PyTorch's allocator. Only the first call for a shape waits for the
    device. ``fast`` rounds factors of f32 to 11 bits, as tf32 does. With ``batch_invariant`` a sample gives
    the same bits in any batch; otherwise kernels may depend on the batch size.

    A batch norm in training updates its running statistics, which are float32, in place.

    If a derivative is required, PyTorch's own layers compute the chain.
    """
    if is_differentiated([*inputs, *parameters]):
        x = inputs[0]
        return evaluate(parsed(chain), x, [one.to(x.dtype) for one in parameters], inputs[1:])
    return operator_of(chain)(list(inputs), list(parameters), chain, fast, batch_invariant)
