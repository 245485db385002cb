"""Networks within ATen graphs: parts of a graph that become one call of the operator with many layers.

A call of a region costs the host as much as a few launches. A network is one call however many layers it has,
and its intermediate values are the library's, which gives them a layout and reuses their memory.
"""

from __future__ import annotations

import json
import logging
import operator
from collections.abc import Collection, Iterable, Iterator, Sequence

import torch
from torch import fx

from . import _native
from ._layers import Layers
from ._precision import matrix_products_allow_tf32
from ._regions import Region, has_channels_last, hints
from ._report import Entry
from ._table import FIRST, PRODUCTS, ROWS, SPLITS, TYPES, WHOLE, Path, Refused, arguments, is_read_until, readers, value

__all__ = ["networks"]

aten = torch.ops.aten

_log = logging.getLogger("convfuse")

# Operators whose first operand is a value, not a parameter. Values are what follows from their outputs.
_OF_VALUES = frozenset({*FIRST, *(one for one in WHOLE if "pool" in str(one) or "upsample" in str(one))})

# Linear maps. PyTorch has its own setting for the products of float32 matrices.
_LINEAR = (aten.linear.default, *PRODUCTS)

# Operands that are parameters, by operator.
_PARAMETERS = ("weight", "bias", "running_mean", "running_var")

# Arithmetic takes a further input of the network; other layers take only values of it.
_TAKES_INPUTS = ("add", "sub", "mul", "div")

# The number of tries to leave out nodes that the network cannot have.
_TRIES = 16


def networks(
    graph: fx.Graph, regions: Collection[Region], fast: bool, cpu: bool
) -> list[Region]:
    """The networks of a tidy graph that have the nodes of several regions, and at least two convolutions or
    norms. ``fast`` is the math mode of float32 convolutions."""
    if len(regions) < 2:
        return []
    found, refused = [], set()
    candidates = _candidates(graph, fast, cpu)
    for _ in range(_TRIES):
        found, more = [], set()
        for part in _parts(graph, candidates - refused):
            if sum(node.target in FIRST for node in part) < 2:
                continue
            try:
                found.append(_Network(part).build())
            except _Impossible as impossible:
                more |= impossible.nodes
            except Exception:  # noqa: BLE001  networks are not needed for a result
                _log.warning("a part of a graph is no network because of a fault", exc_info=True)
                more |= set(part)
        if not more:
            break
        refused |= more
    else:
        return []
    return [one for one in found if _regions_within(one, regions) > 1]


def _regions_within(network: Region, regions: Collection[Region]) -> int:
    own = set(network.nodes)
    return sum(own.issuperset(one.nodes) for one in regions)


def _known(node: fx.Node) -> torch.Tensor | None:
    """A node's value, or the first of its results."""
    known = node.meta.get("val")
    known = known[0] if isinstance(known, (tuple, list)) and known else known
    return known if isinstance(known, torch.Tensor) else None


def _candidates(graph: fx.Graph, fast: bool, cpu: bool) -> set[fx.Node]:
    """The nodes that may be layers: those of values for which the table has a row."""
    linear_is_alike = fast is matrix_products_allow_tf32()
    of_parameters = _of_parameters(graph)
    values: set[fx.Node] = set()
    found: set[fx.Node] = set()
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        is_first = node.target in _OF_VALUES
        if not is_first and not any(one in values for one in node.all_input_nodes):
            continue
        values.add(node)
        known = _known(node)
        if node in of_parameters or known is None or known.dtype not in TYPES:
            continue
        if known.device.type != "cuda" and not (cpu and known.device.type == "cpu"):
            continue
        if known.dim() < 2 or any(type(one) is not int or one == 0 for one in known.shape[1:]):
            continue
        if node.target is operator.getitem:
            is_layer = node.args[0] in found
        elif node.target in _LINEAR:
            is_layer = known.dtype is not torch.float32 or linear_is_alike
        else:
            is_layer = any(node.target in one for one in (ROWS, WHOLE, SPLITS))
        if is_layer:
            found.add(node)
    return found


def _of_parameters(graph: fx.Graph) -> set[fx.Node]:
    """The nodes that parameters of layers are computed from."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        given = arguments(node)
        found.update(one for name in _PARAMETERS if isinstance(one := given.get(name), fx.Node))
    for node in reversed(graph.nodes):
        if node in found:
            found.update(node.all_input_nodes)
    return found


def _parts(graph: fx.Graph, candidates: Collection[fx.Node]) -> Iterator[list[fx.Node]]:
    """Connected parts of the candidates, in the order of the graph, each without a way from it through other
    nodes back into it.

    A node has one more *level* than the largest of its operands that are no candidates, so that candidates of
    one level have no such way between them.
    """
    level: dict[fx.Node, int] = {}
    leader: dict[fx.Node, fx.Node] = {}

    def led(node: fx.Node) -> fx.Node:
        while leader[node] is not node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    for node in graph.nodes:
        before = node.all_input_nodes
        if node not in candidates:
            level[node] = max((level[one] for one in before), default=0)
            continue
        level[node] = max((level[one] + (one not in candidates) for one in before), default=1)
        leader[node] = node
        for one in before:
            if one in leader and level[one] == level[node]:
                leader[led(node)] = led(one)
    parts: dict[fx.Node, list[fx.Node]] = {}
    for node in leader:
        parts.setdefault(led(node), []).append(node)
    yield from parts.values()


class _Impossible(Exception):
    """A network cannot have these nodes."""

    def __init__(self, nodes: Iterable[fx.Node]) -> None:
        super().__init__()
        self.nodes = set(nodes)


class _Network(Layers):
    """A part of a graph as a network."""

    def __init__(self, part: Sequence[fx.Node]) -> None:
        super().__init__()
        self.part, self.own = part, set(part)
        self.inputs = [part[0].all_input_nodes[0]]
        self.values[self.inputs[0]] = self.fresh("x")
        self.parameters: dict[str, fx.Node] = {}
        self.renewed: dict[fx.Node, fx.Node] = {}
        self.ends: set[fx.Node] = set()
        """The nodes that have the values of layers."""
        self.refused: set[fx.Node] = set()

    def must_fit(self, path: Path) -> None:
        if not self.own.issuperset(path.nodes):
            raise Refused("it ends behind the network")
        if any(one in self.own or one in self.values for one in path.parameters.values()):
            raise Refused("a parameter that depends on the input")
        given = [one for one in path.inputs[1:] if one not in self.values]
        if given and any(one not in _TAKES_INPUTS for one in path.operators):
            raise Refused("a further input that is not added")
        if any(one in self.own for one in given):
            raise Refused("a value that is no layer's")
        for one in given:
            self.values[one] = self.fresh(f"r{len(self.inputs)}")
            self.inputs.append(one)
            self.further.add(one)
        self.renewed |= path.renewed
        self.ends.add(path.last)

    def base(self, node: fx.Node, layer: str) -> str:
        return f"v{len(self.layers)}"

    def prefix(self, given: dict[str, fx.Node], path: Path, layer: str) -> str:
        name = self.fresh(f"p{len(self.parameters)}")
        self.parameters |= {name + suffix: one for suffix, one in given.items()}
        return name

    def refuse(self, node: fx.Node, why: str) -> None:
        self.refused.add(node)
        self.values[node] = self.fresh("refused")

    def build(self) -> Region:
        """The network. Raises :class:`_Impossible` if it cannot have some of the nodes."""
        x = self.inputs[0]
        known = x.meta.get("val")
        if not isinstance(known, torch.Tensor) or known.dtype is not _known(self.part[0]).dtype:
            raise _Impossible(self.part[:1])
        if known.dim() < 2 or any(type(one) is not int for one in known.shape[1:]):
            raise _Impossible(self.part[:1])
        for node in self.part:
            if node not in self.values:
                self.add(node)
        new = set(self.renewed.values())
        own = self.own | new
        outputs = [one for one in self.part if not own.issuperset(readers(one))]
        self.refused.update(one for one in outputs if one not in self.ends)
        self.refused.update(new.args[0] for old, new in self.renewed.items() if is_read_until(self.part[-1], {old: new}))
        if self.refused:
            raise _Impossible(self.refused)
        content = {
            "version": 1,
            "input": {"name": self.values[x], "channels": known.shape[1]},
            "inputs": [self.values[one] for one in self.inputs[1:]],
            "layers": self.layers,
            "output": self.values[outputs[0]],
            "outputs": [self.values[one] for one in outputs[1:]],
        }
        try:
            text = _native.network(json.dumps(content))
            table = _native.parameters(text)
            shapes = _native.output_shapes(text, hints(known.shape))
        except ValueError:
            raise _Impossible(self.part) from None
        if shapes != [hints(value(node).shape) for node in outputs]:
            raise _Impossible(self.part)
        self.move_extents()
        parameters = [self.parameters[name] for name, _, _ in table]
        is_last = has_channels_last(parameters)
        operators = [next(iter(one["layer"])) for one in self.layers]
        return Region(
            text=text,
            operators=operators,
            dtype=known.dtype,
            inputs=self.inputs,
            parameters=parameters,
            nodes=list(self.part),
            outputs=outputs,
            is_dense=all(value(one).is_contiguous() for one in (x, *outputs)) and not is_last,
            is_last=is_last,
            renewed={one: new for one, new in self.renewed.items() if one in parameters},
            entry=Entry("", "a network", True, ""),
            is_network=True,
        )


    def move_extents(self) -> None:
        """Replaces the number of samples of values by that of the input. Other extents are known."""
        for extent in [one for node in self.part for one in node.users if one.target is aten.sym_size.int]:
            with extent.graph.inserting_before(extent):
                new = extent.graph.call_function(aten.sym_size.int, (self.inputs[0], 0))
            new.meta = extent.meta.copy()
            extent.replace_all_uses_with(new)
