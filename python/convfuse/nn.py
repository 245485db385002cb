"""Modules that are fused from the start.

They are ordinary PyTorch modules. Their parameters have the same places as in PyTorch's own layers, so
``state_dict``, ``to``, ``deepcopy`` and ``pickle`` work the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as _module

from ._chain import Parsed, evaluate, parsed
from ._precision import Precision, expect_precision, matrix_products_allow_tf32
from ._table import TYPES
from .ops import RUN, RUN_RENEWING, is_differentiated, renews

__all__ = [
    "Chain",
    "ChainModule",
    "Conv2dGroupNormScaleMaxPoolClamp",
    "Conv3dMultiplyInstanceNormClampMultiplyMax",
]

_is_any_autocast_enabled = torch._C._is_any_autocast_enabled

# Global hooks of all modules in the process.
_HOOKS = (
    _module._global_forward_pre_hooks,
    _module._global_forward_hooks,
    _module._global_backward_pre_hooks,
    _module._global_backward_hooks,
)


class ChainModule(nn.Module):
    """A module that computes a chain. Subclasses create their parameters and then call :meth:`_set_chain`.

    With gradients, under autocast, and for inputs whose type differs from the parameters', PyTorch's own
    operators compute the chain.
    """

    batch_invariant: bool = False
    """Whether a sample gives the same bits in any batch. Otherwise kernels may be chosen by the batch, as PyTorch's are."""

    _chain: str
    _parsed: Parsed
    _precision: Precision
    _paths: tuple[tuple[str, str], ...]
    _counting: tuple[str, ...] = ()
    """Batch norms in training, which count their batches."""

    def _set_chain(
        self, chain: str, paths: Mapping[str, str] | None = None, precision: Precision = "auto"
    ) -> None:
        """``paths`` maps parameters of the chain to modules where they have other names. Raises
        ``ValueError`` for a parameter whose shape differs from the chain's, or whose type has no kernels."""
        expect_precision(precision)
        places = []
        for name, shape, _ in parsed(chain).parameters:
            path, _, attribute = (paths or {}).get(name, name).rpartition(".")
            places.append((path, attribute))
            value = getattr(self.get_submodule(path), attribute)
            if tuple(value.shape) != shape:
                raise ValueError(
                    f"convfuse: {name} has shape {tuple(value.shape)}, must be {shape}"
                )
            _expect_type(value.dtype)
        self._chain, self._paths, self._precision = chain, tuple(places), precision
        # Stored, since compilers cannot trace the parser.
        self._parsed = parsed(chain)
        norms = (one for operator, one in self._parsed.layers if operator == "batch_norm")
        self._counting = tuple(one["name"] for one in norms if one.get("training"))

    @property
    def chain(self) -> str:
        """The chain in JSON, in the format of ``convfuse explain``."""
        return self._chain

    @property
    def precision(self) -> Precision:
        """The math mode of float32: ``"accurate"``, ``"fast"`` (tf32 class), or ``"auto"``: fast if the
        caller allows tf32 in matrix products, by ``torch.set_float32_matmul_precision("high")`` or
        ``torch.backends.cuda.matmul``. The setting for convolutions, which allows tf32 by default, only
        applies to :func:`convfuse.fuse`."""
        return self._precision

    @precision.setter
    def precision(self, precision: Precision) -> None:
        expect_precision(precision)
        self._precision = precision

    def chain_parameters(self) -> list[torch.Tensor]:
        """The current parameters and buffers of the chain, in the order of its table."""
        found = []
        for path, name in self._paths:
            owner = (self._modules.get(path) or self.get_submodule(path)) if path else self
            value = owner._parameters.get(name)
            # A parameter of a parametrization, or of a replica, is a plain attribute.
            found.append(getattr(owner, name) if value is None else value)
        return found

    def __call__(self, x, *inputs, **named):
        # The same as PyTorch's ``__call__`` if there are no hooks, but faster.
        is_plain = type(x) is torch.Tensor and not (
            named
            or self._forward_pre_hooks
            or self._forward_hooks
            or self._backward_pre_hooks
            or self._backward_hooks
            or _HOOKS[0]
            or _HOOKS[1]
            or _HOOKS[2]
            or _HOOKS[3]
            or self._compiled_call_impl
        )
        if is_plain:
            return self.forward(x, *inputs)
        return super().__call__(x, *inputs, **named)

    def forward(self, x: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
        """Computes the output of the chain for ``x`` and its residuals, in the order of the chain."""
        parameters = self.chain_parameters()
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"convfuse: the input is of {type(x).__name__}, must be a torch.Tensor")
        for name in self._counting:
            count = self.get_submodule(name)._buffers.get("num_batches_tracked")
            if count is not None:
                count.add_(1)
        if _is_left_to_pytorch([x, *inputs, *parameters]):
            return evaluate(self._parsed, x, parameters, inputs)
        precision = self._precision
        fast = matrix_products_allow_tf32() if precision == "auto" else precision == "fast"
        run = RUN_RENEWING if renews(self._chain) else RUN
        return run([x, *inputs], parameters, self._chain, fast, self.batch_invariant)


def _is_left_to_pytorch(tensors: list[torch.Tensor]) -> bool:
    """Whether PyTorch's own operators must compute or refuse: with gradients, unsupported types, or several
    devices."""
    # Fast, since it runs in each call: device attributes of tensors are much cheaper than device names, and
    # loops cost half of comprehensions.
    x = tensors[0]
    dtype = x.dtype
    for one in tensors:
        if one.dtype is not dtype:
            return True
    if dtype not in TYPES or not (x.is_cuda or x.is_cpu or x.is_meta):
        return True
    if _is_any_autocast_enabled() and not x.is_meta:
        if torch.is_autocast_enabled(x.device.type):
            return True
    return is_differentiated(tensors)


class Chain(ChainModule):
    """Any chain of the library's layers, with its own parameters under the names of the layers.

    ``layers`` is a list of dictionaries with one key each: the operator, whose value has the attributes that
    differ from PyTorch's defaults, as in a chain file. ``Chain.from_json`` takes the contents of a file.
    Parameters are initialised like those of PyTorch's layers, in the order of the layers.

    >>> block = convfuse.nn.Chain(64, [
    ...     {"conv2d": {"name": "conv", "out_channels": 128, "kernel_size": 3, "padding": 1}},
    ...     {"group_norm": {"name": "norm", "num_groups": 32}},
    ...     {"silu": {}},
    ... ])
    """

    def __init__(
        self,
        in_channels: int,
        layers: Sequence[Mapping[str, Mapping[str, Any]]],
        *,
        precision: Precision = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        is_list = isinstance(layers, Sequence) and all(isinstance(one, Mapping) for one in layers)
        if not is_list:
            raise TypeError("convfuse: layers are a list of dictionaries, one for each layer")
        text = _text(in_channels, [dict(layer) for layer in layers])
        _make_parameters(self, parsed(text), device, dtype)
        self._set_chain(text, precision=precision)

    @classmethod
    def from_json(cls, text: str, **options: Any) -> Chain:
        """The chain in the text of a chain file, as used by ``convfuse explain --chain`` and ``convfuse
        verify --chain``."""
        parsed(text)
        content = json.loads(text)
        return cls(content["in_channels"], content["layers"], **options)

    def extra_repr(self) -> str:
        names = " ".join(operator for operator, _ in self._parsed.layers)
        return f"{names}, precision={self.precision!r}"


def _text(in_channels: int, layers: Sequence[Mapping[str, Any]]) -> str:
    """A chain in JSON, which cannot express NaN and infinity."""
    try:
        return json.dumps({"in_channels": in_channels, "layers": layers}, allow_nan=False)
    except ValueError as error:
        raise ValueError(f"convfuse: an attribute of a layer is not finite: {error}") from None


def _expect_type(dtype: torch.dtype) -> None:
    if dtype not in TYPES:
        raise ValueError(f"convfuse: parameters are of {dtype}, must be of one of {TYPES}")


def _expect_free(owner: nn.Module, part: str, name: str) -> None:
    taken = hasattr(type(owner), part) or hasattr(owner, part)
    if not part or taken:
        raise ValueError(f"convfuse: no parameter can be called {name}: {part!r} is empty or taken")


class _Part(nn.Module):
    """The parameters of a layer. As in PyTorch's batch norms, a checkpoint may lack the number of tracked
    batches."""

    def _load_from_state_dict(self, state_dict, prefix, *arguments):
        if "num_batches_tracked" in self._buffers:
            state_dict.setdefault(f"{prefix}num_batches_tracked", self.num_batches_tracked)
        super()._load_from_state_dict(state_dict, prefix, *arguments)


def _make_parameters(
    module: nn.Module,
    chain: Parsed,
    device: torch.device | str | None,
    dtype: torch.dtype | None,
) -> None:
    _expect_type(dtype or torch.get_default_dtype())
    shapes = {name: shape for name, shape, _ in chain.parameters}
    for name, shape, how in chain.parameters:
        path, _, attribute = name.rpartition(".")
        owner = module
        for part in path.split(".") if path else ():
            if part not in owner._modules:
                _expect_free(owner, part, name)
                owner.add_module(part, _Part())
            owner = owner._modules[part]
        _expect_free(owner, attribute, name)
        value = torch.empty(shape, device=device, dtype=dtype)
        if isinstance(how, float):
            nn.init.constant_(value, how)
        elif how == "normal":
            nn.init.normal_(value)
        else:
            # As PyTorch's convolutions: within 1 / sqrt(fan_in), weight and bias.
            weight = shapes.get(f"{path}.weight", shape)
            fan_in = max(1, torch.Size(weight[1:]).numel())
            nn.init.uniform_(value, -(fan_in**-0.5), fan_in**-0.5)
        if attribute in ("running_mean", "running_var"):
            owner.register_buffer(attribute, value)
            if attribute == "running_var":
                count = torch.zeros((), device=device, dtype=torch.long)
                owner.register_buffer("num_batches_tracked", count)
        else:
            owner.register_parameter(attribute, nn.Parameter(value))


def _axes(value: int | Sequence[int]) -> int | list[int]:
    return value if isinstance(value, int) else [int(one) for one in value]


class Conv2dGroupNormScaleMaxPoolClamp(ChainModule):
    """Problem 85 of KernelBench, level 2, with its constructor: ``clamp(max_pool2d(group_norm(conv2d(x)) *
    scale))``."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        num_groups: int,
        scale_shape: Sequence[int],
        maxpool_kernel_size: int | tuple[int, int],
        clamp_min: float,
        clamp_max: float,
        *,
        precision: Precision = "auto",
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.group_norm = nn.GroupNorm(num_groups, out_channels)
        self.scale = nn.Parameter(torch.ones(tuple(scale_shape)))
        self.maxpool = nn.MaxPool2d(kernel_size=maxpool_kernel_size)
        self.clamp_min, self.clamp_max = clamp_min, clamp_max
        conv = {
            "name": "conv",
            "out_channels": out_channels,
            "kernel_size": _axes(kernel_size),
        }
        layers = [
            {"conv2d": conv},
            {"group_norm": {"name": "group_norm", "num_groups": num_groups}},
            {"scale": {"name": "scale"}},
            {"max_pool2d": {"kernel_size": _axes(maxpool_kernel_size)}},
            {"clamp": {"min": clamp_min, "max": clamp_max}},
        ]
        self._set_chain(_text(in_channels, layers), precision=precision)


class Conv3dMultiplyInstanceNormClampMultiplyMax(ChainModule):
    """Problem 79 of KernelBench, level 2, with its constructor:
    ``max(clamp(instance_norm(conv3d(x) * multiplier)) * multiplier)`` over channels."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int, int],
        multiplier_shape: Sequence[int],
        clamp_min: float,
        clamp_max: float,
        *,
        precision: Precision = "auto",
    ) -> None:
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.multiplier = nn.Parameter(torch.randn(tuple(multiplier_shape)))
        self.instance_norm = nn.InstanceNorm3d(out_channels)
        self.clamp_min, self.clamp_max = clamp_min, clamp_max
        conv = {
            "name": "conv",
            "out_channels": out_channels,
            "kernel_size": _axes(kernel_size),
        }
        multiply = {"scale": {"name": "multiplier", "initialisation": "normal"}}
        layers = [
            {"conv3d": conv},
            multiply,
            {"instance_norm": {"name": "instance_norm"}},
            {"clamp": {"min": clamp_min, "max": clamp_max}},
            multiply,
            {"max": {"dim": 1}},
        ]
        self._set_chain(_text(in_channels, layers), precision=precision)
