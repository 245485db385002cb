"""The Dynamo backend: regions of the ATen graph become calls of the operator, PyTorch runs the rest.

There are two entry points. :func:`convfuse.fuse` uses :class:`Kernels`, which runs the rest with PyTorch's
own kernels. ``torch.compile(model, backend="convfuse")`` uses :mod:`convfuse._inductor`, where inductor
compiles the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx, nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.guards import GuardBuilder
from torch._functorch.aot_autograd import make_boxed_func
from torch._guards import TracingContext
from torch._subclasses import FakeTensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from . import _precision
from ._choice import CHOICES, Choice, is_worthwhile
from ._networks import networks
from ._precision import Precision, expect_precision
from ._regions import Region, count_together, counters, find, put, tidy
from ._report import Entry, Report

__all__ = ["Kernels", "Options", "Program", "guard_hooks", "left_to_pytorch"]


@dataclass(frozen=True)
class Options:
    """The options of callers."""

    precision: Precision = "auto"
    cpu: bool = False
    """Whether tensors on the CPU are taken as well."""
    choice: Choice = "time"
    """Which regions are taken: those that make the model faster by a clock, or by an estimate, or all; as calls of their own, or also
    within networks."""
    batch_invariant: bool = False
    """Whether results of a sample are the same bits in any batch."""

    def __post_init__(self) -> None:
        expect_precision(self.precision)
        if self.choice not in CHOICES:
            raise ValueError(f"convfuse: choice is {self.choice!r}, must be one of {CHOICES}")
        for name in ("cpu", "batch_invariant"):
            if not isinstance(getattr(self, name), bool):
                words = f"convfuse: {name} is {getattr(self, name)!r}, must be True or False"
                raise TypeError(words)


def left_to_pytorch(inputs: Sequence[Any]) -> str | None:
    """The reason why a graph with these inputs is left to PyTorch, or ``None``. Dynamo guards everything that
    this reads."""
    tensors = [one for one in inputs if isinstance(one, torch.Tensor)]
    if torch.is_grad_enabled() and any(one.requires_grad for one in tensors):
        return "gradients are recorded"
    if torch._C._functorch.maybe_current_level() is not None:
        return "a transform of torch.func is at work"
    if torch.autograd.forward_ad._current_level >= 0:
        return "tangents are carried along"
    if any(_is_of_a_subclass(one) for one in tensors):
        return "an input is of a subclass of torch.Tensor"
    return None


def _is_of_a_subclass(one: torch.Tensor) -> bool:
    kind = type(one)
    is_plain = kind in (torch.Tensor, FakeTensor) or issubclass(kind, nn.Parameter)
    return not is_plain or is_traceable_wrapper_subclass(one)


def guard_hooks() -> None:
    """Makes Dynamo recompile the current program if a module without hooks gets some, which Dynamo does not
    check itself."""
    context = TracingContext.try_get()
    if context is None:
        return
    guards = context.guards_context.dynamo_guards
    for guard in list(guards):
        if guard.create_fn is GuardBuilder.EMPTY_NN_MODULE_HOOKS_DICT:
            guards.add(guard.originating_source.make_guard(GuardBuilder.SEQUENCE_LENGTH))


def _fast(regions: Collection[Region], precision: Precision) -> bool:
    """Whether float32 uses the fast math mode. PyTorch's settings for GPUs are read, and guarded, only if
    they matter."""
    if not any(one.is_float32_product for one in regions):
        return False
    is_cpu = all(one.inputs[0].meta["val"].device.type == "cpu" for one in regions)
    if is_cpu and precision == "auto":
        return False
    return _precision.guarded(precision)


@dataclass(eq=False)
class Program:
    """A graph with its regions, each of which is a call of the operator, part of a network, or left to
    PyTorch."""

    graph_module: fx.GraphModule
    regions: list[Region]
    places: list[Entry]
    """The places where a region could begin."""
    networks: list[Region]
    """Parts of the graph that may become one call in place of their regions."""
    options: Options
    fast: bool
    is_moved: bool = False
    """Whether values may lie in memory otherwise than PyTorch's, even without regions."""
    left: frozenset[Any] = frozenset()
    """The keys of regions that an estimate leaves to PyTorch."""
    counters: list[list[fx.Node]] = field(init=False)
    """The writes of counters that one operator can make."""
    run: Callable[..., Any] | None = field(init=False, default=None)
    chosen: tuple[frozenset[Any], bool] = field(init=False, default=(frozenset(), False))
    """The keys of regions that are left to PyTorch, and whether networks are taken in place of their regions."""

    def __post_init__(self) -> None:
        self.counters = counters(self.graph_module.graph)

    @classmethod
    def of(cls, graph_module: fx.GraphModule, options: Options) -> Program:
        """The program of a graph of ATen operators."""
        is_moved = tidy(graph_module.graph)
        regions, entries = find(graph_module.graph, options.cpu)
        fast = _fast(regions, options.precision)
        whole = networks(graph_module.graph, regions, fast, options.cpu)
        return cls(graph_module, regions, entries, whole, options, fast, is_moved)

    def estimate(self) -> None:
        """Leaves regions to PyTorch whose own operators are estimated to be faster."""
        worthwhile = {one.key for one in self.regions if is_worthwhile(one, self.fast)}
        self.left = frozenset(one.key for one in self.regions) - worthwhile
        self.chosen = self.left, False
        self.tell(self.left, "PyTorch's operators are estimated to be as fast")

    def tell(self, refused: Collection[Any], reason: str) -> None:
        """Sets the reason why these regions are left to PyTorch."""
        for region in self.regions:
            if region.key in refused:
                region.entry.reason = reason

    def forget(self) -> None:
        """Drops the values known from tracing, which refer to the tensors of the example."""
        for node in self.graph_module.graph.nodes:
            node.meta = {}

    def kept(self, refused: Collection[Any], whole: bool) -> list[Region]:
        """All regions except those with these keys; ``whole`` takes networks in place of the regions that
        share nodes with them."""
        found = self.networks if whole else []
        own = {node for one in found for node in one.nodes}
        return [*found, *(one for one in self.regions if one.key not in refused and own.isdisjoint(one.nodes))]

    def without(self, refused: Collection[Any], whole: bool = False) -> fx.GraphModule:
        """The graph with calls of the operator for the regions that are kept."""
        nodes: dict[fx.Node, fx.Node] = {}
        copied = _copied(self.graph_module, nodes)
        kept = [one.moved(nodes) for one in self.kept(refused, whole)]
        put(copied.graph, kept, self.fast, self.options.batch_invariant, self.is_moved)
        for writes in self.counters if kept else ():
            count_together(copied.graph, [nodes[one] for one in writes])
        copied.recompile()
        return copied

    def build(self, refused: Collection[Any], whole: bool) -> None:
        """Rebuilds the program, with these regions left to PyTorch's own kernels, and with networks or
        without."""
        chosen = self.left.union(refused), whole
        if self.run is None or self.chosen != chosen:
            self.chosen = chosen
            self.run = self.without(*chosen).forward

    @property
    def entries(self) -> list[Entry]:
        """The entries of a report for what is chosen."""
        refused, whole = self.chosen
        layers = {
            node: len(one.operators) for one in self.networks if whole for node in one.nodes
        }
        regions = {id(one.entry): one for one in self.regions}

        def now(entry: Entry) -> Entry:
            region = regions.get(id(entry))
            if region is None:
                return entry
            of = next((layers[node] for node in region.nodes if node in layers), None)
            if of is not None:
                return replace(entry, taken=True, reason=f"part of a network of {of} layers")
            return replace(entry, taken=region.key not in refused)

        return [now(one) for one in self.places]


@dataclass(eq=False)
class Kernels:
    """The backend that runs everything except regions with PyTorch's own kernels."""

    options: Options
    refused: set[Any] = field(default_factory=set)
    """The keys of regions that are left to PyTorch."""
    whole: bool = False
    """Whether networks are taken in place of their regions."""
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
            if self.options.choice == "estimate":
                program.estimate()
            program.forget()
            program.build(self.refused, self.whole)
            made.append(program)
            return make_boxed_func(lambda *arguments: program.run(*arguments))

        compiled = aot_autograd(
            fw_compiler=compiler,
            inference_compiler=compiler,
            keep_inference_input_mutations=True,
        )
        run = compiled(graph_module, inputs)
        self.programs += made
        return run if any(one.regions for one in made) else graph_module.forward

    def build(self) -> None:
        """Rebuilds all programs with the currently refused regions left to PyTorch."""
        for program in self.programs:
            program.build(self.refused, self.whole)

    def report(self) -> Report:
        """A report of the regions taken so far."""
        entries = [entry for program in self.programs for entry in program.entries]
        return Report(entries, [("a graph", why) for why in self.left])


def _copied(
    graph_module: fx.GraphModule, nodes: dict[fx.Node, fx.Node] | None = None
) -> fx.GraphModule:
    """A copy of the graph with its known values. ``nodes`` receives the map from old to new nodes."""
    copied = fx.Graph()
    output = copied.output(copied.graph_copy(graph_module.graph, {} if nodes is None else nodes))
    output.meta = graph_module.graph.output_node().meta.copy()
    made = fx.GraphModule(graph_module, copied)
    made.meta.update(graph_module.meta)
    return made
