"""The operators of ``torch.ops.convfuse``, and what PyTorch has to know of them beside their kernels.

``torch.ops.convfuse.run`` is native: its kernels for CUDA and for the CPU are registered by the extension, without a line of Python in a call. Here are
its *fake* implementation, by which ``torch.compile`` and ``torch.export`` know its output, and ``backward``, by which training goes
through :func:`run`. The operator by itself records no gradients.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from . import _native
from ._chain import evaluate, output_shape, parsed

__all__ = ["run"]

_native.register()

_run = torch.ops.convfuse.run.default

# Gradients are recorded by `_Run`, and nothing beneath it: calls go on to the kernels at once.
_library = torch.library.Library("convfuse", "IMPL")
_library.impl("run", torch.library.fallthrough_kernel, "Autograd")


@torch.library.register_fake("convfuse::run")
def _(
    inputs: Sequence[torch.Tensor],
    parameters: Sequence[torch.Tensor],
    chain: str,
    fast: bool,
) -> torch.Tensor:
    x = inputs[0]
    for one in (*parameters, *inputs):
        if one.device != x.device:
            raise RuntimeError(
                f"convfuse: the input is on {x.device}, a parameter or a further input on {one.device}; move the module and its inputs "
                "to one device"
            )
    return x.new_empty(output_shape(parsed(chain), x.shape))


@functools.cache
def _dispatch_of_a_fresh_thread() -> tuple[torch._C.DispatchKeySet, torch._C.DispatchKeySet]:
    """What PyTorch's dispatcher includes and excludes in a thread that has switched nothing on or off."""
    sets = torch._C._dispatch_tls_local_include_set, torch._C._dispatch_tls_local_exclude_set
    with ThreadPoolExecutor(1) as fresh:
        include, exclude = fresh.map(lambda of: of(), sets)
    return include, exclude


@torch.library.custom_op("convfuse::backward", mutates_args=())
def _backward(
    gradient: torch.Tensor,
    x: torch.Tensor,
    parameters: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    chain: str,
    wanted: Sequence[bool],
) -> list[torch.Tensor]:
    """The gradients of a chain with respect to the first input, the parameters and the further inputs; an empty tensor for those
    that are not wanted. The chain is computed once more, by PyTorch's own layers."""
    sources, count = [x, *parameters, *inputs], len(parameters)
    # An operator's kernel runs beneath autograd, which a fresh thread has not switched off. It is in this thread all the same: autograd has one for
    # each GPU, which is this one, and would wait for itself if another asked for gradients on that GPU.
    with torch._C._ForceDispatchKeyGuard(*_dispatch_of_a_fresh_thread()), torch.enable_grad():
        leaves = [one.detach().requires_grad_(want) for one, want in zip(sources, wanted)]
        x, parameters, inputs = leaves[0], leaves[1 : 1 + count], leaves[1 + count :]
        y = evaluate(parsed(chain), x, [one.to(x.dtype) for one in parameters], inputs)
        asked = [leaf for leaf, want in zip(leaves, wanted) if want]
        found = iter(torch.autograd.grad(y, asked, gradient, allow_unused=True))
    gradients = []
    for source, want in zip(sources, wanted):
        one = next(found) if want else source.new_empty(0)
        one = torch.zeros_like(source) if one is None else one
        gradients.append(one.clone(memory_format=torch.contiguous_format))
    return gradients


@_backward.register_fake
def _(gradient, x, parameters, inputs, chain, wanted):
    sources = [x, *parameters, *inputs]
    return [
        source.new_empty(source.shape if want else (0,)) for source, want in zip(sources, wanted)
    ]


class _Run(torch.autograd.Function):
    """A run whose gradients are those of PyTorch's own layers."""

    @staticmethod
    def forward(ctx, chain, fast, count, x, *tensors):
        parameters, inputs = list(tensors[:count]), list(tensors[count:])
        ctx.save_for_backward(x, *tensors)
        ctx.chain, ctx.count = chain, count
        return _run([x, *inputs], parameters, chain, fast)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        x, *tensors = ctx.saved_tensors
        parameters, inputs = tensors[: ctx.count], tensors[ctx.count :]
        wanted = list(ctx.needs_input_grad[3:])
        gradients = _backward(gradient, x, parameters, inputs, ctx.chain, wanted)
        return None, None, None, *(
            gradient if want else None for gradient, want in zip(gradients, wanted)
        )


def run(
    x: torch.Tensor,
    parameters: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor] = (),
    *,
    chain: str,
    fast: bool = False,
) -> torch.Tensor:
    """The output of a chain, as a dense tensor of the type of ``x``.

    ``chain`` is a chain in JSON; ``parameters`` are in the order of ``convfuse.parameters(chain)``, and are rounded to the type of
    ``x`` where they are stored otherwise; ``inputs`` are the residuals that the chain adds. Tensors may have any strides. On a GPU work
    goes to PyTorch's current stream, and the output is from PyTorch's allocator; nothing waits for the device. Nothing of the
    parameters is kept: each call computes with what they are, and puts them into the form that kernels take.

    Where a gradient is asked for it is that of PyTorch's own layers, which compute the chain once more for it.

    ``fast`` rounds factors of f32 to 11 bits, as tf32 does.
    """
    tensors = [*parameters, *inputs]
    if torch.is_grad_enabled() and (x.requires_grad or any(t.requires_grad for t in tensors)):
        return _Run.apply(chain, fast, len(parameters), x, *tensors)
    return _run([x, *inputs], list(parameters), chain, fast)
