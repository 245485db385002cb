"""Which layers of a chain PyTorch's modules and functions are."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

__all__ = [
    "BATCH_NORMS",
    "CONVOLUTIONS",
    "Refused",
    "begins_a_chain",
    "given",
    "is_plain",
    "kind_of",
    "of_call",
    "of_first",
    "of_module",
    "own_axes",
]

CONVOLUTIONS = {nn.Conv1d: "conv1d", nn.Conv2d: "conv2d", nn.Conv3d: "conv3d"}
INSTANCE_NORMS = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_MAX_POOLS = {nn.MaxPool2d: "max_pool2d", nn.MaxPool3d: "max_pool3d"}
_AVERAGE_POOLS = {nn.AvgPool2d: "avg_pool2d", nn.AvgPool3d: "avg_pool3d"}
_IN_INFERENCE_NOTHING = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)

# Functions of values alone: by module, by function, by the name of a method of tensors.
_PLAIN = {
    "relu": (nn.ReLU, (F.relu, torch.relu, torch.relu_, F.relu_), ("relu", "relu_")),
    "silu": (nn.SiLU, (F.silu,), ()),
    "sigmoid": (nn.Sigmoid, (torch.sigmoid, F.sigmoid), ("sigmoid", "sigmoid_")),
    "tanh": (nn.Tanh, (torch.tanh, F.tanh), ("tanh", "tanh_")),
    "hardswish": (nn.Hardswish, (F.hardswish,), ()),
    "mish": (nn.Mish, (F.mish,), ()),
}
_PLAIN_FUNCTIONS = {f: name for name, (_, functions, _) in _PLAIN.items() for f in functions}
_PLAIN_METHODS = {m: name for name, (_, _, methods) in _PLAIN.items() for m in methods}
_PLAIN_MODULES = {module: name for name, (module, _, _) in _PLAIN.items()}

# Attributes of functions, with their defaults, in the order in which they are given by position.
_ATTRIBUTES = {
    "leaky_relu": (F.leaky_relu, {"negative_slope": 0.01}),
    "gelu": (F.gelu, {"approximate": "none"}),
    "elu": (F.elu, {"alpha": 1.0}),
    "softplus": (F.softplus, {"beta": 1.0, "threshold": 20.0}),
}
_ATTRIBUTE_FUNCTIONS = {function: name for name, (function, _) in _ATTRIBUTES.items()}
_ATTRIBUTE_MODULES = {
    nn.LeakyReLU: "leaky_relu",
    nn.GELU: "gelu",
    nn.ELU: "elu",
    nn.Softplus: "softplus",
}
_CLAMPS = (torch.clamp, torch.clip)


class Refused(Exception):
    """A node is no layer of a chain."""


def _numbers(value: Any) -> Any:
    if isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (tuple, list)) and all(isinstance(one, int) for one in value):
        return list(value)
    raise Refused


def _finite(value: Any) -> float:
    if isinstance(value, (int, float)) and math.isfinite(value):
        return float(value)
    raise Refused


def kind_of(module: nn.Module) -> type:
    """The type of a module, of one that is fused the type that it was."""
    return getattr(type(module), "_convfuse_kind", type(module))


def begins_a_chain(module: nn.Module) -> bool:
    """Whether it is of the kinds that chains begin with: convolutions and norms."""
    kind = kind_of(module)
    return kind in (*CONVOLUTIONS, nn.GroupNorm, *INSTANCE_NORMS, *BATCH_NORMS)


def own_axes(module: nn.Module) -> int | None:
    """How many axes behind the channels a first layer is for; none where it takes any number."""
    kind = kind_of(module)
    if kind in (nn.GroupNorm, nn.BatchNorm1d):
        return None
    return int(kind.__name__[-2])


def is_plain(module: nn.Module) -> bool:
    """Whether a layer does what its type says: nobody looks at or changes what goes in and out."""
    hooks = (
        module._forward_hooks,
        module._forward_pre_hooks,
        module._backward_hooks,
        module._backward_pre_hooks,
    )
    return not any(hooks) and "forward" not in module.__dict__


def _convolution(module: nn.Module, name: str) -> dict[str, Any]:
    return {
        CONVOLUTIONS[kind_of(module)]: {
            "name": name,
            "out_channels": module.out_channels,
            "kernel_size": _numbers(module.kernel_size),
            "stride": _numbers(module.stride),
            "padding": _numbers(module.padding),
            "padding_mode": module.padding_mode,
            "dilation": _numbers(module.dilation),
            "groups": module.groups,
            "bias": module.bias is not None,
        }
    }


def _norm(module: nn.Module, name: str) -> dict[str, Any]:
    kind = kind_of(module)
    if kind not in (nn.GroupNorm, *INSTANCE_NORMS, *BATCH_NORMS):
        raise Refused
    affine = module.weight is not None
    if affine != (module.bias is not None):
        # One was taken away. Chains have both, or none.
        raise Refused
    attributes = {"name": name, "eps": module.eps, "affine": affine}
    if kind is nn.GroupNorm:
        return {"group_norm": attributes | {"num_groups": module.num_groups}}
    if kind in INSTANCE_NORMS and not module.track_running_stats:
        return {"instance_norm": attributes}
    if kind in BATCH_NORMS and not module.training and module.running_mean is not None:
        return {"batch_norm": attributes}
    raise Refused


def _pool_attributes(kernel_size, stride, padding, **others: Any) -> dict[str, Any]:
    kernel_size = _numbers(kernel_size)
    attributes = {"kernel_size": kernel_size, "padding": _numbers(padding)}
    attributes["stride"] = _numbers(kernel_size if stride is None else stride)
    return attributes | others


def _pool(module: nn.Module) -> dict[str, Any]:
    m, kind = module, kind_of(module)
    if kind in _MAX_POOLS and not m.return_indices:
        others = {"dilation": _numbers(m.dilation), "ceil_mode": m.ceil_mode}
        return {_MAX_POOLS[kind]: _pool_attributes(m.kernel_size, m.stride, m.padding, **others)}
    if kind in _AVERAGE_POOLS:
        others = {"ceil_mode": m.ceil_mode, "count_include_pad": m.count_include_pad}
        if m.divisor_override is not None:
            others["divisor_override"] = m.divisor_override
        attributes = _pool_attributes(m.kernel_size, m.stride, m.padding, **others)
        return {_AVERAGE_POOLS[kind]: attributes}
    raise Refused


def of_module(module: nn.Module, name: str) -> dict[str, Any] | None:
    """The layer that a module is; nothing where it does nothing at inference."""
    kind = kind_of(module)
    if not is_plain(module):
        raise Refused
    if kind in _IN_INFERENCE_NOTHING and (kind is nn.Identity or not module.training):
        return None
    if kind in _PLAIN_MODULES:
        return {_PLAIN_MODULES[kind]: {}}
    if kind in _ATTRIBUTE_MODULES:
        operator_name = _ATTRIBUTE_MODULES[kind]
        names = _ATTRIBUTES[operator_name][1]
        return {operator_name: {one: getattr(module, one) for one in names}}
    if kind in (nn.Hardtanh, nn.ReLU6):
        return {"clamp": {"min": float(module.min_val), "max": float(module.max_val)}}
    if kind is nn.PReLU:
        return {"prelu": {"name": name, "num_parameters": module.num_parameters}}
    if kind in _MAX_POOLS or kind in _AVERAGE_POOLS:
        return _pool(module)
    return _norm(module, name)


def of_first(module: nn.Module, name: str) -> tuple[dict[str, Any], int, int]:
    """The layer that a convolution or a norm is as the first one, and how many channels it takes and gives."""
    if not is_plain(module):
        raise Refused
    if kind_of(module) in CONVOLUTIONS:
        return _convolution(module, name), module.in_channels, module.out_channels
    channels = module.num_channels if kind_of(module) is nn.GroupNorm else module.num_features
    return _norm(module, name), channels, channels


def given(node: fx.Node, names: list[str], defaults: dict[str, Any]) -> dict[str, Any]:
    """Arguments behind the first, by name."""
    values = (*node.args[1:], *node.kwargs.values())
    if len(node.args) - 1 > len(names) or any(isinstance(one, fx.Node) for one in values):
        raise Refused
    values = defaults | dict(zip(names, node.args[1:])) | node.kwargs
    values.pop("inplace", None)
    if set(values) - set(names):
        raise Refused
    return values


def _clamp(node: fx.Node) -> dict[str, Any]:
    bounds = given(node, ["min", "max"], {})
    bounds = {name: _finite(value) for name, value in bounds.items() if value is not None}
    if not bounds:
        raise Refused
    return {"clamp": bounds}


def of_call(node: fx.Node) -> dict[str, Any] | None:
    """The layer that a call of a function or a method is, of the first argument alone; nothing where it does nothing at inference."""
    target, is_method = node.target, node.op == "call_method"
    if target in _PLAIN_FUNCTIONS or (is_method and target in _PLAIN_METHODS):
        given(node, [], {})
        return {(_PLAIN_METHODS if is_method else _PLAIN_FUNCTIONS)[target]: {}}
    if target in _ATTRIBUTE_FUNCTIONS:
        name = _ATTRIBUTE_FUNCTIONS[target]
        defaults = _ATTRIBUTES[name][1]
        return {name: given(node, list(defaults), defaults)}
    if target in _CLAMPS or (is_method and target in ("clamp", "clamp_", "clip")):
        return _clamp(node)
    if target is F.dropout:
        values = given(node, ["p", "training"], {"p": 0.5, "training": True})
        if values["training"] is False:
            return None
    if target is F.max_pool2d:
        names = ["kernel_size", "stride", "padding", "dilation", "ceil_mode"]
        values = given(node, [*names, "return_indices"], {"stride": None, "padding": 0})
        if not values.pop("return_indices", False):
            values["dilation"] = _numbers(values.get("dilation", 1))
            return {"max_pool2d": _pool_attributes(**values)}
    if target is torch.amax or (is_method and target == "amax"):
        values = given(node, ["dim", "keepdim"], {"keepdim": False})
        if values == {"dim": 1, "keepdim": False}:
            return {"max": {"dim": 1}}
    raise Refused
