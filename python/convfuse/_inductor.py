"""The backend ``"convfuse"`` of ``torch.compile``: regions become calls of the operator, inductor compiles
the rest.

Regions are kept if they make the graph faster: inductor compiles it with and without them, and both are
timed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import fx
from torch._dispatch.python import no_python_dispatcher
from torch._functorch import config as functorch_config
from torch._guards import TracingContext
from torch._subclasses import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from ._backend import Options, Program, guard_hooks, left_to_pytorch
from ._choice import better, drawn, is_like, measure, slower_alone
from ._report import Report, note
from ._table import POINTWISE, ROWS

__all__ = ["convfuse"]

_log = logging.getLogger("convfuse")

_OURS = ("batch_invariant", "choice", "cpu", "precision")

# The latest reports of graphs that are entirely inductor's.
_LEFT: deque[Report] = deque(maxlen=64)

# Namespaces of operators that may be called any number of times. A collective, for example, must be called
# equally often by all processes.
_REPEATABLE = frozenset({"aten", "convfuse", "prims", "torchvision"})

_COPY = torch.ops.aten.copy_.default


def convfuse(
    graph_module: fx.GraphModule,
    inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """The backend ``"convfuse"`` of ``torch.compile``.

    ``options`` may have ``precision``, ``cpu``, ``choice`` and ``batch_invariant``, as in
    :func:`convfuse.fuse`, and inductor's own; ``mode`` is inductor's. Dynamo releases tensors after compiling
    for a backend registered by name, as this one is, so the ``kernels`` of a fused model are also passed
    here.
    """
    guard_hooks()
    given = dict(options or {})
    if "kernels" in given:
        return given["kernels"](graph_module, inputs)
    from torch._inductor import list_mode_options
    from torch._inductor.compile_fx import compile_fx
    from torch._inductor.decomposition import select_decomp_table

    ours = Options(**{name: given.pop(name) for name in _OURS if name in given})
    patches = {**(list_mode_options(mode) if mode else {}), **given}
    patches = {name.replace("-", "_"): one for name, one in patches.items()}
    why, report = left_to_pytorch(inputs), Report()
    note(report, inputs)
    if why is not None:
        _log.info("a graph is left to inductor: %s", why)
        report.not_traced.append(("a graph", why))
        _LEFT.append(report)
        return compile_fx(graph_module, inputs, config_patches=patches)
    table = select_decomp_table()

    def inner(aten: fx.GraphModule, examples: Sequence[Any], **named: Any) -> Any:
        program = Program.of(aten, ours)
        run = _compiled(program, examples, named, table, inputs, report)
        report.entries += program.entries
        _log.info("%s", report)
        # The report is found as long as the compiled code exists.
        run._convfuse_report = report
        return run

    whole = {one: how for one, how in table.items() if one not in ROWS}
    # The cache key of a whole graph does not include the backend.
    with functorch_config.patch(enable_autograd_cache=False):
        return compile_fx(
            graph_module, inputs, inner_compile=inner, decompositions=whole, config_patches=patches
        )


def _compiled(
    program: Program,
    examples: Sequence[Any],
    named: dict[str, Any],
    table: dict[Any, Callable[..., Any]],
    inputs: Sequence[Any],
    report: Report,
) -> Callable[..., Any]:
    """The compiled program with the regions that make it faster. ``inputs`` are those of the first call."""
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.utils import BoxedBool

    options, keys = program.options, {one.key for one in program.regions}

    def form(refused: Collection[Any], whole: bool = False, **changed: Any) -> Callable[..., Any]:
        graph_module = program.without(refused, whole)
        _decompose(graph_module, table)
        graph_module.recompile()
        return compile_fx_inner(graph_module, examples, **named | changed)

    def leave(refused: Collection[Any], whole: bool = False) -> Callable[..., Any]:
        program.chosen = frozenset(refused), whole
        return form(refused, whole)

    if options.choice in ("all", "networks") or not keys:
        return leave((), options.choice == "networks")
    if options.choice == "estimate" or not _is_repeatable(program, inputs):
        program.estimate()
        return leave(program.left)
    # Without PyTorch's own CUDA graphs, whose outputs share memory between calls.
    is_graph = named.get("cudagraphs") is not None and named["cudagraphs"].value
    changed = {"cudagraphs": BoxedBool(False)} if is_graph else {}
    device = _device(program)
    try:
        with _real(device):
            slower = slower_alone(program.regions, program.fast, options.batch_invariant, POINTWISE)
            values = _values(program, inputs)
        program.tell(slower, "PyTorch's kernels are as fast for it alone")
        ways = {"inductor": (keys, False)}
        if slower != keys:
            count = sum(one.key not in slower for one in program.regions)
            ways[_counted(count, "region")] = slower, False
        if program.networks:
            ways[_counted(len(program.networks), "network")] = slower, True
        if len(ways) == 1:
            return leave(keys)
        runs, strides, times = {}, {}, {}
        for name, way in ways.items():
            with TracingContext.report_output_strides() as known:
                run = form(*way, **changed)
            with _real(device):
                times[name] = measure(lambda: run(list(values)), device)
            runs[name], strides[name] = run, known
    except torch.OutOfMemoryError:
        report.notes.append("a graph is left to inductor: there is no memory to time it")
        program.tell(keys, "it was not timed")
        return leave(keys)
    chosen = "inductor"
    for name in ways:
        if better(times[name], times[chosen]):
            chosen = name
    measured = "; ".join(f"{one} by {name}" for name, one in times.items())
    report.notes.append(f"a graph: {measured}; kept: {chosen}")
    if chosen == "inductor":
        program.tell(keys - slower, "the graph is as fast without it")
    if is_graph:
        return leave(*ways[chosen])
    program.chosen = frozenset(ways[chosen][0]), ways[chosen][1]
    context = TracingContext.try_get()
    if context is not None and context.output_strides is not None:
        context.output_strides.extend(strides[chosen] or ())
    return runs[chosen]


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _device(program: Program) -> torch.device:
    return program.regions[0].inputs[0].meta["val"].device


def _is_repeatable(program: Program, inputs: Sequence[Any]) -> bool:
    """Whether the graph may be called for timing, on an existing device: it only writes to its inputs, at its
    end."""
    if _device(program).type == "cuda" and not torch.cuda.is_available():
        return False
    if any(isinstance(one, FakeTensor) for one in inputs):
        return False
    calls = [one.target for one in program.graph_module.graph.nodes if one.op == "call_function"]
    operators = [one for one in calls if isinstance(one, torch._ops.OperatorBase)]
    return all(
        one is _COPY or (one.namespace in _REPEATABLE and not one._schema.is_mutable)
        for one in operators
    )


@contextmanager
def _real(device: torch.device) -> Iterator[None]:
    """Runs calls for real while a compiler is active, and restores random number generators afterwards."""
    is_cuda = device.type == "cuda"
    with _disable_current_modes(), no_python_dispatcher(), torch.no_grad():
        with torch.random.fork_rng([device] if is_cuda else []):
            with torch.cuda.device(device) if is_cuda else nullcontext():
                yield


def _values(program: Program, inputs: Sequence[Any]) -> list[Any]:
    """The graph's inputs: those of the call if they are known to match, and random values for inputs that are
    written to."""
    nodes = program.graph_module.graph.nodes
    places = [one for one in nodes if one.op == "placeholder"]
    written = {one.args[0] for one in nodes if one.target is _COPY}
    given = inputs if len(inputs) == len(places) else [None] * len(places)
    values = []
    for node, one in zip(places, given):
        is_given = isinstance(one, torch.Tensor) and node not in written and is_like(one, node)
        values.append(one if is_given else drawn(node))
    return values


def _decompose(graph_module: fx.GraphModule, table: dict[Any, Callable[..., Any]]) -> None:
    """Decomposes operators that were kept whole for regions into those that inductor has kernels for."""
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
    """Replaces a node by these results; readers of a tuple read its items."""
    if isinstance(results, fx.Node):
        node.replace_all_uses_with(results)
    else:
        for item in list(node.users):
            item.replace_all_uses_with(results[item.args[1]])
            item.graph.erase_node(item)
    node.graph.erase_node(node)
