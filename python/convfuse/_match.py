"""Finds chains in graphs that ``torch.fx`` has traced."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

from . import _native

__all__ = ["Candidate", "candidates"]

_CONVOLUTIONS = {nn.Conv1d: "conv1d", nn.Conv2d: "conv2d", nn.Conv3d: "conv3d"}
_INSTANCE_NORMS = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
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
_ADDS = (operator.add, operator.iadd, torch.add)
_PRODUCTS = (operator.mul, operator.imul, torch.mul)
_CLAMPS = (torch.clamp, torch.clip)


@dataclass
class Candidate:
    """Nodes of a graph that are a chain."""

    text: str
    sources: list[tuple[nn.Module, str]]
    x: fx.Node
    residuals: list[fx.Node]
    nodes: list[fx.Node] = field(repr=False)

    @property
    def start(self) -> fx.Node:
        """The convolution."""
        return self.nodes[0]

    @property
    def last(self) -> fx.Node:
        """The node whose value the chain gives."""
        return self.nodes[-1]

    @property
    def operators(self) -> list[str]:
        """The layers."""
        return [next(iter(layer)) for layer in json.loads(self.text)["layers"]]


class _Refused(Exception):
    """A node is no layer of a chain."""


def _numbers(value: Any) -> Any:
    if isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (tuple, list)) and all(isinstance(one, int) for one in value):
        return list(value)
    raise _Refused


def _finite(value: Any) -> float:
    if isinstance(value, (int, float)) and math.isfinite(value):
        return float(value)
    raise _Refused


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
        _CONVOLUTIONS[type(module)]: {
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
    kind = type(module)
    if kind is nn.GroupNorm:
        groups = {"num_groups": module.num_groups}
        return {"group_norm": {"name": name, **groups, "eps": module.eps, "affine": module.affine}}
    if kind in _INSTANCE_NORMS and not module.track_running_stats:
        return {"instance_norm": {"name": name, "eps": module.eps, "affine": module.affine}}
    if kind in _BATCH_NORMS and not module.training and module.running_mean is not None:
        return {"batch_norm": {"name": name, "eps": module.eps, "affine": module.affine}}
    raise _Refused


def _pool_attributes(kernel, stride, padding, **others: Any) -> dict[str, Any]:
    kernel = _numbers(kernel)
    attributes = {"kernel_size": kernel, "padding": _numbers(padding)}
    attributes["stride"] = _numbers(kernel if stride is None else stride)
    return attributes | others


def _pool(module: nn.Module) -> dict[str, Any]:
    m, kind = module, type(module)
    if kind in _MAX_POOLS and not m.return_indices:
        others = {"dilation": _numbers(m.dilation), "ceil_mode": m.ceil_mode}
        return {_MAX_POOLS[kind]: _pool_attributes(m.kernel_size, m.stride, m.padding, **others)}
    if kind in _AVERAGE_POOLS:
        others = {"ceil_mode": m.ceil_mode, "count_include_pad": m.count_include_pad}
        if m.divisor_override is not None:
            others["divisor_override"] = m.divisor_override
        attributes = _pool_attributes(m.kernel_size, m.stride, m.padding, **others)
        return {_AVERAGE_POOLS[kind]: attributes}
    raise _Refused


def _of_module(module: nn.Module, name: str) -> dict[str, Any] | None:
    """The layer that a module is; nothing where it does nothing at inference."""
    kind = type(module)
    if not is_plain(module):
        raise _Refused
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


def _given(node: fx.Node, names: list[str], defaults: dict[str, Any]) -> dict[str, Any]:
    """Arguments behind the first, by name."""
    if len(node.args) - 1 > len(names) or any(isinstance(a, fx.Node) for a in node.args[1:]):
        raise _Refused
    values = defaults | dict(zip(names, node.args[1:])) | node.kwargs
    values.pop("inplace", None)
    if set(values) - set(names):
        raise _Refused
    return values


def _clamp(node: fx.Node) -> dict[str, Any]:
    bounds = _given(node, ["min", "max"], {})
    bounds = {name: _finite(value) for name, value in bounds.items() if value is not None}
    if not bounds:
        raise _Refused
    return {"clamp": bounds}


def _attribute(root: nn.Module, path: str) -> tuple[nn.Module, str, Any]:
    owner, _, name = path.rpartition(".")
    module = root.get_submodule(owner)
    return module, name, getattr(module, name)


class _Walk:
    """One chain as it grows from its convolution."""

    def __init__(self, root: nn.Module, start: fx.Node) -> None:
        self.root, self.start = root, start
        # Of a function with several results, the one that is taken.
        self.item: fx.Node | None = None
        self.layers: list[dict[str, Any]] = []
        self.nodes: list[fx.Node] = []
        self.residuals: list[fx.Node] = []
        self.places: dict[str, tuple[nn.Module, str]] = {}
        self.names: dict[tuple[int, str], str] = {}

    def name(self, module: nn.Module, attribute: str = "") -> str:
        """A name of this chain's own, so that the same layers are the same text wherever they stand."""
        return self.names.setdefault((id(module), attribute), f"p{len(self.names)}")

    def place(self, module: nn.Module, name: str) -> None:
        for attribute in ("weight", "bias", "running_mean", "running_var"):
            if getattr(module, attribute, None) is not None:
                self.places[f"{name}.{attribute}"] = (module, attribute)

    def candidates(self) -> Iterator[Candidate]:
        """The chain of the convolution alone, and each longer one that the library takes."""
        conv = self.root.get_submodule(self.start.target)
        name = self.name(conv)
        self.layers.append(_convolution(conv, name))
        self.place(conv, name)
        self.nodes.append(self.start)
        while True:
            node = self.nodes[-1]
            if len(node.users) != 1:
                return
            (user,) = node.users
            try:
                self.append(user, node)
            except _Refused:
                return
            text = json.dumps({"in_channels": conv.in_channels, "layers": self.layers})
            try:
                table = [one for one, _, _ in _native.parameters(text)]
            except ValueError:
                return
            yield Candidate(
                text,
                [self.places[one] for one in table],
                self.start.args[0],
                list(self.residuals),
                list(self.nodes),
            )

    def append(self, user: fx.Node, node: fx.Node) -> None:
        """The layer that ``user`` is, which is given ``node``."""
        if user.op == "call_module" and user.args == (node,) and not user.kwargs:
            module = self.root.get_submodule(user.target)
            name = self.name(module)
            layer = _of_module(module, name)
            if layer is not None and "name" in next(iter(layer.values())):
                self.place(module, name)
        elif user.op in ("call_function", "call_method"):
            layer = self.function(user, node)
        else:
            raise _Refused
        self.nodes.append(user)
        if self.item is not None:
            self.nodes.append(self.item)
            self.item = None
        if layer is not None:
            self.layers.append(layer)

    def function(self, user: fx.Node, node: fx.Node) -> dict[str, Any] | None:
        target, is_method = user.target, user.op == "call_method"
        if target in _ADDS or (is_method and target in ("add", "add_")):
            return self.add(user, node)
        if target in _PRODUCTS or (is_method and target in ("mul", "mul_")):
            return self.product(user, node)
        if not user.args or user.args[0] is not node:
            raise _Refused
        if target in _PLAIN_FUNCTIONS or (is_method and target in _PLAIN_METHODS):
            _given(user, [], {})
            return {(_PLAIN_METHODS if is_method else _PLAIN_FUNCTIONS)[target]: {}}
        if target in _ATTRIBUTE_FUNCTIONS:
            name = _ATTRIBUTE_FUNCTIONS[target]
            defaults = _ATTRIBUTES[name][1]
            return {name: _given(user, list(defaults), defaults)}
        if target is F.prelu:
            return self.prelu(user)
        if target in _CLAMPS or (is_method and target in ("clamp", "clamp_", "clip")):
            return _clamp(user)
        if target is F.dropout:
            values = _given(user, ["p", "training"], {"p": 0.5, "training": True})
            if values["training"] is False:
                return None
        if target is F.max_pool2d:
            names = ["kernel_size", "stride", "padding", "dilation", "ceil_mode"]
            values = _given(user, [*names, "return_indices"], {"stride": None, "padding": 0})
            if not values.pop("return_indices", False):
                values["dilation"] = _numbers(values.get("dilation", 1))
                return {"max_pool2d": _pool_attributes(**values)}
        if target is torch.amax or (is_method and target == "amax"):
            values = _given(user, ["dim", "keepdim"], {"keepdim": False})
            if values == {"dim": 1, "keepdim": False}:
                return {"channel_max": {}}
        if target is torch.max or (is_method and target == "max"):
            return self.maximum(user)
        raise _Refused

    def maximum(self, user: fx.Node) -> dict[str, Any]:
        """A maximum over channels whose indices nobody takes."""
        values = _given(user, ["dim", "keepdim"], {"keepdim": False})
        if values != {"dim": 1, "keepdim": False} or len(user.users) != 1:
            raise _Refused
        (item,) = user.users
        is_first = item.target is operator.getitem and item.args == (user, 0)
        is_values = item.target is getattr and item.args == (user, "values")
        if not is_first and not is_values:
            raise _Refused
        self.item = item
        return {"channel_max": {}}

    def add(self, user: fx.Node, node: fx.Node) -> dict[str, Any]:
        if user.kwargs or len(user.args) != 2:
            raise _Refused
        (other,) = [one for one in user.args if one is not node] or [None]
        if not isinstance(other, fx.Node) or other.op == "get_attr":
            raise _Refused
        if user.args[0] is not node and user.target in (operator.iadd, "add_"):
            raise _Refused
        self.residuals.append(other)
        return {"add": {"input": f"r{len(self.residuals)}"}}

    def prelu(self, user: fx.Node) -> dict[str, Any]:
        if user.kwargs or len(user.args) != 2 or not isinstance(user.args[1], fx.Node):
            raise _Refused
        if user.args[1].op != "get_attr":
            raise _Refused
        module, attribute, value = _attribute(self.root, user.args[1].target)
        if not isinstance(value, torch.Tensor) or value.dim() != 1:
            raise _Refused
        name = self.name(module, attribute)
        self.places[f"{name}.weight"] = (module, attribute)
        return {"prelu": {"name": name, "num_parameters": len(value)}}

    def product(self, user: fx.Node, node: fx.Node) -> dict[str, Any]:
        if user.kwargs or len(user.args) != 2:
            raise _Refused
        (other,) = [one for one in user.args if one is not node] or [None]
        if not isinstance(other, fx.Node) or other.op != "get_attr":
            raise _Refused
        if user.args[0] is not node and user.target in (operator.imul, "mul_"):
            raise _Refused
        module, attribute, value = _attribute(self.root, other.target)
        channels = self.root.get_submodule(self.start.target).out_channels
        axes = int(next(iter(self.layers[0]))[-2])
        shape = tuple(value.shape) if isinstance(value, torch.Tensor) else ()
        wanted = (channels, *[1] * axes)
        if shape not in (wanted, (1, *wanted)):
            raise _Refused
        name = self.name(module, attribute)
        self.places[name] = (module, attribute)
        return {"scale": {"name": name}}


def _writes(root: nn.Module, node: fx.Node) -> bool:
    """Whether a node may write to what it is given."""
    if node.op == "call_method":
        return node.target.endswith("_") and not node.target.endswith("__")
    if node.op == "call_module":
        return bool(getattr(root.get_submodule(node.target), "inplace", False))
    name = getattr(node.target, "__name__", "")
    of_operator = node.target in vars(operator).values() and name.startswith("i")
    return of_operator or name.endswith("_") or bool(node.kwargs.get("inplace", False))


def _may_move(root: nn.Module, candidate: Candidate) -> bool:
    """Whether the chain may be computed where its last node is: nothing in between writes to anything."""
    own, node = set(candidate.nodes), candidate.start
    while node is not candidate.last:
        node = node.next
        if node not in own and _writes(root, node):
            return False
    return True


def candidates(root: nn.Module, graph: fx.Graph) -> Iterator[list[Candidate]]:
    """For each convolution of the graph, the chains that begin with it, the shortest first."""
    for node in graph.nodes:
        if node.op != "call_module" or len(node.args) != 1 or node.kwargs:
            continue
        module = root.get_submodule(node.target)
        if type(module) not in _CONVOLUTIONS or not is_plain(module):
            continue
        if isinstance(module.padding, str) and module.padding not in ("same", "valid"):
            continue
        try:
            found = _Walk(root, node).candidates()
            yield [one for one in found if _may_move(root, one)]
        except _Refused:
            continue
