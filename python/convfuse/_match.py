"""Finds chains in graphs that ``torch.fx`` has traced."""

from __future__ import annotations

import json
import numbers
import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

from . import _native
from ._layers import (
    BATCH_NORMS,
    Refused,
    begins_a_chain,
    given,
    is_plain,
    kind_of,
    of_call,
    of_first,
    of_module,
    own_axes,
)
from ._readers import round_it
from .nn import ChainModule

__all__ = ["Candidate", "candidates"]

_ADDS = (operator.add, operator.iadd, torch.add)
_PRODUCTS = (operator.mul, operator.imul, torch.mul)


@dataclass
class Candidate:
    """Nodes of a graph that are a chain."""

    text: str
    operators: list[str]
    """The layers."""
    modules: list[nn.Module]
    """The modules that it has, the convolution or the norm that it begins with first."""
    axes: int | None
    """How many axes its input has behind the channels; none for any number."""
    sources: list[tuple[nn.Module, str]]
    x: fx.Node
    residuals: list[fx.Node]
    in_place: frozenset[int]
    """Which layers write into what they are given, and so keep its type."""
    rounds: bool
    """Whether under autocast all that read the output round it to 16 bits."""
    nodes: list[fx.Node] = field(repr=False)

    @property
    def start(self) -> fx.Node:
        """The node of the first layer."""
        return self.nodes[0]

    @property
    def last(self) -> fx.Node:
        """The node whose value the chain gives."""
        return self.nodes[-1]

    @property
    def key(self) -> tuple[Any, ...]:
        """The same for chains that are the same layers with the same parameters, wherever they stand."""
        return (self.text, self.in_place, *((id(module), name) for module, name in self.sources))


class _Walk:
    """One chain as it grows from its first layer."""

    def __init__(self, root: nn.Module, start: fx.Node) -> None:
        self.root = root
        self.first = root.get_submodule(start.target)
        self.modules = [self.first]
        self.axes = own_axes(self.first)
        # Of a function with several results, the one that is taken.
        self.item: fx.Node | None = None
        self.nodes = [start]
        self.residuals: list[fx.Node] = []
        self.in_place: set[int] = set()
        self.places: dict[str, tuple[nn.Module, str]] = {}
        self.names: dict[tuple[int, str], str] = {}
        name = self.name(self.first)
        layer, self.in_channels, self.channels = of_first(self.first, name)
        self.layers = [layer]
        self.place(self.first, name)

    def name(self, module: nn.Module, attribute: str = "") -> str:
        """A name of this chain's own, so that the same layers are the same text wherever they stand."""
        return self.names.setdefault((id(module), attribute), f"p{len(self.names)}")

    def place(self, module: nn.Module, name: str) -> None:
        for attribute in ("weight", "bias", "running_mean", "running_var"):
            if getattr(module, attribute, None) is not None:
                self.places[f"{name}.{attribute}"] = (module, attribute)

    def candidates(self) -> Iterator[Candidate]:
        """The chain of the first layer alone, and each longer one that the library takes. A batch norm alone is none."""
        if kind_of(self.first) not in BATCH_NORMS:
            yield self.candidate()
        while True:
            node = self.nodes[-1]
            if len(node.users) != 1:
                return
            (user,) = node.users
            self.append(user, node)
            if len(self.layers) > 1 or kind_of(self.first) not in BATCH_NORMS:
                yield self.candidate()

    def candidate(self) -> Candidate:
        content = {"in_channels": self.in_channels, "layers": self.layers}
        try:
            text = json.dumps(content, default=_number)
            table = [one for one, _, _ in _native.parameters(text)]
        except (TypeError, ValueError):
            raise Refused from None
        return Candidate(
            text,
            [next(iter(layer)) for layer in self.layers],
            list(self.modules),
            self.axes,
            [self.places[one] for one in table],
            self.nodes[0].args[0],
            list(self.residuals),
            frozenset(self.in_place),
            round_it(self.root, self.nodes[-1]),
            list(self.nodes),
        )

    def append(self, user: fx.Node, node: fx.Node) -> None:
        """The layer that ``user`` is, which is given ``node``."""
        if user.op == "call_module" and user.args == (node,) and not user.kwargs:
            module = self.root.get_submodule(user.target)
            if begins_a_chain(module) and own_axes(module) is not None:
                # It takes what has one axis less for what has no batch.
                self.expect_axes(own_axes(module))
            name = self.name(module)
            layer = of_module(module, name)
            if layer is not None and "name" in next(iter(layer.values())):
                self.place(module, name)
            self.modules.append(module)
        elif user.op in ("call_function", "call_method"):
            layer = self.function(user, node)
        else:
            raise Refused
        self.nodes.append(user)
        if self.item is not None:
            self.nodes.append(self.item)
            self.item = None
        if layer is not None:
            self.layers.append(layer)
            operator_name = next(iter(layer))
            if operator_name.endswith(("1d", "2d", "3d")):
                # What a norm takes any number of, a pool behind it takes two or three of.
                self.expect_axes(int(operator_name[-2]))

    def expect_axes(self, axes: int) -> None:
        if self.axes not in (None, axes):
            raise Refused
        self.axes = axes

    def function(self, user: fx.Node, node: fx.Node) -> dict[str, Any] | None:
        target, is_method = user.target, user.op == "call_method"
        if target in _ADDS or (is_method and target in ("add", "add_")):
            return self.add(user, node)
        if target in _PRODUCTS or (is_method and target in ("mul", "mul_")):
            return self.product(user, node)
        if not user.args or user.args[0] is not node:
            raise Refused
        if target is torch.max or (is_method and target == "max"):
            return self.maximum(user)
        if target is F.prelu:
            return self.prelu(user)
        return of_call(user)

    def maximum(self, user: fx.Node) -> dict[str, Any]:
        """A maximum over channels whose indices nobody takes."""
        values = given(user, ["dim", "keepdim"], {"keepdim": False})
        if values != {"dim": 1, "keepdim": False} or len(user.users) != 1:
            raise Refused
        (item,) = user.users
        is_first = item.target is operator.getitem and item.args == (user, 0)
        is_values = item.target is getattr and item.args == (user, "values")
        if not is_first and not is_values:
            raise Refused
        self.item = item
        return {"max": {"dim": 1}}

    def add(self, user: fx.Node, node: fx.Node) -> dict[str, Any]:
        if user.kwargs or len(user.args) != 2:
            raise Refused
        (other,) = [one for one in user.args if one is not node] or [None]
        if not isinstance(other, fx.Node) or other.op == "get_attr":
            raise Refused
        self.write(user, node, (operator.iadd, "add_"))
        self.residuals.append(other)
        return {"add": {"input": f"r{len(self.residuals)}"}}

    def write(self, user: fx.Node, node: fx.Node, writing: tuple[Any, ...]) -> None:
        """Notes whether the next layer is one of those that write into their first argument, which is to be ``node`` then."""
        if user.target in writing:
            if user.args[0] is not node:
                raise Refused
            self.in_place.add(len(self.layers))

    def prelu(self, user: fx.Node) -> dict[str, Any]:
        """A function with slopes that a module has."""
        if user.kwargs or len(user.args) != 2 or not isinstance(user.args[1], fx.Node):
            raise Refused
        if user.args[1].op != "get_attr":
            raise Refused
        module, attribute, value = _attribute(self.root, user.args[1].target)
        if not isinstance(value, torch.Tensor) or value.dim() != 1:
            raise Refused
        name = self.name(module, attribute)
        self.places[f"{name}.weight"] = (module, attribute)
        return {"prelu": {"name": name, "num_parameters": len(value)}}

    def product(self, user: fx.Node, node: fx.Node) -> dict[str, Any]:
        if user.kwargs or len(user.args) != 2:
            raise Refused
        (other,) = [one for one in user.args if one is not node] or [None]
        if not isinstance(other, fx.Node) or other.op != "get_attr":
            raise Refused
        self.write(user, node, (operator.imul, "mul_"))
        module, attribute, value = _attribute(self.root, other.target)
        shape = tuple(value.shape) if isinstance(value, torch.Tensor) else ()
        if self.axes is None:
            raise Refused
        wanted = (self.channels, *[1] * self.axes)
        if shape not in (wanted, (1, *wanted)):
            raise Refused
        name = self.name(module, attribute)
        self.places[name] = (module, attribute)
        return {"scale": {"name": name}}


def _attribute(root: nn.Module, path: str) -> tuple[nn.Module, str, Any]:
    owner, _, name = path.rpartition(".")
    module = root.get_submodule(owner)
    return module, name, getattr(module, name)


# Whose functions write to what they are given if their names or arguments say so.
_OF_VALUES = frozenset({"_operator", "builtins", "math", "operator", "torch", "torchvision"})


def _number(value: Any) -> int | float:
    """A number of NumPy's, which JSON does not know, as one of Python's."""
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise TypeError


def _writes(root: nn.Module, node: fx.Node) -> bool:
    """Whether a node may write to what it is given."""
    if node.op == "call_module":
        return _module_writes(root.get_submodule(node.target))
    if node.op not in ("call_method", "call_function"):
        return False
    if node.kwargs.get("inplace", False) or node.kwargs.get("out") is not None:
        return True
    if node.op == "call_method":
        if node.target.endswith("__"):
            return node.target.startswith(("__i", "__set"))
        return node.target.endswith("_")
    owner, name = getattr(node.target, "__module__", None), getattr(node.target, "__name__", "")
    if owner is not None and owner.partition(".")[0] not in _OF_VALUES:
        # Code of somebody's that is not traced.
        return True
    schema = getattr(node.target, "_schema", None)
    of_operator = node.target in vars(operator).values() and name.startswith("i")
    return of_operator or name.endswith("_") or (schema is not None and schema.is_mutable)


def _module_writes(module: nn.Module) -> bool:
    """The same of a module: of those that are not PyTorch's, and of hooks, nothing is known."""
    if isinstance(module, ChainModule):
        return not is_plain(module)
    return any(
        not is_plain(one)
        or not kind_of(one).__module__.startswith("torch.nn.")
        or bool(getattr(one, "inplace", False))
        for one in module.modules()
    )


def _may_move(root: nn.Module, candidate: Candidate) -> bool:
    """Whether the chain may be computed where its last node is: nothing in between writes to anything."""
    own, node = set(candidate.nodes), candidate.start
    while node is not candidate.last:
        node = node.next
        if node not in own and _writes(root, node):
            return False
    return True


def _from(root: nn.Module, start: fx.Node) -> Iterator[Candidate]:
    try:
        yield from _Walk(root, start).candidates()
    except Refused:
        return


def candidates(root: nn.Module, graph: fx.Graph) -> Iterator[list[Candidate]]:
    """For each convolution and each norm of the graph, the chains that begin with it, the shortest first."""
    for node in graph.nodes:
        if node.op != "call_module" or len(node.args) != 1 or node.kwargs:
            continue
        if begins_a_chain(root.get_submodule(node.target)):
            yield [one for one in _from(root, node) if _may_move(root, one)]
