"""What runs a chain: its parameters as they are, its precision, and whatever holds in a call."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal

import torch
from torch import nn

from ._autocast import TYPES, steps, type_of_layers, way
from ._chain import parsed
from .ops import _Run, _run

__all__ = ["PRECISIONS", "Precision", "Runner", "convolutions_allow_tf32"]

Precision = Literal["auto", "accurate", "fast"]

# Names that a call looks up once less.
_is_compiling = torch.compiler.is_compiling
_is_grad_enabled = torch.is_grad_enabled
_matmul_precision = torch.get_float32_matmul_precision
_cudnn_allows_tf32 = torch._C._get_cudnn_allow_tf32
_float32_precision = torch._C._get_fp32_precision_getter
_is_any_autocast_enabled = torch._C._is_any_autocast_enabled
# The operator without the layer in Python that compilers look for.
_run_eagerly = _run._op

PRECISIONS = ("auto", "accurate", "fast")


# PyTorch has two interfaces for how float32 is multiplied. The older one is asked in a third of the time, but raises errors once the
# caller has used the newer one (fp32_precision) for some operators; from then on that one is asked, which always answers.
_NEWER = []


@torch.compiler.assume_constant_result
def _matrix_products_allow_tf32() -> bool:
    """Whether the caller's settings allow matrix products of float32 with fewer bits, which PyTorch's defaults do not."""
    if not _NEWER:
        try:
            return _matmul_precision() != "highest"
        except (RuntimeError, UserWarning):
            _NEWER.append(True)
    return _float32_precision("cuda", "matmul") == "tf32"


@torch.compiler.assume_constant_result
def convolutions_allow_tf32() -> bool:
    """Whether PyTorch's own convolutions of float32 may be made with fewer bits, as its defaults have them, or matrix products may."""
    if not _NEWER:
        try:
            return _cudnn_allows_tf32() or _matmul_precision() != "highest"
        except (RuntimeError, UserWarning):
            _NEWER.append(True)
    conv, matmul = _float32_precision("cuda", "conv"), _float32_precision("cuda", "matmul")
    return "tf32" in (conv, matmul)


class Runner:
    """A chain with the places of its parameters, and what is needed to run it on tensors.

    Not a module: it is held by one, whose parameters it refers to.
    """

    # What "auto" stands for.
    _allows_tf32 = staticmethod(_matrix_products_allow_tf32)

    def __init__(
        self,
        chain: str,
        sources: Sequence[tuple[nn.Module, str]],
        precision: Precision = "auto",
        in_place: Collection[int] = (),
    ) -> None:
        """``in_place`` has the numbers of the layers that write into what they are given."""
        if precision not in PRECISIONS:
            raise ValueError(f"convfuse: precision is {precision!r}, must be one of {PRECISIONS}")
        self.chain = chain
        self.sources = tuple(sources)
        self.precision = precision
        self.in_place = frozenset(in_place)
        self._begin()
        layers = self.parsed.layers
        self.multiplies = any(operator.startswith("conv") for operator, _ in layers)
        self.steps = steps(self.parsed, self.in_place)
        self.scales = any(step.operator == "scale" for step in self.steps)

    def _begin(self) -> None:
        # Kept, since compilers do not know what makes it.
        self.parsed = parsed(self.chain)
        self._places: tuple[tuple[dict[str, Any], str], ...] | None = None

    def _find_places(self) -> tuple[tuple[dict[str, Any], str], ...]:
        # The dictionaries stay those of their modules. Not found at once: a module that is being copied has none yet.
        self._places = tuple(
            (module._parameters if name in module._parameters else module._buffers, name)
            for module, name in self.sources
        )
        return self._places

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_places"], state["parsed"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def parameters(self) -> list[torch.Tensor]:
        """The parameters as they are now, in the order of the chain's table."""
        return [getattr(module, name) for module, name in self.sources]

    def __call__(
        self, x: torch.Tensor, *inputs: torch.Tensor, rounds: bool = False
    ) -> torch.Tensor:
        """The output. ``rounds`` says that under autocast whoever reads it rounds it to 16 bits."""
        # Every line here is part of what a call costs the host.
        if _is_compiling():
            return self._any(x, self.parameters(), inputs, rounds)
        places = self._places or self._find_places()
        try:
            parameters = [place[name] for place, name in places]
        except KeyError:
            # Computed of others by now, by a parametrisation.
            parameters = self.parameters()
        if type(x) is not torch.Tensor or _is_any_autocast_enabled() or _is_grad_enabled():
            return self._any(x, parameters, inputs, rounds)
        return _run_eagerly([x, *inputs], parameters, self.chain, self._is_fast())

    def _any(
        self,
        x: torch.Tensor,
        parameters: list[torch.Tensor],
        inputs: tuple[torch.Tensor, ...],
        rounds: bool,
    ) -> torch.Tensor:
        """The output under whatever holds: compilation, autocast, the recording of gradients."""
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"convfuse: the input is of {type(x).__name__}, must be a torch.Tensor")
        kind = x.device.type
        if torch.is_autocast_enabled(kind) and all([one.dtype in TYPES for one in (x, *inputs)]):
            return self._autocast(kind, x, parameters, inputs, rounds)
        return self._run(x, parameters, inputs, self._is_fast())

    def _is_fast(self) -> bool:
        precision = self.precision
        return self._allows_tf32() if precision == "auto" else precision == "fast"

    def _autocast(self, kind, x, parameters, inputs, rounds):
        """What the layers would give under autocast. Where gradients are recorded nothing is rounded that the layers would not round."""
        low, types = torch.get_autocast_dtype(kind), [one.dtype for one in inputs]
        stored = [one.dtype for one in parameters] if self.scales else ()
        layers = type_of_layers(self.steps, kind, low, x.dtype, types, stored)
        rounds = rounds and not torch.is_grad_enabled()
        runs, gives = way(self.multiplies, low, layers, rounds, x.dtype, types)
        x = x if x.dtype is runs else x.to(runs)
        inputs = [one if one.dtype is runs else one.to(runs) for one in inputs]
        y = self._run(x, parameters, inputs, self.multiplies and runs is torch.float32)
        return y if runs is gives else y.to(gives)

    def _run(self, x, parameters, inputs, fast):
        if torch.is_grad_enabled():
            tensors = (*parameters, *inputs)
            if x.requires_grad or any([tensor.requires_grad for tensor in tensors]):
                return _Run.apply(self.chain, fast, len(parameters), x, *tensors)
        return _run([x, *inputs], parameters, self.chain, fast)
