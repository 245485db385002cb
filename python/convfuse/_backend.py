"""The Dynamo backend: regions of the ATen graph become calls of the operator, the rest stays PyTorch's.

There are two doors. ``torch.compile(model, backend="convfuse")`` is :func:`convfuse`, which has inductor compile the rest;
:func:`convfuse.fuse` has a :class:`Kernels`, under which the rest runs by PyTorch's own kernels.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config as functorch_config
from torch._functorch.aot_autograd import make_boxed_func
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from . import _precision
from ._precision import Precision, expect_precision
from ._regions import Region, find, put, tidy
from ._report import Entry, Report
from ._table import ROWS

__all__ = ["Kernels", "Options", "Program", "convfuse"]

_log = logging.getLogger("convfuse")

_OURS = ("cpu", "precision")


@dataclass(frozen=True)
class Options:
    """What callers may choose."""

    precision: Precision = "auto"
    cpu: bool = False
    """Whether tensors on the CPU are taken as well."""

    def __post_init__(self) -> None:
        expect_precision(self.precision)
        if not isinstance(self.cpu, bool):
            raise TypeError(f"convfuse: cpu is {self.cpu!r}, must be True or False")


def left_to_pytorch(inputs: Sequence[Any]) -> str | None:
    """Why a graph with these inputs is none of ours, if it is none. Dynamo guards whatever this asks."""
    tensors = [one for one in inputs if isinstance(one, torch.Tensor)]
    if torch.is_grad_enabled() and any(one.requires_grad for one in tensors):
        return "gradients are recorded"
    if torch._C._functorch.maybe_current_level() is not None:
        return "a transform of torch.func is at work"
    if torch.autograd.forward_ad._current_level >= 0:
        return "tangents are carried along"
    if any(is_traceable_wrapper_subclass(one) for one in tensors):
        return "an input is of a subclass of torch.Tensor"
    return None


def _fast(regions: Collection[Region], precision: Precision) -> bool:
    """Whether float32 is multiplied fast. PyTorch's settings are about GPUs; they are asked, and guarded, only where they matter."""
    if not any(one.multiplies and one.dtype is torch.float32 for one in regions):
        return False
    is_cpu = all(one.inputs[0].meta["val"].device.type == "cpu" for one in regions)
    if is_cpu and precision == "auto":
        return False
    return _precision.guarded(precision)


@dataclass(eq=False)
class Program:
    """A graph with its regions, of which any may be called for or left to PyTorch."""

    graph_module: fx.GraphModule
    regions: list[Region]
    entries: list[Entry]
    fast: bool
    run: Callable[..., Any] = field(init=False)
    refused: frozenset[Any] | None = field(init=False, default=None)

    @classmethod
    def of(cls, graph_module: fx.GraphModule, options: Options) -> Program:
        """The program of a graph of ATen operators."""
        tidy(graph_module.graph)
        regions, entries = find(graph_module.graph, options.cpu)
        return cls(graph_module, regions, entries, _fast(regions, options.precision))

    def forget(self) -> None:
        """Keeps nothing that is known of values: it refers to the tensors of the example."""
        for node in self.graph_module.graph.nodes:
            node.meta = {}

    def without(self, refused: Collection[Any]) -> fx.GraphModule:
        """The graph with calls for the regions whose keys are not among these."""
        nodes: dict[fx.Node, fx.Node] = {}
        copied = _copied(self.graph_module, nodes)
        kept = [one.moved(nodes) for one in self.regions if one.key not in refused]
        put(copied.graph, kept, self.fast)
        copied.recompile()
        return copied

    def build(self, refused: Collection[Any]) -> None:
        """Has calls run by PyTorch's own kernels but for these regions."""
        refused = frozenset(refused)
        if self.refused != refused:
            self.run = self.without(refused).forward
            self.refused = refused
        for region in self.regions:
            region.entry.taken = region.key not in refused


@dataclass(eq=False)
class Kernels:
    """The backend under which all but regions runs by PyTorch's own kernels."""

    options: Options
    refused: set[Any] = field(default_factory=set)
    """The keys of regions that are left to PyTorch."""
    programs: list[Program] = field(default_factory=list)
    left: dict[str, int] = field(default_factory=dict)
    """Why graphs were left to PyTorch, and how many."""
    was_called: bool = False
    """Whether a call has gone well."""

    def __call__(self, graph_module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        why = left_to_pytorch(inputs)
        if why is not None:
            self.left[why] = self.left.get(why, 0) + 1
            return graph_module.forward
        made: list[Program] = []

        def compiler(aten: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
            program = Program.of(_copied(aten), self.options)
            program.forget()
            program.build(self.refused)
            made.append(program)
            return make_boxed_func(lambda *arguments: program.run(*arguments))

        compiled = aot_autograd(fw_compiler=compiler, inference_compiler=compiler)
        run = compiled(graph_module, inputs)
        self.programs += made
        return run if any(one.regions for one in made) else graph_module.forward

    def build(self) -> None:
        """Has all programs leave to PyTorch what is refused now."""
        for program in self.programs:
            program.build(self.refused)

    def report(self) -> Report:
        """What was taken of the graphs so far."""
        entries = [entry for program in self.programs for entry in program.entries]
        return Report(entries, [("a graph", why) for why in self.left])


def _copied(
    graph_module: fx.GraphModule, nodes: dict[fx.Node, fx.Node] | None = None
) -> fx.GraphModule:
    """A copy, with what is known of values. ``nodes`` is given the new nodes by the old ones."""
    copied = fx.Graph()
    output = copied.graph_copy(graph_module.graph, {} if nodes is None else nodes)
    copied.output(output)
    return fx.GraphModule(graph_module, copied)


def convfuse(
    graph_module: fx.GraphModule,
    inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """The backend ``"convfuse"`` of ``torch.compile``: regions are calls of the operator, inductor compiles the rest.

    ``options`` may have ``precision`` and ``cpu``, as :func:`convfuse.fuse` takes them, and inductor's own; ``mode`` is inductor's.
    Dynamo lets go of tensors after it compiled for a backend that is registered by its name, as this one is, so a fused model's
    ``kernels`` come here, too.
    """
    given = dict(options or {})
    if "kernels" in given:
        return given["kernels"](graph_module, inputs)
    from torch._inductor import list_mode_options
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table

    ours = Options(**{name: given.pop(name) for name in _OURS if name in given})
    patches = {**(list_mode_options(mode) if mode else {}), **given}
    patches = {name.replace("-", "_"): one for name, one in patches.items()}
    why = left_to_pytorch(inputs)
    if why is not None:
        _log.info("a graph is left to inductor: %s", why)
        return compile_fx(graph_module, inputs, config_patches=patches)
    table = select_decomp_table()

    def inner(aten: fx.GraphModule, examples: Sequence[Any], **named: Any) -> Any:
        program = Program.of(aten, ours)
        _log.info("%s", Report(program.entries))
        put(aten.graph, program.regions, program.fast)
        _decompose(aten, table)
        aten.recompile()
        return compile_fx_inner(aten, examples, **named)

    whole = {one: how for one, how in table.items() if one not in ROWS}
    # What is cached of a whole graph does not know which backend it was for.
    with functorch_config.patch(enable_autograd_cache=False):
        return compile_fx(
            graph_module, inputs, inner_compile=inner, decompositions=whole, config_patches=patches
        )


def _decompose(graph_module: fx.GraphModule, table: dict[Any, Callable[..., Any]]) -> None:
    """Has operators that were kept whole for regions be those that inductor has kernels for."""
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = graph_module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in ROWS or node.target not in table:
            continue
        nodes = [one for one in node.all_input_nodes]
        examples = [one.meta["val"] for one in nodes]
        target = node.target

        def call(*values: Any, nodes=nodes, node=node, target=target) -> Any:
            known = dict(zip(nodes, values))
            arguments, named = fx.map_arg((node.args, node.kwargs), known.__getitem__)
            return target(*arguments, **named)

        part = make_fx(call, decomposition_table=table)(*examples)
        known = dict(zip((n for n in part.graph.nodes if n.op == "placeholder"), nodes))
        with graph.inserting_before(node):
            results = graph.graph_copy(part.graph, known)
        for inner in known.values():
            for key in ("nn_module_stack", "stack_trace"):
                if key in node.meta and inner not in nodes:
                    inner.meta.setdefault(key, node.meta[key])
        _replace(node, results)
    graph.eliminate_dead_code()


def _replace(node: fx.Node, results: Any) -> None:
    """Has readers of a node read these results, of which a tuple is read by its items."""
    if isinstance(results, fx.Node):
        node.replace_all_uses_with(results)
    else:
        for item in list(node.users):
            item.replace_all_uses_with(results[item.args[1]])
            item.graph.erase_node(item)
    node.graph.erase_node(node)
