"""Modules that are fused from the start.

They are ordinary modules of PyTorch: their parameters lie where PyTorch's own layers have them, so that ``state_dict``, ``to``,
``deepcopy`` and ``pickle`` are what they are there.
"""

from __future__ import annotations

import json
import secrets
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.modules import module as _module

from . import _native
from ._chain import Parsed, parsed
from .ops import _Run, _run

__all__ = [
    "Chain",
    "ChainModule",
    "Conv2dGroupNormScaleMaxPoolClamp",
    "Conv3dMultiplyInstanceNormClampMultiplyMax",
]

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

# Hooks of all modules of the process.
_HOOKS = (
    _module._global_forward_pre_hooks,
    _module._global_forward_hooks,
    _module._global_backward_pre_hooks,
    _module._global_backward_hooks,
)

_PRECISIONS = ("auto", "accurate", "fast")

# Norms that autocast computes in float32, and whose output it leaves so, and what it gives 16 bits to; all else keeps what it is given.
_WIDENED = frozenset({"group_norm", "layer_norm"})
_NARROWED = frozenset({"conv1d", "conv2d", "conv3d", "prelu"})


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
    ) -> None:
        if precision not in _PRECISIONS:
            raise ValueError(f"convfuse: precision is {precision!r}, must be one of {_PRECISIONS}")
        self.chain = chain
        self.sources = tuple(sources)
        self.precision = precision
        operators = [operator for operator, _ in parsed(chain).layers]
        self.multiplies = any(operator.startswith("conv") for operator in operators)
        deciding = [operator for operator in operators if operator in _WIDENED | _NARROWED]
        self.widens, self.narrows = (
            deciding[-1:] != [] and deciding[-1] in some for some in (_WIDENED, _NARROWED)
        )
        self._begin()

    def _begin(self) -> None:
        # A number that no other process has: compiled programs are kept beyond this one.
        self.owner = secrets.randbits(62)
        self._places: tuple[tuple[dict[str, Any], str], ...] | None = None
        _native.begin(self.owner, self.chain)
        weakref.finalize(self, _native.forget, self.owner).atexit = False

    def _find_places(self) -> tuple[tuple[dict[str, Any], str], ...]:
        # The dictionaries stay those of their modules. Not found at once: a module that is being copied has none yet.
        self._places = tuple(
            (module._parameters if name in module._parameters else module._buffers, name)
            for module, name in self.sources
        )
        return self._places

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["owner"], state["_places"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def parameters(self) -> list[torch.Tensor]:
        """The parameters as they are now, in the order of the chain's table."""
        return [getattr(module, name) for module, name in self.sources]

    def release(self) -> None:
        """Gives back what is kept of the parameters; it is made again when it is needed."""
        _native.release(self.owner)

    def __call__(self, x: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
        # Every line here is part of what a call costs the host.
        if _is_compiling():
            return self._any(x, self.parameters(), inputs)
        places = self._places or self._find_places()
        parameters = [place[name] for place, name in places]
        if type(x) is not torch.Tensor or _is_any_autocast_enabled() or _is_grad_enabled():
            return self._any(x, parameters, inputs)
        # The chain itself is known by the number.
        return _run_eagerly(x, parameters, inputs, "", self.owner, self._is_fast())

    def _any(
        self, x: torch.Tensor, parameters: list[torch.Tensor], inputs: tuple[torch.Tensor, ...]
    ) -> torch.Tensor:
        """The output under whatever holds: compilation, autocast, the recording of gradients."""
        kind = x.device.type
        if torch.is_autocast_enabled(kind):
            return self._autocast(kind, x, parameters, inputs)
        return self._run(x, parameters, inputs, self._is_fast())

    def _is_fast(self) -> bool:
        precision = self.precision
        return self._allows_tf32() if precision == "auto" else precision == "fast"

    def _autocast(self, kind, x, parameters, inputs):
        """What the layers would give under autocast: convolutions with operands of 16 bits, and float32 behind a norm that is
        computed in it, as group norms are on a GPU."""
        dtype, widens = torch.get_autocast_dtype(kind), self.widens and kind == "cuda"
        with torch.autocast(kind, enabled=False):
            if widens and (x.dtype is torch.float32 or not self.multiplies):
                # Operands of 11 bits, and nothing has to be converted before or behind.
                return self._run(x.float(), parameters, [one.float() for one in inputs], True)
            if not self.multiplies:
                y = self._run(x, parameters, inputs, False)
                return y.to(dtype) if self.narrows and kind == "cuda" else y
            y = self._run(x.to(dtype), parameters, [one.to(dtype) for one in inputs], False)
            return y.float() if widens else y

    def _run(self, x, parameters, inputs, fast):
        if torch.is_grad_enabled():
            tensors = (*parameters, *inputs)
            if x.requires_grad or any([tensor.requires_grad for tensor in tensors]):
                return _Run.apply(self.chain, self.owner, fast, len(parameters), x, *tensors)
        return _run(x, parameters, inputs, self.chain, self.owner, fast)


class ChainModule(nn.Module):
    """A module that computes a chain. Subclasses make their parameters and then call :meth:`_set_chain`."""

    _runner: Runner

    def _set_chain(
        self, chain: str, paths: Mapping[str, str] | None = None, precision: Precision = "auto"
    ) -> None:
        """``paths`` says where the parameters of the chain are that lie under other names here."""
        sources = []
        for name in parsed(chain).names:
            path, _, attribute = (paths or {}).get(name, name).rpartition(".")
            sources.append((self.get_submodule(path), attribute))
        self._runner = Runner(chain, sources, precision)

    @property
    def chain(self) -> str:
        """The chain in JSON, as ``convfuse explain`` takes it in a file."""
        return self._runner.chain

    @property
    def precision(self) -> Precision:
        """How float32 is multiplied: ``"accurate"``, ``"fast"`` (factors of 11 bits, as tf32 has), or ``"auto"``: fast where the caller
        allows tf32 in matrix products, by ``torch.set_float32_matmul_precision("high")`` or ``torch.backends.cuda.matmul``. The setting for
        convolutions, which allows it unless it is told not to, counts in :func:`convfuse.fuse` alone."""
        return self._runner.precision

    @precision.setter
    def precision(self, precision: Precision) -> None:
        if precision not in _PRECISIONS:
            raise ValueError(f"convfuse: precision is {precision!r}, must be one of {_PRECISIONS}")
        self._runner.precision = precision

    def _apply(self, fn, recurse=True):
        self._runner.release()
        return super()._apply(fn, recurse)

    def __call__(self, x, *inputs, **named):
        # What PyTorch's own does where there is nothing to do but the call itself, in less time.
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
        """The output of the chain for ``x`` and the residuals that it adds, in the order of the chain."""
        return self._runner(x, *inputs)


class Chain(ChainModule):
    """Any chain of layers that the library knows, with parameters of its own under the names that the layers have.

    ``layers`` is a list of dictionaries with one key each, the operator, whose value has the attributes that are not PyTorch's
    defaults, as in a chain's file; ``Chain.from_json`` takes the file's content. Parameters are initialised as PyTorch's layers
    initialise theirs, in the order of the layers.

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
        content = {"in_channels": in_channels, "layers": [dict(layer) for layer in layers]}
        text = json.dumps(content)
        _make_parameters(self, parsed(text), device, dtype)
        self._set_chain(text, precision=precision)

    @classmethod
    def from_json(cls, text: str, **options: Any) -> Chain:
        """The chain in the text of a file, which ``convfuse explain --chain`` and ``convfuse verify --chain`` take as well."""
        content = json.loads(text)
        return cls(content["in_channels"], content["layers"], **options)

    def extra_repr(self) -> str:
        names = " ".join(operator for operator, _ in parsed(self.chain).layers)
        return f"{names}, precision={self.precision!r}"


def _make_parameters(
    module: nn.Module,
    chain: Parsed,
    device: torch.device | str | None,
    dtype: torch.dtype | None,
) -> None:
    shapes = {name: shape for name, shape, _ in chain.parameters}
    for name, shape, how in chain.parameters:
        path, _, attribute = name.rpartition(".")
        owner = module
        for part in path.split(".") if path else ():
            if part not in owner._modules:
                owner.add_module(part, nn.Module())
            owner = owner._modules[part]
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
        else:
            owner.register_parameter(attribute, nn.Parameter(value))


def _axes(value: int | Sequence[int]) -> int | list[int]:
    return value if isinstance(value, int) else [int(one) for one in value]


class Conv2dGroupNormScaleMaxPoolClamp(ChainModule):
    """Problem 85 of KernelBench, level 2, with its constructor: ``clamp(max_pool2d(group_norm(conv2d(x)) * scale))``."""

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
        chain = json.dumps({"in_channels": in_channels, "layers": layers})
        self._set_chain(chain, precision=precision)


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
            {"channel_max": {}},
        ]
        chain = json.dumps({"in_channels": in_channels, "layers": layers})
        self._set_chain(chain, precision=precision)
