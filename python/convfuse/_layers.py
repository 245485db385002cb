"""Layers of the library's networks from nodes of ATen graphs, for export and for networks within PyTorch's
graphs.

:class:`Layers` maps each node, sometimes with the following ones, to layers after a value that is already
known. A subclass says which nodes may be parameters, what these are called, and what happens to nodes without
a layer.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from ._table import POINTWISE, REDUCTIONS, ROWS, SPLITS, WHOLE, Path, Refused
from ._table import gate, operand, part, readers, reduces_to_no_channels, value

__all__ = ["Layers"]

aten = torch.ops.aten

_ADAPTIVE = (aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default)

_ALONG = frozenset({aten.view.default, aten.clone.default, aten.alias.default, *POINTWISE})


class Layers:
    """The layers of a network under construction."""

    def __init__(self) -> None:
        self.values: dict[fx.Node, str] = {}
        """The names of the values of nodes."""
        self.further: set[fx.Node] = set()
        """Inputs behind the first."""
        self.layers: list[dict[str, Any]] = []
        self.taken: set[str] = set()
        """All names of values and parameters."""

    def must_fit(self, path: Path) -> None:
        """Refuses the layers of a path that the network may not have."""
        raise NotImplementedError

    def prefix(self, given: dict[str, fx.Node], path: Path, layer: str) -> str:
        """The name of a layer's parameters, which are ``given`` by suffix."""
        raise NotImplementedError

    def base(self, node: fx.Node, layer: str) -> str:
        """What the value of a layer of this node is called, as long as the name is free."""
        raise NotImplementedError

    def refuse(self, node: fx.Node, why: str) -> None:
        """Records that a node has no layer, and continues after it."""
        raise NotImplementedError

    def fresh(self, name: str) -> str:
        """An unused name: this one, or with a number."""
        name = name or "y"
        found, number = name, 1
        while found in self.taken:
            number += 1
            found = f"{name}.{number}"
        self.taken.add(found)
        return found

    def add(self, node: fx.Node) -> None:
        """Adds the layers of a node, perhaps with some of the following nodes."""
        if node.target in SPLITS:
            # Its results are the layers.
            return
        if node.target is operator.getitem and node.args[0].target not in SPLITS:
            # A result of a refused node.
            self.values[node] = self.values[node.args[0]]
            return
        try:
            path = self._path(node)
            layers = [self._renamed(layer, path) for layer in path.layers]
        except Refused as refused:
            self.refuse(node, str(refused))
            return
        self._append(path, layers)
        for one in path.nodes:
            self.values[one] = self.values[path.last]
        self._gated(path.last)

    def _gated(self, x: fx.Node) -> None:
        """Adds a gate layer if the readers of ``x`` are a function of it and the product with that
        function."""
        if len(readers(x)) != 2:
            return
        path = Path(x)
        try:
            gate(path)
            self.must_fit(path)
        except Refused:
            return
        self._append(path, path.layers)
        for one in path.nodes:
            self.values[one] = self.values[path.last]

    def _path(self, node: fx.Node) -> Path:
        """The layers of a node after the first operand for which there are any."""
        reasons: list[Refused] = []
        split = node.target is operator.getitem
        for x in (node.args[0] if split else node).all_input_nodes:
            if x not in self.values or x in self.further:
                continue
            try:
                return self._behind(node, x)
            except Refused as refused:
                reasons.append(refused)
        raise reasons[0] if reasons else Refused(
            "of further inputs alone, which a network can only add to other values"
        )

    def _behind(self, node: fx.Node, x: fx.Node) -> Path:
        """The layers of a node after its operand ``x``."""
        rows = self._rows(node)
        for row in rows:
            try:
                return self._by(row, node, x)
            except Refused:
                if row is rows[-1]:
                    raise
        raise Refused("the library has no such layer")

    def _by(self, row: Any, node: fx.Node, x: fx.Node) -> Path:
        """The layers that a row of the table gives for a node after its operand ``x``, including a
        convolution after padding."""
        path = Path(x)
        row(node, path)
        while path.padding is not None:
            users = readers(path.last)
            if len(users) != 1 or users[0].target is not aten.convolution.default:
                raise Refused("padding without a convolution behind it")
            ROWS[users[0].target](users[0], path)
        if value(path.last).dtype is not path.dtype:
            raise Refused(f"from {path.dtype} to {value(path.last).dtype}")
        shape = value(path.last).shape
        if path.layers and reduces_to_no_channels(path.layers[-1]) and _has_channels(path.last) and all(type(one) is int for one in shape[1:]):
            # The next axis becomes the channels.
            path.add({"reshape": {"shape": list(shape[1:])}}, [])
        self.must_fit(path)
        return path

    def _rows(self, node: fx.Node) -> list[Any]:
        """The rows of the table for a node, to be tried in order."""
        target = node.target
        if target is operator.getitem:
            return [part]
        if target is aten._native_batch_norm_legit.no_stats and value(operand(node)).shape[0] == 1:
            raise Refused("a norm by statistics of one sample alone: give an example of two samples")
        if target in _ADAPTIVE and _is_of_one_size(node):
            return [lambda one, path: path.follow([one])]
        expanded = any(one.target is aten.expand.default for one in node.all_input_nodes)
        tables = (WHOLE,) if expanded else (ROWS, WHOLE)
        return [table[target] for table in tables if target in table]

    def _renamed(self, layer: dict[str, Any], path: Path) -> dict[str, Any]:
        """A layer with the network's names of its parameters and operands."""
        ((name, attributes),) = layer.items()
        own = attributes.get("name")
        if own is None:
            given = [attributes["input"]] if "input" in attributes else attributes.get("inputs", [])
            others = [self._input(one, path) for one in given]
            if "inputs" in attributes:
                return {name: attributes | {"inputs": others}}
            return {name: attributes | dict(zip(["input"], others))}
        parameters = path.parameters.items()
        given = {key.removeprefix(own): one for key, one in parameters if key == own or key.startswith(f"{own}.")}
        attributes = attributes | {"name": self.prefix(given, path, name)}
        if name == "scale":
            name, attributes["shape"] = "mul", list(value(given[""]).shape)
        if "shape" in attributes:
            # Layers that share a parameter must agree on its initialisation.
            attributes["initialisation"] = "ones"
        return {name: attributes}

    def _input(self, name: str, path: Path) -> str:
        """The network's name of a further input of a path, in the shape that its layer takes."""
        node = path.inputs[int(name.removeprefix("r"))]
        before, shape = self.values[node], path.reshaped.get(name)
        if shape is None:
            return before
        now = self.fresh(self.base(path.nodes[0], "reshape"))
        self.layers.append({"name": now, "input": before, "layer": {"reshape": {"shape": shape}}})
        return now

    def _append(self, path: Path, layers: list[dict[str, Any]]) -> None:
        """Adds the layers of a path after the value that it begins with."""
        before = self.values[path.x]
        for layer in layers:
            (name,) = layer
            now = self.fresh(self.base(path.nodes[0], name))
            self.layers.append({"name": now, "input": before, "layer": layer})
            before = now
        self.values[path.last] = before


def _has_channels(node: fx.Node) -> bool:
    """Whether layers that may need channels read a value, or functions of it."""
    without = {one for one in REDUCTIONS if one is not aten.mean.dim}
    return any(
        _has_channels(one) if one.target in POINTWISE else one.op != "output" and one.target not in without
        for one in readers(node)
    )


def _is_of_one_size(node: fx.Node) -> bool:
    """Whether an adaptive pool is an identity, as before VGG's classifier: its output has its input's size,
    and only feeds a linear layer, which refuses other sizes."""
    if list(node.args[1]) != list(value(node.args[0]).shape[2:]):
        return False
    while True:
        users = readers(node)
        if len(users) != 1:
            return False
        if users[0].target is aten.linear.default:
            return users[0].args[0] is node
        if users[0].target not in _ALONG:
            return False
        (node,) = users
