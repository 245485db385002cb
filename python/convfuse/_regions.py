"""Regions of ATen graphs that become one call of the operator.

A region is a path of values without other readers, in which the table maps each value to a layer of a chain.
The product of a value with a function of it counts as one layer where the chain has such a layer. Arithmetic
may read an earlier value of the path again if only functions are in between. A region begins with a
convolution, a norm or a softmax, and grows as long as there are layers. It ends at the last value with the
type of its input, so that it rounds nothing that PyTorch would not.
"""

from __future__ import annotations

import math
import pathlib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from operator import getitem
from typing import Any
from zlib import crc32

import torch
from torch import fx

from . import _native
from ._chain import parsed
from ._report import Entry
from ._table import FIRST, POINTWISE, ROWS, Path, Refused, gate, is_copy, is_read_until, operand, readers, same, value
from .ops import OPERATORS, operator_of

__all__ = [
    "Region",
    "channels_last",
    "count_together",
    "counters",
    "find",
    "has_channels_last",
    "hints",
    "is_norm",
    "put",
    "tidy",
    "where",
]

aten = torch.ops.aten

_PADS = (
    aten.constant_pad_nd.default,
    aten.reflection_pad1d.default,
    aten.reflection_pad2d.default,
    aten.replication_pad1d.default,
    aten.replication_pad2d.default,
    aten.replication_pad3d.default,
)


def is_norm(operator: str, attributes: dict[str, Any]) -> bool:
    """Whether a layer is a norm that PyTorch computes in several passes over its input."""
    if operator == "batch_norm":
        return attributes.get("training", False) or not attributes.get("track_running_stats", True)
    return operator in ("group_norm", "instance_norm", "layer_norm")


# Operators that read values in any memory order and always write a new tensor.
_WRITE_ANEW = (aten.cat.default, aten.convolution.default)

# Part of the names of calls in graphs, and thus of the keys of inductor's cache on disk. The cache includes
# neither the fake implementation nor the memory order of inputs otherwise.
_KNOWN = b"".join(
    pathlib.Path(__file__).with_name(one).read_bytes()
    for one in ("_chain.py", "_layers.py", "_networks.py", "_regions.py", "ops.py")
)
# A name that ended in digits alone would lose them in the next name.
_NAME = f"convfuse_v{crc32(_KNOWN):08x}"

# Metadata of a node that do not apply to its replacement.
_OF_THE_OPERATOR = frozenset({"tensor_meta", "eager_input_vals"})


@dataclass
class Region:
    """Nodes that form a chain."""

    text: str
    """The chain."""
    operators: list[str]
    """Its layers."""
    dtype: torch.dtype
    inputs: list[fx.Node]
    parameters: list[fx.Node]
    """In the order of the chain's table."""
    nodes: list[fx.Node]
    """Those that go."""
    outputs: list[fx.Node]
    """Those whose values the operator gives: of a chain the last one."""
    is_dense: bool
    """Whether PyTorch's value is dense, and the operator's, which is channels-last if the input is or :attr:`is_last` says so."""
    renewed: dict[fx.Node, fx.Node]
    """New running statistics, by the parameters that a run writes them to."""
    entry: Entry
    is_last: bool = False
    """Whether the value is to be channels-last whatever the input is."""
    inputs_last: frozenset[fx.Node] = frozenset()
    """Inputs that are channels-last where all regions are the operator's."""
    is_network: bool = False
    """Whether the text is a network."""

    @property
    def is_float32_product(self) -> bool:
        """Whether the math mode of float32 matters."""
        is_product = any(one.startswith("conv") for one in self.operators)
        return is_product and self.dtype is torch.float32

    @property
    def has_weights_last(self) -> bool:
        """Whether weights are channels-last."""
        return has_channels_last(self.parameters)

    @property
    def key(self) -> tuple[str, torch.dtype]:
        """A key that is equal for regions with the same layers."""
        return self.text, self.dtype

    def moved(self, nodes: dict[fx.Node, fx.Node]) -> Region:
        """The same region in a copy of the graph. ``nodes`` maps this graph's nodes to the copy's."""
        lists = {
            name: [nodes[one] for one in getattr(self, name)]
            for name in ("inputs", "parameters", "nodes", "outputs")
        }
        renewed = {nodes[one]: nodes[new] for one, new in self.renewed.items()}
        return replace(self, **lists, renewed=renewed)


def tidy(graph: fx.Graph) -> bool:
    """Removes views, conversions, copies and paddings without effect, and duplicates of any of these, since
    they would cut paths. Returns whether the memory order of values may have changed."""
    seen: dict[tuple[Any, ...], fx.Node] = {}
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if node.target is aten.view.default:
            source = node.args[0]
            while source.target is aten.view.default:
                source = source.args[0]
            if "val" not in source.meta or "val" not in node.meta:
                continue
            if same(value(source).shape, value(node).shape):
                node.replace_all_uses_with(source)
            elif source is not node.args[0]:
                node.update_arg(0, source)
        elif node.target is aten._to_copy.default:
            key = (node.args, *sorted(node.kwargs.items(), key=lambda one: one[0]))
            known = seen.setdefault(key, node)
            if known is not node:
                node.replace_all_uses_with(known)
    is_moved = False
    for node in reversed(graph.nodes):
        if node.op != "call_function":
            continue
        is_padding = _pads_nothing(node)
        if is_padding or is_copy(node):
            is_moved |= is_padding
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    _join_joined(graph)
    graph.eliminate_dead_code()
    return is_moved


def _join_joined(graph: fx.Graph) -> None:
    """Lets a concatenation that begins with all operands of an earlier one read that one's result. The layers
    of a DenseNet join their values so; each would copy all of them one by one."""
    joined: dict[tuple[Any, ...], fx.Node] = {}
    for node in graph.nodes:
        if node.target is not aten.cat.default:
            continue
        operands, dim = tuple(node.args[0]), node.args[1] if len(node.args) > 1 else 0
        for length in range(len(operands) - 1, 1, -1):
            before = joined.get((dim, *operands[:length]))
            if before is not None:
                node.args = ([before, *operands[length:]], dim)
                break
        joined.setdefault((dim, *operands), node)


def _pads_nothing(node: fx.Node) -> bool:
    """Whether a node pads by 0, and only convolutions and concatenations read it. Some networks pad in case
    extents are odd. PyTorch's result is dense in either case."""
    if node.target not in _PADS or any(one.target not in _WRITE_ANEW for one in node.users):
        return False
    return all(type(one) is int and one == 0 for one in node.args[1])


def where(node: fx.Node) -> str:
    """The path of the module that a node belongs to, as far as it is known."""
    stack = node.meta.get("nn_module_stack") or {}
    name = next(reversed(stack.values()), ("",))[0] if stack else ""
    name = re.sub(r"^L\['\w+'\]", "", name)
    return re.sub(r"\._modules\['(\w+)'\]", r".\1", name).removeprefix(".")


class _Finder:
    """Finds regions in the order of a graph."""

    def __init__(self, cpu: bool) -> None:
        self.cpu = cpu
        self.taken: set[fx.Node] = set()

    def start(self, node: fx.Node) -> Path:
        """The path that begins with a node, with the padding before it, or with the dense copy before
        PyTorch's norms."""
        x, first = operand(node), node
        is_norm = FIRST.get(node.target, "instance norm") in ("group norm", "instance norm")
        is_copied = is_norm and x.target is aten.clone.default
        is_padded = node.target is aten.convolution.default and x.target in _PADS
        if (is_copied or is_padded) and len(x.users) == 1:
            try:
                path = Path(operand(x))
                ROWS[x.target](x, path)
                ROWS[first.target](first, path)
                return path
            except Refused:
                pass
        path = Path(x)
        ROWS[first.target](first, path)
        return path

    def region(self, node: fx.Node) -> Region | Entry:
        """The region that begins with a node, or the reason why there is none."""
        entry = Entry(where(node), FIRST.get(node.target, "instance norm"), False, "")
        try:
            device = value(operand(node)).device.type
            if device != "cuda" and not (self.cpu and device == "cpu"):
                raise Refused(f"on the {device.upper()}, where PyTorch's operators stay")
            path = self.start(node)
        except Refused as refused:
            entry.reason = str(refused)
            return entry
        best, why = self.grow(path)
        if best is None:
            entry.reason = f"{why}; its value is not of the type of its input before that"
            return entry
        layers, inputs, count, last = best
        path.layers, path.inputs = path.layers[:layers], path.inputs[:inputs]
        nodes = path.nodes[:count]
        entry.chain, entry.reason = " ".join(path.operators), f"ends since {why}"
        try:
            _expect_worth(path.layers)
            _expect_shape(path, value(last))
            parameters = [path.parameters[name] for name in parsed(path.text).names]
            renewed = {one: new for one, new in path.renewed.items() if one in parameters}
            if is_read_until(nodes[-1], renewed):
                raise Refused("its new running statistics are read before it ends")
            self.move_extents(path, nodes)
        except Refused as refused:
            entry.reason = str(refused)
            return entry
        entry.taken = True
        return Region(
            text=path.text,
            operators=path.operators,
            dtype=path.dtype,
            inputs=path.inputs,
            parameters=parameters,
            nodes=nodes,
            outputs=nodes[-1:],
            is_dense=value(last).is_contiguous() and value(path.x).is_contiguous(),
            renewed=renewed,
            entry=entry,
        )

    def move_extents(self, path: Path, nodes: list[fx.Node]) -> None:
        """Replaces extents of values within a region that other nodes read by those of values that stay: its
        inputs or its output."""
        own, last = {*nodes, *path.renewed.values()}, nodes[-1]
        for extent in [one for node in nodes[:-1] for one in node.users if one not in own]:
            if _is_read_within(extent, own):
                continue
            known = extent.meta["val"]
            for source in (*path.inputs, last):
                axes = [i for i, one in enumerate(value(source).shape) if same([one], [known])]
                behind = all(one > last for one in extent.users if not _is_read_within(one, own))
                if axes and (source is not last or behind):
                    place = extent.graph.inserting_before(extent)
                    if source is last:
                        place = extent.graph.inserting_after(last)
                    with place:
                        new = extent.graph.call_function(aten.sym_size.int, (source, axes[0]))
                    new.meta = extent.meta.copy()
                    outside = [one for one in extent.users if not _is_read_within(one, own)]
                    for one in outside:
                        one.replace_input_with(extent, new)
                    break
            else:
                raise Refused("its extents are read before it is computed")

    def grow(self, path: Path) -> tuple[tuple[int, int, int, fx.Node] | None, str]:
        """Extends a path while there are layers. Returns the length of the path where its value last had the
        type of its input, and the reason why it ends."""
        best, why = None, ""
        # Readers, other than the next layer, of the path's values that are not yet on the path.
        missing: set[fx.Node] = set()
        while True:
            missing.difference_update(path.nodes)
            if not missing and path.padding is None and path.known.dtype is path.dtype:
                best = len(path.layers), len(path.inputs), len(path.nodes), path.last
            users = readers(path.last)
            if len(users) > 1 and not missing:
                try:
                    gate(path)
                    continue
                except Refused:
                    missing, why = set(users), f"its value has {len(users)} readers"
            elif len(users) != 1:
                return best, why if missing else f"its value has {len(users)} readers"
            user = min(users)
            if user.op == "output":
                return best, why if missing else "the graph ends"
            row = ROWS.get(user.target)
            if missing and user.target not in POINTWISE:
                return best, why
            if row is None or user in self.taken:
                return best, f"{user.name} is no layer"
            try:
                row(user, path)
            except Refused as refused:
                return best, why if missing else f"{user.name} is no layer of it: {refused}"


def _is_read_within(node: fx.Node, region: set[fx.Node]) -> bool:
    """Whether only a region's nodes read a value or values computed from it."""
    return node in region or (
        node.op == "call_function"
        and bool(node.users)
        and all(_is_read_within(one, region) for one in node.users)
    )


def _expect_worth(layers: list[dict[str, Any]]) -> None:
    """Refuses layers that PyTorch also computes in one launch."""
    if len(layers) == 1 and any(name == "batch_norm" and not is_norm(name, a) for name, a in layers[0].items()):
        raise Refused("a batch norm by itself")


def _expect_shape(path: Path, y: torch.Tensor) -> None:
    """Refuses layers that the library refuses for this input, or that give another shape. Symbols have their
    example values."""

    def numbers(shape: Any) -> list[int]:
        return [one if type(one) is int else one.node.hint for one in shape]

    shape, expected = numbers(value(path.x).shape), numbers(y.shape)
    if None in shape or None in expected or 0 in shape:
        raise Refused("its shape is not known, or empty")
    try:
        actual = _native.output_shape(path.text, shape)
    except ValueError as error:
        raise Refused(str(error).removeprefix("convfuse: ")) from None
    if actual != expected:
        raise Refused(f"its output would be of shape {actual}, is {expected}")


def find(graph: fx.Graph, cpu: bool) -> tuple[list[Region], list[Entry]]:
    """The regions of a tidy graph, and an entry for each place where one could begin."""
    finder, regions, entries = _Finder(cpu), [], []
    for node in graph.nodes:
        if not _begins(node) or node in finder.taken:
            continue
        found = finder.region(node)
        if isinstance(found, Region):
            finder.taken.update(found.nodes)
            regions.append(found)
            entries.append(found.entry)
        else:
            entries.append(found)
    # Like PyTorch's convolutions, which take the memory order of their weights. Weights of one channel have
    # no distinct order.
    are_last = any(one.has_weights_last for one in regions)
    for one in regions:
        is_of_one = one.operators[0].startswith("conv") and same(value(one.inputs[0]).shape[1:2], [1])
        one.is_last = one.has_weights_last or are_last and is_of_one
        one.is_dense = one.is_dense and not one.is_last
    last = _written_last(graph, {one.outputs[0]: one for one in regions})
    for one in regions:
        one.inputs_last = frozenset(one.inputs) & last
    return regions, entries


def _written_last(graph: fx.Graph, regions: dict[fx.Node, Region]) -> set[fx.Node]:
    """The channels-last values, if these regions have the operator's outputs."""
    last: set[fx.Node] = set()
    for node in graph.nodes:
        region = regions.get(node)
        if region is None:
            is_last = _is_written_last(node, last)
        else:
            call = _call_of(node)
            first = call.args[0][0] if call.target in OPERATORS else region.inputs[0]
            is_images = "val" not in node.meta or value(node).dim() in (4, 5)
            is_last = is_images and (region.is_last or first in last)
        if is_last:
            last.add(node)
    return last


def counters(graph: fx.Graph) -> list[list[fx.Node]]:
    """The writes of counters that are increased by the same number, such as those of the batches that batch
    norms have seen in training. Nothing else reads or writes them."""
    found: dict[tuple[Any, ...], list[fx.Node]] = {}
    for node in graph.nodes:
        if node.target is not aten.copy_.default or node.users:
            continue
        counter, new = node.args[:2]
        known = counter.meta.get("val")
        if (
            isinstance(known, torch.Tensor)
            and known.dim() == 0
            and new.target is aten.add.Tensor
            and new.args[0] is counter
            and type(new.args[1]) is int
            and not new.kwargs
            and set(counter.users) == {new, node}
            and set(new.users) == {node}
        ):
            found.setdefault((known.dtype, known.device, new.args[1]), []).append(node)
    return [each for each in found.values() if len(each) > 1]


def count_together(graph: fx.Graph, writes: Sequence[fx.Node]) -> None:
    """Replaces these writes of counters by one operator."""
    new = writes[-1].args[1]
    with graph.inserting_before(writes[-1]):
        counters = [one.args[0] for one in writes]
        graph.call_function(aten._foreach_add_.Scalar, (counters, new.args[1]))
    for write in writes:
        new = write.args[1]
        graph.erase_node(write)
        graph.erase_node(new)


def _call_of(node: fx.Node) -> fx.Node:
    """The call of the operator that a value is a result of, or the node itself."""
    return node.args[0] if node.target is getitem and node.args[0].target in OPERATORS else node


def _move_behind(graph: fx.Graph, results: Sequence[fx.Node]) -> None:
    """Moves the readers of a network's results behind these. They may be between nodes of the network."""
    late, place = set(results), results[-1]
    for node in list(graph.nodes):
        if node in late:
            return
        if not late.isdisjoint(node.all_input_nodes):
            late.add(node)
            place.append(node)
            place = node


def _begins(node: fx.Node) -> bool:
    if node.op != "call_function":
        return False
    if node.target is aten.view.default:
        return any(one.target is aten._native_batch_norm_legit.no_stats for one in node.users)
    if node.target is aten._native_batch_norm_legit.no_stats:
        # After a view of several samples, the region begins with that view.
        return operand(node).target is not aten.view.default
    return node.target in FIRST


def has_channels_last(parameters: Collection[fx.Node]) -> bool:
    """Whether one of these tensors is channels-last, but not also dense."""
    each = [one.meta.get("val") for one in parameters]
    tensors = [one for one in each if isinstance(one, torch.Tensor)]
    return any(is_channels_last(one) and not one.is_contiguous() for one in tensors)


def is_channels_last(known: torch.Tensor) -> bool:
    """Whether an image or a volume is dense in channels-last order. A dense single-channel one does not
    count."""
    axes = known.dim()
    if axes not in (4, 5):
        return False
    strides, step = [0] * axes, 1
    for axis in [1, *range(axes - 1, 1, -1), 0]:
        strides[axis] = step
        step = step * known.shape[axis]
    return same(known.stride(), strides)


def _is_written_last(node: fx.Node, last: Collection[fx.Node]) -> bool:
    """Whether a value not computed by the operator is channels-last: if it is in PyTorch, or if it is
    computed elementwise and most of its elements come from one of these values."""
    known = node.meta.get("val")
    if not isinstance(known, torch.Tensor) or known.dim() not in (4, 5):
        return False
    if is_channels_last(known):
        return True
    tags = getattr(node.target, "tags", ())
    if node.target not in (*_PADS, aten.cat.default) and torch.Tag.pointwise not in tags:
        return False
    made_of = {one: one.meta.get("val") for one in node.all_input_nodes}
    alike = {
        one: math.prod(hints(value.shape))
        for one, value in made_of.items()
        if isinstance(value, torch.Tensor) and value.dim() == known.dim()
    }
    are_last = sum(count for one, count in alike.items() if one in last)
    return 2 * are_last > sum(alike.values())


def hints(shape: Sequence[Any]) -> list[int]:
    """Extents, with the example's values for symbols."""
    return [one if type(one) is int else one.node.hint or 1 for one in shape]


def _kept(node: fx.Node, last: Collection[fx.Node]) -> torch.Tensor | None:
    """The value of an input whose memory order inductor must keep: a channels-last one that the operator did
    not compute, since the operator's outputs have their own order. Otherwise ``None``: inductor would write
    values of its own kernels densely."""
    known = node.meta.get("val")
    if not isinstance(known, torch.Tensor) or _call_of(node).target in OPERATORS:
        return None
    if is_channels_last(known):
        return known
    return channels_last(known) if node in last else None


def channels_last(one: torch.Tensor) -> torch.Tensor:
    """The image or volume in channels-last order."""
    order = torch.channels_last if one.dim() == 4 else torch.channels_last_3d
    return one.contiguous(memory_format=order)


def put(
    graph: fx.Graph,
    regions: Collection[Region],
    fast: bool,
    batch_invariant: bool,
    is_moved: bool = False,
) -> None:
    """Replaces each region with a call of the operator. ``fast`` selects the fast math mode of float32.
    ``is_moved`` tells whether values of the graph may have another memory order than PyTorch's."""
    calls: dict[fx.Node, fx.Node] = {}
    called: dict[fx.Node, Region] = {}
    for region in regions:
        last = region.nodes[-1]
        is_fast = fast and region.is_float32_product
        inputs, parameters = (
            [calls.get(one, one) for one in some] for some in (region.inputs, region.parameters)
        )
        with graph.inserting_before(last):
            arguments = inputs, parameters, region.text, is_fast, batch_invariant
            named = {"channels_last": True} if region.is_last else {}
            run = operator_of(region.text, len(region.outputs))
            call = graph.create_node("call_function", run, arguments, named, name=_NAME)
            results = [call]
            if len(region.outputs) > 1:
                results = [graph.call_function(getitem, (call, i)) for i, _ in enumerate(region.outputs)]
        for node, result in zip(region.outputs, results):
            result.meta = {key: one for key, one in node.meta.items() if key not in _OF_THE_OPERATOR}
            node.replace_all_uses_with(result)
            calls[node], called[result] = result, region
        if len(region.outputs) > 1:
            call.meta["val"] = [one.meta["val"] for one in results if "val" in one.meta]
        if region.is_network:
            _move_behind(graph, results)
        for parameter, new in region.renewed.items():
            new.replace_all_uses_with(parameter)
            for node in [one for one in parameter.users if one.target is aten.copy_.default]:
                if node.args[0] is node.args[1]:
                    node.replace_all_uses_with(parameter)
                    graph.erase_node(node)
    graph.eliminate_dead_code()
    # Inductor must write an input channels-last if it is so in PyTorch, or if its own kernels compute it
    # from such values.
    known = _written_last(graph, called)
    for call in dict.fromkeys(_call_of(one) for one in called):
        kept = [_kept(one, known) for one in call.args[0]]
        call.meta["eager_input_vals"] = (kept, *[None] * 4), {one: None for one in call.kwargs}
    if all(one.is_dense for one in regions) and not is_moved:
        return
    # The operator's output may have another memory order than PyTorch's, and may not allow a view in another
    # shape.
    for node in graph.nodes:
        if node.op == "call_function" and node.target in (
            aten.view.default,
            aten._unsafe_view.default,
        ):
            node.target = aten.reshape.default
