"""The table of ATen operators that are layers of a chain, one row each, with the conditions under which they
mean the same.

A row is a function of a node and of the path before it: it adds the node's layer to the path, or raises
:class:`Refused` with the reason. :data:`ROWS` maps operators to rows, and :data:`FIRST` has the operators
that may begin a path.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses import FakeTensor
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._python_dispatch import _disable_current_modes

from . import _native

__all__ = [
    "FIRST",
    "POINTWISE",
    "PRODUCTS",
    "REDUCTIONS",
    "ROWS",
    "SPLITS",
    "TYPES",
    "WHOLE",
    "Path",
    "Refused",
    "gate",
    "is_copy",
    "is_read_until",
    "operand",
    "part",
    "readers",
    "reduces_to_no_channels",
    "same",
    "value",
]

aten = torch.ops.aten

TYPES = (torch.float32, torch.float16, torch.bfloat16)
"""The element types that there are kernels for."""

_KEPT_IN_FLOAT32 = frozenset({"group_norm", "instance_norm", "layer_norm", "batch_norm"})
"""Layers whose float32 parameters kernels read as they are, between tensors of 16 bits, too."""


class Refused(Exception):
    """A node has no layer in a chain, for the given reason."""


def value(node: Any) -> torch.Tensor:
    """The node's value as known from tracing: a tensor without elements. Refuses other values."""
    known = node.meta.get("val") if isinstance(node, fx.Node) else None
    if not isinstance(known, torch.Tensor):
        raise Refused("an operand is no tensor")
    return known


def readers(node: fx.Node) -> list[fx.Node]:
    """The nodes that read a value itself, not only its extents."""
    return [one for one in node.users if one.target is not aten.sym_size.int]


def arguments(node: fx.Node) -> dict[str, Any]:
    """The arguments of a node by name, with the defaults of its operator."""
    schema = node.target._schema.arguments
    given = {one.name: one.default_value for one in schema if one.has_default_value()}
    return given | dict(zip((one.name for one in schema), node.args)) | node.kwargs


def same(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether shapes are equal for all values of their symbols."""
    return len(left) == len(right) and all(
        statically_known_true(a == b) for a, b in zip(left, right)
    )


def _numbers(values: Sequence[Any]) -> list[int]:
    if any(type(one) is not int for one in values):
        raise Refused("an attribute depends on the input")
    return list(values)


def _number(one: Any) -> float:
    if type(one) not in (int, float) or not math.isfinite(one):
        raise Refused("an attribute is no finite number")
    return float(one)


class Path:
    """A sequence of layers. A layer's value may have readers other than the next layer only if these follow
    on the path, too."""

    def __init__(self, x: fx.Node) -> None:
        self.x = x
        known = value(x)
        if known.dtype not in TYPES:
            raise Refused(f"there are no kernels for {known.dtype}")
        if type(known.shape[1] if known.dim() > 1 else None) is not int:
            raise Refused("there is no known number of channels")
        self.dtype, self.in_channels = known.dtype, known.shape[1]
        self.last = x
        self.nodes: list[fx.Node] = []
        self.layers: list[dict[str, Any]] = []
        self.parameters: dict[str, fx.Node] = {}
        self.inputs = [x]
        self.reshaped: dict[str, list[int]] = {}
        """The extents behind the batch that further inputs of a network's layers get before these, by name."""
        self.values: dict[fx.Node, int] = {}
        """The layers by their values."""
        self.renewed: dict[fx.Node, fx.Node] = {}
        """New running statistics, by the old ones."""
        self.padding: tuple[str, list[int]] | None = None
        """How the value is padded for the convolution that follows."""

    @property
    def known(self) -> torch.Tensor:
        """The last value as known from tracing."""
        return value(self.last)

    @property
    def channels(self) -> int:
        """The channels of the last value."""
        if any(reduces_to_no_channels(one) for one in self.layers):
            raise Refused("behind a reduction of the channels")
        return self.known.shape[1]

    @property
    def operators(self) -> list[str]:
        """The names of the layers."""
        return [next(iter(layer)) for layer in self.layers]

    @property
    def multiplies(self) -> bool:
        """Whether there is a convolution."""
        return any(one.startswith("conv") for one in self.operators)

    @property
    def text(self) -> str:
        """The chain in JSON."""
        content = {"in_channels": self.in_channels, "layers": self.layers}
        return json.dumps(content, separators=(",", ":"))

    def fresh(self) -> str:
        """A name for a layer, from its index."""
        return f"p{len(self.layers)}"

    def expect_float32(self, layer: str, *parameters: fx.Node | None) -> None:
        """Refuses parameters of norms and factors that would be rounded, or that have a type of their own."""
        for one in parameters:
            if one is None or value(one).dtype is self.dtype:
                continue
            if value(one).dtype is not torch.float32:
                raise Refused(f"a parameter of {value(one).dtype} between {self.dtype}")
            if layer not in _KEPT_IN_FLOAT32:
                raise Refused(f"its parameters are float32 between tensors of {self.dtype}")

    def add(self, layer: dict[str, Any], nodes: Sequence[fx.Node], **parameters: fx.Node | None):
        """Adds the layer of these nodes, the last of which has its value, with its parameters by suffix. A
        layer without nodes is part of the next one."""
        if self.padding is not None:
            raise Refused("padding without a convolution behind it")
        (operator,) = layer
        name = layer[operator].get("name")
        self.layers.append(layer)
        try:
            _native.parameters(self.text)
        except ValueError as error:
            self.layers.pop()
            raise Refused(str(error).removeprefix("convfuse: chain: ")) from None
        for suffix, one in parameters.items():
            if one is not None:
                self.parameters[f"{name}.{suffix}" if suffix != "operand" else name] = one
        self.follow(nodes)

    def follow(self, nodes: Sequence[fx.Node]) -> None:
        """Continues after these nodes, the last of which has the path's value from now on; unchanged if there
        are none."""
        self.nodes.extend(nodes)
        self.last = [self.last, *nodes][-1]
        if nodes and self.layers:
            self.values[self.last] = len(self.layers) - 1


Row = Callable[[fx.Node, Path], None]

ROWS: dict[Any, Row] = {}

FIRST: dict[Any, str] = {}
"""What paths begin with, and what it is called."""

WHOLE: dict[Any, Row] = {}
"""Rows of operators that are layers of whole networks alone. In graphs of the two doors they stay PyTorch's."""


def _row(*targets: torch._ops.OpOverload, first: str | None = None) -> Callable[[Row], Row]:
    def add(row: Row) -> Row:
        for target in targets:
            ROWS[target] = row
            if first is not None:
                FIRST[target] = first
        return row

    return add


def _whole(*targets: torch._ops.OpOverload) -> Callable[[Row], Row]:
    def add(row: Row) -> Row:
        WHOLE.update(dict.fromkeys(targets, row))
        return row

    return add


def operand(node: fx.Node) -> fx.Node:
    """The input value of a path that begins with this node."""
    return node.args[0]


def _result(node: fx.Node) -> fx.Node:
    """The first result of a node, if no other one is read."""
    results = _results(node)
    if list(results) != [0]:
        raise Refused("more than its first result is read")
    return results[0]


def _results(node: fx.Node) -> dict[int, fx.Node]:
    """The results of a node that are read, by index."""
    return {one.args[1]: one for one in node.users}


def _rounded_of(node: fx.Node | None) -> fx.Node | None:
    """The float32 parameter behind a rounding conversion, which kernels do themselves; otherwise the node
    itself."""
    if node is not None and node.target is aten._to_copy.default and _only_converts(node):
        source = node.args[0]
        if value(source).dtype is torch.float32 and value(node).dtype in TYPES:
            return source
    return node


def _only_converts(node: fx.Node) -> bool:
    given = arguments(node)
    others = ("layout", "device", "pin_memory", "memory_format")
    return given["dtype"] is not None and all(given[one] is None for one in others)


@_row(aten.convolution.default, first="convolution")
def _convolution(node: fx.Node, path: Path) -> None:
    a, x = arguments(node), path.known
    if path.multiplies:
        raise Refused("a convolution begins a chain of its own")
    weight = value(a["weight"])
    if weight.dtype is not path.dtype or x.dtype is not path.dtype:
        raise Refused(f"a convolution of {weight.dtype} between {path.dtype}")
    filters, axes = _numbers(weight.shape), weight.dim() - 2
    if axes not in (1, 2, 3) or x.dim() != weight.dim():
        raise Refused(f"a convolution along {axes} axes")

    def each(name: str) -> list[int]:
        numbers = _numbers(a[name])
        return numbers * axes if len(numbers) == 1 else numbers

    name, padding, mode = path.fresh(), each("padding"), "zeros"
    if path.padding is not None:
        if a["transposed"]:
            raise Refused("padding in front of a transposed convolution")
        mode, more = path.padding
        if mode != "zeros" and any(padding):
            raise Refused("padded twice")
        padding = [a + b for a, b in zip(padding, more)]
    layer = {
        "name": name,
        "out_channels": filters[1] * a["groups"] if a["transposed"] else filters[0],
        "kernel_size": filters[2:],
        "stride": each("stride"),
        "padding": padding,
        "dilation": each("dilation"),
        "groups": a["groups"],
        "bias": a["bias"] is not None,
    }
    operator = "conv_transpose" if a["transposed"] else "conv"
    if a["transposed"]:
        layer["output_padding"] = each("output_padding")
    else:
        layer["padding_mode"] = mode
    before, path.padding = path.padding, None
    try:
        weights = {"weight": _rounded_of(a["weight"]), "bias": _rounded_of(a["bias"])}
        path.add({f"{operator}{axes}d": layer}, [node], **weights)
    except Refused:
        path.padding = before
        raise


def _pad(node: fx.Node, path: Path, mode: str) -> None:
    pairs = _pad_widths(node, path)
    if not any(a or b for a, b in pairs):
        path.follow([node])
        return
    if any(a != b for a, b in pairs):
        raise Refused("padding that differs from side to side")
    if path.padding is not None:
        raise Refused("padded twice")
    path.padding = mode, [a for a, _ in pairs]
    path.follow([node])


def _widths(node: fx.Node, axes: int) -> list[int]:
    """The padding widths, the last axis first, without those of 0 in front of this number of axes."""
    a = arguments(node)
    pads = _numbers(a["pad"] if "pad" in a else a["padding"])
    while len(pads) > 2 * axes and not any(pads[-2:]):
        pads = pads[:-2]
    return pads


def _pad_widths(node: fx.Node, path: Path) -> list[tuple[int, int]]:
    """The padding widths before and after each spatial axis."""
    axes = path.known.dim() - 2
    pads = _widths(node, axes)
    pairs = [(0, 0)] * (axes - len(pads) // 2) + list(zip(pads[-2::-2], pads[::-2]))
    if axes < 1 or len(pairs) != axes:
        raise Refused("padding of the channels or the batch")
    if min(map(min, pairs)) < 0:
        raise Refused("padding of negative widths")
    return pairs


def _pad_layer(node: fx.Node, path: Path, mode: str) -> None:
    """Padding as a layer."""
    pairs = _pad_widths(node, path)
    if not any(a or b for a, b in pairs):
        path.follow([node])
        return
    widths = [width for pair in reversed(pairs) for width in pair]
    layer: dict[str, Any] = {"padding": widths}
    path.add({"pad": layer if mode == "zeros" else layer | {"padding_mode": mode}}, [node])


@_row(aten.constant_pad_nd.default)
def _zeros(node: fx.Node, path: Path) -> None:
    _expect_zeros(node)
    _pad(node, path, "zeros")


def _expect_zeros(node: fx.Node) -> None:
    if arguments(node)["value"] != 0:
        raise Refused("padding with other values than 0")


@_row(
    aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default
)
def _reflect(node: fx.Node, path: Path) -> None:
    _pad(node, path, "reflect")


@_row(
    aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default
)
def _replicate(node: fx.Node, path: Path) -> None:
    _pad(node, path, "replicate")


@_whole(aten.constant_pad_nd.default)
def _zeros_alone(node: fx.Node, path: Path) -> None:
    if arguments(node)["value"] == -math.inf:
        _max_pool_within(node, path)
        return
    _expect_zeros(node)
    axes = path.known.dim() - 2
    if len(_widths(node, axes)) == 2 * (axes + 1):
        _pad_channels(node, path)
    else:
        _pad_layer(node, path, "zeros")


def _pad_channels(node: fx.Node, path: Path) -> None:
    """Zeros before and after the channels, which become a spatial axis for it."""
    channels, *extents = _numbers(path.known.shape[1:])
    *others, before, after = _widths(node, len(extents))
    if any(others) or min(before, after) < 0:
        raise Refused("padding of the channels and other axes, or of negative widths")
    behind = [-1] if extents else []
    path.add({"reshape": {"shape": [1, channels, *behind]}}, [])
    path.add({"pad": {"padding": [0, 0] * len(behind) + [before, after]}}, [])
    path.add({"reshape": {"shape": [before + channels + after, *extents]}}, [node])


@_whole(*(target for target, row in ROWS.items() if row is _reflect))
def _reflect_alone(node: fx.Node, path: Path) -> None:
    _pad_layer(node, path, "reflect")


@_whole(*(target for target, row in ROWS.items() if row is _replicate))
def _replicate_alone(node: fx.Node, path: Path) -> None:
    _pad_layer(node, path, "replicate")


@_whole(aten._pad_circular.default)
def _circular(node: fx.Node, path: Path) -> None:
    users = readers(node)
    alike = all(a == b for a, b in _pad_widths(node, path))
    if alike and len(users) == 1 and users[0].target is aten.convolution.default:
        a = arguments(users[0])
        if not a["transposed"] and not any(a["padding"]):
            _pad(node, path, "circular")
            return
    _pad_layer(node, path, "circular")


@_whole(aten.permute.default)
def _of_channels(node: fx.Node, path: Path) -> None:
    """Layers over the channels written for the last axis: between a permutation and its inverse."""
    rank = path.known.dim()
    there, back = [0, *range(2, rank), 1], [0, rank - 1, *range(1, rank - 1)]

    def order(permutation: fx.Node) -> list[int]:
        return [one % rank for one in permutation.args[1]]

    if _moves_nothing(node, path):
        _reshape(node, path)
        return
    if rank < 3 or order(node) != there:
        raise Refused("a permutation other than of the channels to the end")
    path.follow([node])
    while True:
        users = readers(path.last)
        if len(users) != 1:
            raise Refused(f"a value with its channels at the end that has {len(users)} readers")
        (user,) = users
        if user.target is aten.permute.default and order(user) == back:
            path.follow([user])
            return
        if user.target is aten.native_layer_norm.default:
            _norm_of_rows(user, path, {"dim": 1})
        elif user.target is aten.linear.default and user.args[0] is path.last:
            a = arguments(user)
            _linear_map([user], path, a["weight"], a["bias"], {"dim": 1})
        elif user.target in POINTWISE and user.all_input_nodes == [path.last]:
            ROWS[user.target](user, path)
        elif user.target is aten.clone.default:
            path.follow([user])
        elif user.target in _VIEWS:
            _linear_of_rows(user, path)
        else:
            raise Refused(f"{user.target} of a value with its channels at the end")


def _moves_nothing(node: fx.Node, path: Path) -> bool:
    """Whether a permutation only moves axes of one element, behind the batch."""
    x = path.known.shape
    order = list(range(len(x)))
    if node.target is aten.permute.default:
        order = [one % len(x) for one in node.args[1]]
    else:
        a, b = node.args[1:]
        order[a], order[b] = order[b], order[a]
    moved = [one for one in order if not same(x[one : one + 1], [1])]
    return order[:1] == [0] and moved == sorted(moved)


@_whole(aten.transpose.int)
def _transpose(node: fx.Node, path: Path) -> None:
    if not _moves_nothing(node, path):
        raise Refused("a permutation of axes of several elements")
    _reshape(node, path)


def _linear_of_rows(view: fx.Node, path: Path) -> None:
    """A linear map of the last axis, as tracing decomposes it: a product with a matrix of all rows."""
    *rows, channels = path.known.shape
    users = readers(view)
    if not same(value(view).shape, (math.prod(rows), channels)) or len(users) != 1:
        raise Refused("a view of a value with its channels at the end")
    (product,) = users
    if product.target not in PRODUCTS:
        raise Refused(f"{product.target} of the rows of a value with its channels at the end")
    weight, bias = _factors(product, view)
    users = readers(product)
    back = (*rows, value(weight).shape[0])
    if len(users) != 1 or users[0].target not in _VIEWS or not same(value(users[0]).shape, back):
        raise Refused("a product of rows that are not joined again")
    _linear_map([view, product, users[0]], path, weight, bias, {"dim": 1})


PRODUCTS = (aten.addmm.default, aten.mm.default)
"""Linear maps, as tracing decomposes them."""


@_whole(aten.linear.default)
def _linear(node: fx.Node, path: Path) -> None:
    if path.known.dim() != 2:
        raise Refused(f"a linear map of the last of {path.known.dim()} axes, expected 2")
    a = arguments(node)
    _linear_map([node], path, a["weight"], a["bias"], {})


def _factors(node: fx.Node, x: fx.Node) -> tuple[fx.Node, fx.Node | None]:
    """The weight and the bias of a product of matrices that is a linear map of ``x``."""
    *_, left, transposed = node.args
    bias = node.args[0] if node.target is aten.addmm.default else None
    if left is not x or any(one != 1 for one in node.kwargs.values()):
        raise Refused("a product of matrices that is no linear map")
    if transposed.target not in (aten.t.default, aten.permute.default, aten.transpose.int):
        raise Refused("a product with a matrix that is not transposed")
    weight = transposed.args[0]
    features, channels = value(weight).shape
    if not same(value(transposed).shape, (channels, features)):
        raise Refused("a product with a matrix that is not transposed")
    if bias is not None and not same(value(bias).shape, (features,)):
        raise Refused("a sum with a tensor that is no bias")
    return weight, bias


def _linear_map(
    nodes: Sequence[fx.Node],
    path: Path,
    weight: fx.Node,
    bias: fx.Node | None,
    attributes: dict[str, Any],
) -> None:
    known = value(weight)
    if known.dtype is not path.dtype:
        raise Refused(f"a linear map of {known.dtype} between {path.dtype}")
    features, channels = _numbers(known.shape)
    layer = {"name": path.fresh(), "in_features": channels, "out_features": features}
    layer["bias"] = bias is not None
    path.add({"linear": layer | attributes}, nodes, weight=weight, bias=bias)


_VIEWS = (aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.flatten.using_ints)


@_whole(*_VIEWS)
def _flatten(node: fx.Node, path: Path) -> None:
    x, flat = path.known.shape, value(node).shape
    if same(flat, x):
        path.follow([node])
    elif len(x) > 1 and same(flat, (x[0], math.prod(x[1:]))):
        path.add({"flatten": {}}, [node])
    else:
        try:
            _shuffle_of_views(node, path)
        except Refused:
            if len(flat) > 5:
                raise
            _reshape(node, path)


@_whole(aten.squeeze.dim, aten.squeeze.dims, aten.unsqueeze.default)
def _reshape(node: fx.Node, path: Path) -> None:
    x, shape = path.known.shape, value(node).shape
    if len(shape) < 2 or len(x) < 2 or not same(shape[:1], x[:1]):
        raise Refused(f"a view of {tuple(x)} as {tuple(shape)}, which is of the batch, too")
    behind = _numbers(shape[1:])
    path.add({"reshape": {"shape": behind}}, [node])


_SHUFFLES = {
    aten.channel_shuffle.default: "groups",
    aten.native_channel_shuffle.default: "groups",
    aten.pixel_shuffle.default: "upscale_factor",
    aten.pixel_unshuffle.default: "downscale_factor",
}
"""Shuffles of channels and pixels, and what their one attribute is called."""


@_whole(*_SHUFFLES)
def _shuffle(node: fx.Node, path: Path) -> None:
    name, attribute = node.target._opname.removeprefix("native_"), _SHUFFLES[node.target]
    if attribute != "groups" and path.known.dim() != 4:
        raise Refused("pixels of other than a batch of images")
    path.add({name: {attribute: _numbers([arguments(node)[attribute]])[0]}}, [node])


def _shuffle_of_views(split: fx.Node, path: Path) -> None:
    """A shuffle written by hand: a view splits axes, a permutation follows, and another view joins axes."""
    x, parts, nodes = path.known.shape, value(split).shape, [split]
    refused = Refused(f"a view of {tuple(x)} as {tuple(parts)} that is no shuffle of channels or pixels")
    order = list(range(len(parts)))
    while nodes[-1] is split or nodes[-1].target not in _VIEWS:
        users = readers(nodes[-1])
        if len(users) != 1:
            raise refused
        (node,) = users
        if node.target is aten.permute.default:
            order = [order[one] for one in node.args[1]]
        elif node.target is aten.transpose.int:
            a, b = node.args[1:]
            order[a], order[b] = order[b], order[a]
        elif node.target is not aten.clone.default and node.target not in _VIEWS:
            raise refused
        nodes.append(node)
    found = value(node).shape
    if len(x) > 2 and len(parts) == len(x) + 1:
        n, groups, channels, *spatial = parts
        known = (n, groups * channels, *spatial)
        if order == [0, 2, 1, *range(3, len(parts))] and same(x, known) and same(found, x):
            path.add({"channel_shuffle": {"groups": groups}}, nodes)
            return
    if len(x) == 4 and len(parts) == 6:
        n, c, r, also, h, w = parts
        if order == [0, 1, 4, 2, 5, 3] and r == also and same(found, (n, c, h * r, w * r)):
            path.add({"pixel_shuffle": {"upscale_factor": r}}, nodes)
            return
        n, c, h, r, w, also = parts
        if order == [0, 1, 3, 5, 2, 4] and r == also and same(found, (n, c * r * r, h, w)):
            path.add({"pixel_unshuffle": {"downscale_factor": r}}, nodes)
            return
        if order == [0, 3, 5, 1, 2, 4] and r == also and same(found, (n, c * r * r, h, w)):
            # All channels of a pixel become adjacent.
            path.add({"pixel_unshuffle": {"downscale_factor": r}}, [])
            path.add({"channel_shuffle": {"groups": c}}, nodes)
            return
    raise refused


@_whole(aten.expand.default)
def _expand(node: fx.Node, path: Path) -> None:
    """An expansion that only products read, which broadcast themselves."""
    if any(one.target is not aten.mul.Tensor for one in readers(node)):
        raise Refused("a value that is expanded otherwise than for a product")
    path.follow([node])


@_whole(aten.mul.Tensor)
def _gate(node: fx.Node, path: Path) -> None:
    x = path.known.shape
    operands = node.all_input_nodes
    if len(operands) != 2 or operands[0] is operands[1]:
        raise Refused("a product with a value that is broadcast")
    (gate,) = (one for one in operands if one is not path.x)
    if path.x.target is aten.expand.default:
        raise Refused("an expanded value")
    if gate.target is aten.expand.default:
        gate = operand(gate)
    shapes = {None: [*x[:2], *[1] * (len(x) - 2)], 1: [x[0], 1, *x[2:]]}
    dim = next((dim for dim, shape in shapes.items() if same(value(gate).shape, shape)), 0)
    # Several axes behind the batch, each with its own factors, become the channels for it.
    axes = next((n for n in range(2, len(x) - 1) if same(value(gate).shape, [*x[: n + 1], *[1] * (len(x) - n - 1)])), 1)
    if (dim == 0 and axes == 1) or not same(value(node).shape, x):
        raise Refused("a product with a value that is broadcast otherwise than by the channels or positions of samples")
    if value(gate).dtype is not path.dtype or value(node).dtype is not path.dtype:
        raise Refused("an operand of another type")
    name = f"r{len(path.inputs)}"
    path.inputs.append(gate)
    if dim == 0:
        whole = _numbers(x[1:])
        channels = math.prod(whole[:axes])
        path.reshaped[name] = [channels, *[1] * len(whole[axes:])]
        path.add({"reshape": {"shape": [channels, *whole[axes:]]}}, [])
        path.add({"gate": {"input": name}}, [])
        path.add({"reshape": {"shape": whole}}, [node])
    else:
        path.add({"gate": {"input": name} | ({} if dim is None else {"dim": dim})}, [node])


@_whole(aten.cat.default)
def _cat(node: fx.Node, path: Path) -> None:
    a = arguments(node)
    first, *others = a["tensors"]
    dim = a["dim"] % path.known.dim()
    others = [one for one in others if not same(value(one).shape[dim : dim + 1], (0,))]
    if first is not path.x:
        raise Refused("its first value is a constant, or a further input of the model")
    if any(value(one).dtype is not path.dtype for one in others):
        raise Refused("an operand of another type")
    if dim == 0:
        _sum_of_stacked(node, others, path)
        return
    if not others:
        path.follow([node])
        return
    names = [f"r{len(path.inputs) + number}" for number, _ in enumerate(others)]
    path.inputs.extend(others)
    path.add({"cat": {"inputs": names, "dim": dim}}, [node])


def _sum_of_stacked(node: fx.Node, others: list[fx.Node], path: Path) -> None:
    """A sum or an average of values of the same shape that are stacked for it."""
    refused = Refused("values one behind the other along the batch")
    shape = path.known.shape
    view, reduction = node, node
    if len(users := readers(node)) == 1 and users[0].target is aten.view.default:
        view = users[0]
    if len(users := readers(view)) == 1 and users[0].target in (aten.sum.dim_IntList, aten.mean.dim):
        reduction = users[0]
    a = arguments(reduction)
    stacked = (1 + len(others), *shape)
    if reduction is node or not same(value(view).shape, stacked) or a["dim"] != [0] or a["keepdim"]:
        raise refused
    if a["dtype"] is not None or any(not same(value(one).shape, shape) for one in others):
        raise refused
    nodes = [node, view, reduction]
    is_mean = reduction.target is aten.mean.dim
    for number, one in enumerate(others, 1):
        is_last = number == len(others) and not is_mean
        path.inputs.append(one)
        path.add({"add": {"input": f"r{len(path.inputs) - 1}"}}, nodes if is_last else [])
    if not others:
        path.follow(nodes)
    elif is_mean:
        path.add({"div": {"value": 1 + len(others)}}, nodes)


@_whole(aten.repeat.default)
def _repeat(node: fx.Node, path: Path) -> None:
    repeats = _numbers(node.args[1])
    axes = path.known.dim()
    if len(repeats) != axes or axes < 2 or repeats[1] < 1 or any(one != 1 for one in (repeats[0], *repeats[2:])):
        raise Refused("repeated otherwise than along the channels")
    channels = repeats[1]
    if channels == 1:
        path.follow([node])
        return
    names = [f"r{len(path.inputs) + number}" for number in range(channels - 1)]
    path.inputs.extend([path.x] * (channels - 1))
    path.add({"cat": {"inputs": names, "dim": 1}}, [node])


def _narrow(node: fx.Node, path: Path, dim: int, start: int, length: int) -> None:
    extents = path.known.shape
    if length == extents[dim]:
        path.follow([node])
    elif dim == 0:
        raise Refused("a part of the batch")
    else:
        path.add({"narrow": {"dim": dim, "start": start, "length": length}}, [node])


@_whole(aten.slice.Tensor)
def _slice(node: fx.Node, path: Path) -> None:
    a, x = arguments(node), path.known
    dim = a["dim"] % x.dim()
    extent, length = _numbers([x.shape[dim], value(node).shape[dim]])
    start = _numbers([a["start"] or 0])[0]
    if a["step"] != 1:
        raise Refused("every so many values of an axis")
    _narrow(node, path, dim, start if start >= 0 else max(start + extent, 0), length)


SPLITS = (aten.split_with_sizes.default, aten.split.Tensor)
"""What gives several parts of a value."""


def part(node: fx.Node, path: Path) -> None:
    """Adds the layer that slices one part of a split value."""
    split, number = node.args
    dim = arguments(split)["dim"] % path.known.dim()
    lengths = _numbers([one.shape[dim] for one in split.meta["val"]])
    _narrow(node, path, dim, sum(lengths[:number]), lengths[number])


_UPSAMPLE = {
    aten.upsample_nearest1d.vec: "nearest",
    aten.upsample_nearest2d.vec: "nearest",
    aten.upsample_nearest3d.vec: "nearest",
    aten._upsample_nearest_exact1d.vec: "nearest-exact",
    aten._upsample_nearest_exact2d.vec: "nearest-exact",
    aten._upsample_nearest_exact3d.vec: "nearest-exact",
    aten.upsample_linear1d.vec: "linear",
    aten.upsample_bilinear2d.vec: "bilinear",
    aten.upsample_trilinear3d.vec: "trilinear",
}


@_whole(*_UPSAMPLE)
def _upsample(node: fx.Node, path: Path) -> None:
    a = arguments(node)
    layer: dict[str, Any] = {"mode": _UPSAMPLE[node.target]}
    if a["scale_factors"] is None:
        layer["size"] = _numbers(a["output_size"])
    else:
        layer["scale_factor"] = [_number(one) for one in a["scale_factors"]]
    if a.get("align_corners"):
        layer["align_corners"] = True
    path.add({"upsample": layer}, [node])


@_whole(aten.as_strided.default)
def _strided(node: fx.Node, path: Path) -> None:
    a, x = arguments(node), path.known
    strides = ((s, t) for s, t, extent in zip(a["stride"], x.stride(), x.shape) if extent != 1)
    if not same(a["size"], x.shape) or any(s != t for s, t in strides) or a["storage_offset"]:
        raise Refused("strides other than those of its value")
    path.follow([node])


@_whole(aten.alias.default, aten.detach.default)
def _same(node: fx.Node, path: Path) -> None:
    path.follow([node])


def _affine(weight: fx.Node | None, bias: fx.Node | None) -> bool:
    if (weight is None) != (bias is None):
        raise Refused("a norm with a weight or a bias alone")
    return weight is not None


@_row(aten.native_group_norm.default, first="group norm")
def _group_norm(node: fx.Node, path: Path) -> None:
    a, x = arguments(node), path.known
    if not same((a_value(a["N"]), a_value(a["C"])), x.shape[:2]):
        raise Refused("batch or channels are not those of its input")
    weight, bias = a["weight"], a["bias"]
    path.expect_float32("group_norm", weight, bias)
    layer = {"name": path.fresh(), "num_groups": a["group"], "eps": _number(a["eps"])}
    layer["affine"] = _affine(weight, bias)
    path.add({"group_norm": layer}, [node, _result(node)], weight=weight, bias=bias)


def a_value(one: Any) -> Any:
    """The number or the symbol that an argument stands for."""
    return one.meta.get("val") if isinstance(one, fx.Node) else one


def _repeated(node: fx.Node | None, channels: int) -> fx.Node | None:
    """The parameter of an instance norm, which PyTorch repeats for each sample."""
    if node is None:
        return None
    if node.target is aten.repeat.default:
        node = node.args[0]
    if not same(value(node).shape, (channels,)):
        raise Refused("a batch norm over samples and channels that is no instance norm")
    return node


def _instance(norm: fx.Node, nodes: list[fx.Node], path: Path) -> None:
    a = arguments(norm)
    if a["training"] is not True:
        raise Refused("a batch norm without statistics")
    weight, bias = _repeated(a["weight"], path.channels), _repeated(a["bias"], path.channels)
    path.expect_float32("instance_norm", weight, bias)
    layer = {"name": path.fresh(), "eps": _number(a["eps"]), "affine": _affine(weight, bias)}
    path.add({"instance_norm": layer}, nodes, weight=weight, bias=bias)


@_row(aten._native_batch_norm_legit.no_stats, first="norm by statistics of its input")
def _norm_without_running_statistics(node: fx.Node, path: Path) -> None:
    if same(path.known.shape[:1], (1,)) and path.known.dim() > 2:
        _instance(node, [node, _result(node)], path)
        return
    a = arguments(node)
    if a["training"] is not True:
        raise Refused("a batch norm without statistics")
    weight, bias = a["weight"], a["bias"]
    path.expect_float32("batch_norm", weight, bias)
    layer = {"name": path.fresh(), "eps": _number(a["eps"]), "affine": _affine(weight, bias)}
    layer["track_running_stats"] = False
    path.add({"batch_norm": layer}, [node, _result(node)], weight=weight, bias=bias)


@_row(aten.view.default)
def _view(node: fx.Node, path: Path) -> None:
    users = readers(node)
    if len(users) == 1 and users[0].target in _SOFTMAX:
        _softmax_of_view(node, users[0], path)
    else:
        _instance_norm(node, users, path)


def _instance_norm(node: fx.Node, users: list[fx.Node], path: Path) -> None:
    # PyTorch passes an instance norm's samples to a batch norm as the channels of one sample.
    x = path.known
    is_norm = len(users) == 1 and users[0].target is aten._native_batch_norm_legit.no_stats
    if not is_norm or x.dim() < 3:
        raise Refused("a view")
    if not same(value(node).shape, (1, x.shape[0] * x.shape[1], *x.shape[2:])):
        raise Refused("a batch norm with the statistics of its batch")
    result = _result(users[0])
    back = readers(result)
    if len(back) != 1 or back[0].target is not aten.view.default:
        raise Refused("an instance norm whose result is not of its input's shape")
    if not same(value(back[0]).shape, x.shape):
        raise Refused("an instance norm whose result is not of its input's shape")
    _instance(users[0], [node, users[0], result, back[0]], path)


@_row(aten._native_batch_norm_legit_no_training.default, first="batch norm")
def _batch_norm(node: fx.Node, path: Path) -> None:
    a = arguments(node)
    weight, bias = a["weight"], a["bias"]
    mean, variance = a["running_mean"], a["running_var"]
    path.expect_float32("batch_norm", weight, bias, mean, variance)
    layer = {"name": path.fresh(), "eps": _number(a["eps"]), "affine": _affine(weight, bias)}
    values = {"weight": weight, "bias": bias, "running_mean": mean, "running_var": variance}
    path.add({"batch_norm": layer}, [node, _result(node)], **values)


@_row(aten._native_batch_norm_legit_functional.default, first="batch norm")
def _batch_norm_in_training(node: fx.Node, path: Path) -> None:
    a, results = arguments(node), _results(node)
    if a["training"] is not True:
        raise Refused("a batch norm that renews statistics without training")
    if 0 not in results or not set(results) <= {0, 3, 4}:
        raise Refused("the statistics of its batch are read")
    weight, bias = a["weight"], a["bias"]
    running = (a["running_mean"], a["running_var"])
    path.expect_float32("batch_norm", weight, bias, *running)
    for one in running:
        others = [user for user in one.users if user is not node and not _writes(user, one)]
        if one.op != "placeholder" or others or not value(one).is_contiguous():
            raise Refused("its running statistics are read elsewhere, or are no buffers")
        if value(one).dtype is not torch.float32:
            raise Refused(f"its running statistics are of {value(one).dtype}")
    layer = {"name": path.fresh(), "eps": _number(a["eps"]), "affine": _affine(weight, bias)}
    layer |= {"training": True, "momentum": _number(a["momentum"])}
    values = {"running_mean": running[0], "running_var": running[1]}
    path.add({"batch_norm": layer}, [node, results[0]], weight=weight, bias=bias, **values)
    path.renewed |= {old: results[number] for old, number in zip(running, (3, 4)) if number in results}


def _writes(node: fx.Node, target: fx.Node) -> bool:
    """Whether a node writes to a tensor without reading it."""
    return node.target is aten.copy_.default and node.args[0] is target


def is_read_until(last: fx.Node, renewed: dict[fx.Node, fx.Node]) -> bool:
    """Whether new running statistics are read up to this node, at which a region or a network writes them."""
    return any(not (_writes(user, old) or user > last) for old, new in renewed.items() for user in new.users)


@_row(aten.native_layer_norm.default, first="layer norm")
def _layer_norm(node: fx.Node, path: Path) -> None:
    if path.known.dim() < 3:
        raise Refused("a layer norm of features")
    _norm_of_last_axes(node, path)


@_whole(aten.native_layer_norm.default)
def _norm_of_last_axes(node: fx.Node, path: Path) -> None:
    x, shape = path.known, arguments(node)["normalized_shape"]
    if not same(shape, x.shape[1:][-len(shape) :]):
        raise Refused("a layer norm over the batch")
    if x.dim() == 3 and len(shape) == 1:
        raise Refused("a layer norm of rows of sequences")
    _norm_of_rows(node, path, {})


def _norm_of_rows(node: fx.Node, path: Path, attributes: dict[str, Any]) -> None:
    a = arguments(node)
    shape, weight, bias = _numbers(a["normalized_shape"]), a["weight"], a["bias"]
    if weight is None and bias is not None:
        raise Refused("a norm with a bias alone")
    path.expect_float32("layer_norm", weight, bias)
    layer = {"name": path.fresh(), "normalized_shape": shape, "eps": _number(a["eps"])}
    layer |= {"elementwise_affine": weight is not None, "bias": bias is not None}
    layer |= attributes
    path.add({"layer_norm": layer}, [node, _result(node)], weight=weight, bias=bias)


_ARITHMETIC = {
    aten.add.Tensor: "add",
    aten.add.Scalar: "add",
    aten.sub.Tensor: "sub",
    aten.sub.Scalar: "sub",
    aten.rsub.Tensor: "sub",
    aten.rsub.Scalar: "sub",
    aten.mul.Tensor: "mul",
    aten.mul.Scalar: "mul",
    aten.div.Tensor: "div",
    aten.div.Scalar: "div",
    aten.minimum.default: "minimum",
    aten.maximum.default: "maximum",
}
"""Functions of two operands, of which the path is one."""


@_row(*_ARITHMETIC)
def _arithmetic(node: fx.Node, path: Path) -> None:
    layer, a = _ARITHMETIC[node.target], arguments(node)
    left, right, alpha = a["self"], a["other"], _number(a.get("alpha", 1))
    if node.target in (aten.rsub.Tensor, aten.rsub.Scalar):
        left, right = right, left
    _expect_alike(node, path)
    other = right if left is path.last else left
    if left is not path.last:
        if layer == "div":
            raise Refused("a division by its value")
        if layer == "sub":
            layer, alpha = "add", -alpha
        if alpha != 1:
            path.add({"mul": {"value": alpha}}, [])
            alpha = 1
    constant = _constant(other)
    if constant is not None and layer in ("mul", "div") and constant * alpha == 1:
        path.follow([node])
    elif constant is not None:
        path.add({layer: {"value": constant * alpha}}, [node])
    elif alpha != 1:
        raise Refused("a sum with a multiple of a tensor")
    else:
        _with_tensor(layer, other, node, path)


def _with_tensor(layer: str, other: fx.Node, node: fx.Node, path: Path) -> None:
    """Arithmetic with a tensor: an earlier value of the path, a further input of the path's shape, or a
    broadcast parameter."""
    x, known = path.known, value(other)
    if _is_number_of_call(other) and (known.device != x.device or known.dtype is not x.dtype):
        raise Refused("a number that may be another one in the next call")
    if known.device != x.device:
        raise Refused("an operand on another device")
    if layer in ("minimum", "maximum"):
        raise Refused(f"a {layer} with no known number")
    if other in path.values:
        if not same(known.shape, x.shape) or known.dtype is not x.dtype:
            raise Refused("an earlier value of another shape or type")
        path.add({layer: {"layer": path.values[other]}}, [node])
        return
    if same(known.shape, x.shape):
        if known.dtype is not path.dtype:
            raise Refused("an operand of the same shape and another type")
        path.add({layer: {"input": f"r{len(path.inputs)}"}}, [node])
        path.inputs.append(other)
        return
    shape, is_each = [1] * known.dim(), False
    if not same(known.shape, shape):
        each, is_each = [path.channels, *[1] * (x.dim() - 2)], True
        shape = each if known.dim() < x.dim() else [1, *each]
        if not same(known.shape, shape):
            raise Refused(f"a {layer} with a tensor that is broadcast otherwise than by channels")
    if known.dtype is not x.dtype:
        raise Refused("an operand of another type")
    path.expect_float32(layer, other)
    attributes: dict[str, Any] = {"shape": shape}
    if layer == "mul" and is_each and x.dim() > 2:
        layer, attributes = "scale", {}
    # Layers of the same name share a parameter, which some kernels read once.
    alike = (one[layer]["name"] for one in path.layers if "name" in one.get(layer, {}))
    name = next((one for one in alike if path.parameters[one] is other), path.fresh())
    path.add({layer: {"name": name} | attributes}, [node], operand=other)


def _is_number_of_call(node: fx.Node) -> bool:
    """Whether an operand is a Python float that differed between calls. Dynamo makes it an input: a float64
    on the CPU."""
    return value(node).dim() == 0 and node.target is torch.ops.prims.convert_element_type.default


def _expect_alike(node: fx.Node, path: Path) -> None:
    """Refuses a node whose shape or type differs from its input's."""
    if not same(value(node).shape, path.known.shape):
        raise Refused("its value is broadcast")
    if value(node).dtype is not path.known.dtype:
        raise Refused("its value is of another type")


def _constant(one: Any) -> float | None:
    """The value of a number operand, or of a constant tensor with one element; otherwise ``None``."""
    if not isinstance(one, fx.Node):
        return _number(one)
    if one.target is aten.full.default:
        return _number(one.args[1]) if math.prod(_numbers(one.args[0])) == 1 else None
    if one.target is not aten.lift_fresh_copy.default or one.args[0].op != "get_attr":
        return None
    held = getattr(one.graph.owning_module, one.args[0].target, None)
    if not isinstance(held, torch.Tensor) or isinstance(held, FakeTensor) or held.numel() != 1:
        return None
    with _disable_current_modes():
        return _number(held.item())


@_row(aten.neg.default)
def _negation(node: fx.Node, path: Path) -> None:
    path.add({"mul": {"value": -1}}, [node])


_THREE, _SIX = {"add": {"value": 3.0}}, {"clamp": {"min": 0.0, "max": 6.0}}
_ONE = {"clamp": {"min": 0.0, "max": 1.0}}
_SIXTHS = ({"div": {"value": 6.0}}, {"mul": {"value": 1 / 6}})

_GATES: tuple[tuple[list[dict[str, Any]], str], ...] = (
    ([{"sigmoid": {}}], "silu"),
    ([{"hardsigmoid": {}}], "hardswish"),
    ([{"softplus": {"beta": 1.0, "threshold": 20.0}}, {"tanh": {}}], "mish"),
    *(([_THREE, _SIX, sixth], "hardswish") for sixth in _SIXTHS),
    *(([_THREE, sixth, _ONE], "hardswish") for sixth in _SIXTHS),
)
"""Functions whose product with their argument is a layer."""


def gate(path: Path) -> None:
    """Adds a gate layer if the readers of the path's value are a function of it and the product with that
    function."""
    users = readers(path.last)
    products = [one for one in users if one.target is aten.mul.Tensor]
    if len(users) != 2 or len(products) != 1:
        raise Refused(f"its value has {len(users)} readers")
    (product,), side = products, Path(path.last)
    user = users[0] if users[1] is product else users[1]
    while user is not product:
        user = _only_reader(user, side)
    if side.layers == [_THREE, _SIX]:
        # The division by 6 may follow the product.
        behind = Path(product)
        _only_reader(_sole(product), behind)
        side.layers += behind.layers
        side.nodes += [product, *behind.nodes]
    else:
        side.nodes.append(product)
    layer = next((layer for function, layer in _GATES if function == side.layers), None)
    if layer is None:
        raise Refused("its value has 2 readers")
    path.add({layer: {}}, side.nodes)


def _sole(node: fx.Node) -> fx.Node:
    """The single reader of a value within a product with it."""
    users = readers(node)
    if len(users) != 1:
        raise Refused("its value has 2 readers")
    return users[0]


def _only_reader(user: fx.Node, side: Path) -> fx.Node:
    """Adds one more node of a function, and returns its reader."""
    if user.target not in ROWS or len(side.layers) > 3:
        raise Refused("its value has 2 readers")
    ROWS[user.target](user, side)
    return _sole(side.last)


@_row(aten._prelu_kernel.default)
def _prelu(node: fx.Node, path: Path) -> None:
    slopes = arguments(node)["weight"]
    if slopes is path.last:
        raise Refused("slopes that depend on the input")
    count = math.prod(_numbers(value(slopes).shape))
    if count not in (1, path.channels):
        raise Refused("slopes for other than one or all channels")
    if slopes.target is aten.view.default and value(slopes.args[0]).dim() == 1:
        slopes = slopes.args[0]
    stored = _rounded_of(slopes)
    if stored is slopes:
        path.expect_float32("prelu", slopes)
    layer = {"name": path.fresh(), "num_parameters": count}
    path.add({"prelu": layer}, [node], weight=stored)


@_row(aten._to_copy.default)
def _convert(node: fx.Node, path: Path) -> None:
    dtype = value(node).dtype
    if not _only_converts(node) or dtype not in (torch.float32, path.dtype):
        raise Refused("a conversion")
    path.follow([node])


@_row(aten.clone.default)
def _clone(node: fx.Node, path: Path) -> None:
    order = arguments(node)["memory_format"]
    if order not in (None, torch.contiguous_format, torch.preserve_format):
        raise Refused("another memory format")
    path.follow([node])


_ATTRIBUTES: dict[torch._ops.OpOverload, tuple[str, dict[str, str]]] = {
    aten.relu.default: ("relu", {}),
    aten.silu.default: ("silu", {}),
    aten.sigmoid.default: ("sigmoid", {}),
    aten.tanh.default: ("tanh", {}),
    aten.hardswish.default: ("hardswish", {}),
    aten.hardsigmoid.default: ("hardsigmoid", {}),
    aten.mish.default: ("mish", {}),
    aten.leaky_relu.default: ("leaky_relu", {"negative_slope": "negative_slope"}),
    aten.softplus.default: ("softplus", {"beta": "beta", "threshold": "threshold"}),
    aten.elu.default: ("elu", {"alpha": "alpha"}),
    aten.hardtanh.default: ("clamp", {"min_val": "min", "max_val": "max"}),
    aten.clamp.default: ("clamp", {"min": "min", "max": "max"}),
    aten.clamp_min.default: ("clamp", {"min": "min"}),
    aten.clamp_max.default: ("clamp", {"max": "max"}),
    aten.clamp.Tensor: ("clamp", {"min": "min", "max": "max"}),
    aten.clamp_min.Tensor: ("clamp", {"min": "min"}),
    aten.clamp_max.Tensor: ("clamp", {"max": "max"}),
}
"""Functions of single values: the layer, and what its attributes are called in each."""


_COPIES = (aten.clone.default, aten.detach.default)
"""What gives a value as it is, where nothing writes to it."""


def is_copy(node: fx.Node) -> bool:
    """Whether a node passes its operand on unchanged, and only elementwise functions read it."""
    if node.target not in _COPIES or not readers(node):
        return False
    order = arguments(node).get("memory_format")
    return order in (None, torch.preserve_format) and all(
        one.target in POINTWISE for one in readers(node)
    )


POINTWISE = frozenset({*_ATTRIBUTES, *_ARITHMETIC, aten.neg.default, aten.gelu.default})
"""Functions of single values, of their type and shape, where they have one operand."""


@_row(*_ATTRIBUTES)
def _pointwise(node: fx.Node, path: Path) -> None:
    layer, names = _ATTRIBUTES[node.target]
    a = arguments(node)
    if layer == "elu" and (a["scale"], a["input_scale"]) != (1, 1):
        raise Refused("an elu with scales")
    if a["self"] is not path.last:
        raise Refused("a bound that depends on the input")
    _expect_alike(node, path)
    given = {ours: _constant(a[theirs]) for theirs, ours in names.items() if a[theirs] is not None}
    if None in given.values():
        raise Refused("an attribute is no known number")
    path.add({layer: given}, [node])


@_row(aten.gelu.default)
def _gelu(node: fx.Node, path: Path) -> None:
    path.add({"gelu": {"approximate": arguments(node)["approximate"]}}, [node])


def _windows(a: dict[str, Any], axes: int, names: Sequence[str]) -> dict[str, Any]:
    found = {}
    for name in names:
        numbers = _numbers(a[name] if isinstance(a[name], (list, tuple)) else [a[name]])
        if numbers:
            found[name] = numbers * axes if len(numbers) == 1 else numbers
    return found | {"ceil_mode": a["ceil_mode"]}


_MAX_POOLS = {
    aten.max_pool2d_with_indices.default: 2,
    aten.max_pool3d_with_indices.default: 3,
}


@_row(*_MAX_POOLS, first="max pool")
def _max_pool(node: fx.Node, path: Path) -> None:
    axes = _MAX_POOLS[node.target]
    _expect_axes(path, axes)
    names = ("kernel_size", "stride", "padding", "dilation")
    layer = _windows(arguments(node), axes, names)
    path.add({f"max_pool{axes}d": layer}, [node, _result(node)])


_AVERAGE_POOLS = {aten.avg_pool2d.default: 2, aten.avg_pool3d.default: 3}


@_row(*_AVERAGE_POOLS, first="average pool")
def _average_pool(node: fx.Node, path: Path) -> None:
    a, axes = arguments(node), _AVERAGE_POOLS[node.target]
    _expect_axes(path, axes)
    layer = _windows(a, axes, ("kernel_size", "stride", "padding"))
    layer["count_include_pad"] = a["count_include_pad"]
    if a["divisor_override"] is not None:
        layer["divisor_override"] = a["divisor_override"]
    path.add({f"avg_pool{axes}d": layer}, [node])


@_whole(aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)
def _adaptive_max_pool(node: fx.Node, path: Path) -> None:
    rank = path.known.dim()
    _expect_axes(path, 3 if node.target is aten.adaptive_max_pool3d.default else 2)
    if any(one != 1 for one in arguments(node)["output_size"]):
        raise Refused("an adaptive pool of another size than 1")
    path.add({"max": {"dim": list(range(2, rank)), "keepdim": True}}, [node, _result(node)])


@_whole(aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default)
def _average_bins(node: fx.Node, path: Path) -> None:
    sizes, extents = _numbers(arguments(node)["output_size"]), path.known.shape[2:]
    if any(extent % size for size, extent in zip(sizes, extents)):
        raise Refused(f"an adaptive pool to {sizes}, which does not divide {list(extents)}")
    path.add({f"adaptive_avg_pool{len(sizes)}d": {"output_size": sizes}}, [node])


def _max_pool_within(node: fx.Node, path: Path) -> None:
    """A maximum pool over explicit padding with the least value, equal to the pool's own padding: one more at
    the end is ``ceil_mode``."""
    pairs = _pad_widths(node, path)
    users = readers(node)
    if len(users) != 1 or users[0].target not in _MAX_POOLS:
        raise Refused("padding with another value than 0 and no maximum of windows behind it")
    (pool,) = users
    axes = _MAX_POOLS[pool.target]
    names = ("kernel_size", "stride", "padding", "dilation")
    layer = _windows(arguments(pool), axes, names)
    kernel, dilation = layer["kernel_size"], layer["dilation"]
    stride = layer.setdefault("stride", kernel)
    ceil_mode = any(a != b for a, b in pairs)
    # Rounding up adds at most one step less one, for any extents, and every window must begin before the
    # padding at the end.
    room = [step - 1 if ceil_mode else 0 for step in stride]
    spans = [each * (taps - 1) + 1 for each, taps in zip(dilation, kernel)]
    if (
        len(pairs) != axes
        or any(layer["padding"])
        or layer["ceil_mode"]
        or any(b - a != more for (a, b), more in zip(pairs, room))
        or any(span < a + step for (a, _), span, step in zip(pairs, spans, stride))
    ):
        raise Refused("padding that differs from what a maximum of windows has itself")
    layer["padding"], layer["ceil_mode"] = [a for a, _ in pairs], ceil_mode
    path.add({f"max_pool{axes}d": layer}, [node, pool, _result(pool)])


def _expect_axes(path: Path, axes: int) -> None:
    if path.known.dim() != axes + 2:
        raise Refused("a pool of what has no batch")
    path.channels  # noqa: B018  refuses where there are none


@_row(aten.mean.dim)
def _mean(node: fx.Node, path: Path) -> None:
    a, dim = arguments(node), path.known.dim()
    over = sorted(one % dim for one in _numbers(a["dim"] or []))
    if dim in (4, 5) and over == list(range(2, dim)) and a["keepdim"] and a["dtype"] is None:
        path.add({f"adaptive_avg_pool{dim - 2}d": {"output_size": 1}}, [node])
    else:
        _reduction(node, path)


@_row(aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default)
def _adaptive_average_pool(node: fx.Node, path: Path) -> None:
    axes = path.known.dim() - 2
    if _numbers(arguments(node)["output_size"]) != [1] * axes:
        raise Refused("an adaptive pool of another size than 1")
    path.add({f"adaptive_avg_pool{axes}d": {"output_size": 1}}, [node])


_SOFTMAX = {aten._softmax.default: "softmax", aten._log_softmax.default: "log_softmax"}


def _share(node: fx.Node, path: Path, over: Sequence[int], nodes: Sequence[fx.Node]) -> None:
    if arguments(node)["half_to_float"]:
        raise Refused("a softmax of another type than its input")
    path.add({_SOFTMAX[node.target]: {"dim": list(over)}}, nodes)


@_row(*_SOFTMAX, first="softmax")
def _softmax(node: fx.Node, path: Path) -> None:
    _share(node, path, [arguments(node)["dim"] % path.known.dim()], [node])


def _softmax_of_view(view: fx.Node, node: fx.Node, path: Path) -> None:
    """A softmax over adjacent axes, which are joined to one axis for it."""
    shape, flat = path.known.shape, value(view).shape
    first = arguments(node)["dim"] % len(flat)
    last = first + len(shape) - len(flat)
    joined = (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :])
    back = readers(node)
    if last < first or not same(flat, joined) or len(back) != 1:
        raise Refused("a view")
    if back[0].target is not aten.view.default or not same(value(back[0]).shape, shape):
        raise Refused("a softmax whose result is not of its input's shape")
    _share(node, path, range(first, last + 1), [view, node, back[0]])


REDUCTIONS = {
    aten.amax.default: "max",
    aten.max.dim: "max",
    aten.amin.default: "min",
    aten.min.dim: "min",
    aten.sum.dim_IntList: "sum",
    aten.mean.dim: "mean",
    aten.logsumexp.default: "logsumexp",
}


def reduces_to_no_channels(layer: dict[str, Any]) -> bool:
    """Whether the channels are reduced away."""
    ((operator, attributes),) = layer.items()
    is_reduction = operator in REDUCTIONS.values()
    return is_reduction and 1 in attributes["dim"] and not attributes.get("keepdim")


@_row(*(one for one in REDUCTIONS if one is not aten.mean.dim))
def _reduction(node: fx.Node, path: Path) -> None:
    a, rank = arguments(node), path.known.dim()
    over = [a["dim"]] if isinstance(a["dim"], int) else _numbers(a["dim"] or [])
    over = sorted(one % rank for one in over)
    if not over or over[0] == 0:
        raise Refused("a reduction over the batch")
    if a.get("dtype") is not None:
        raise Refused("a reduction of another type than its input")
    layer = {"dim": over, "keepdim": True} if a["keepdim"] else {"dim": over}
    several = node.target in (aten.max.dim, aten.min.dim)
    path.add({REDUCTIONS[node.target]: layer}, [node, _result(node)] if several else [node])


@_whole(*PRODUCTS)
def _product(node: fx.Node, path: Path) -> None:
    """A linear map, as tracing decomposes it."""
    _linear_map([node], path, *_factors(node, path.x), {})


@_whole(aten._unsafe_index.Tensor)
def _indexed(node: fx.Node, path: Path) -> None:
    """Upsampling to the nearest pixels, as tracing decomposes it: an index for each spatial axis."""
    x, a = path.known, arguments(node)
    axes = x.dim() - 2
    before, of_axes = a["indices"][:2], a["indices"][2:]
    if axes < 1 or any(one is not None for one in before) or len(of_axes) != axes or None in of_axes:
        raise Refused("an index of other than all pixels")
    extents = _numbers(x.shape[2:])
    sizes = _numbers(value(node).shape[2:])
    with _disable_current_modes():
        indices = [_evaluated(one) for one in of_axes]
        for mode, offset in (("nearest", 0.0), ("nearest-exact", 0.5)):
            nearest = [
                ((torch.arange(size) + offset) * (extent / size)).long().reshape([size] + [1] * behind)
                for size, extent, behind in zip(sizes, extents, reversed(range(axes)))
            ]
            if all(torch.equal(one, other) for one, other in zip(indices, nearest)):
                break
        else:
            raise Refused("an index of other than the nearest pixels")
    path.add({"upsample": {"mode": mode, "size": sizes}}, [node])


def _evaluated(node: fx.Node) -> torch.Tensor:
    """The value of a node that depends on no input of the graph, on the CPU."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        raise Refused("an index that depends on the input")
    named = {name: one for name, one in node.kwargs.items() if name != "pin_memory"}
    named |= {"device": torch.device("cpu")} if "device" in named else {}
    values = {one: _evaluated(one) for one in node.all_input_nodes}
    given, named = fx.map_arg((node.args, named), values.__getitem__)
    return node.target(*given, **named)
