"""``fuse``: chains in any model are replaced where they run faster fused, and nothing else changes.

A model stays the object that it is, with its submodules, parameters and ``state_dict``. What changes is the ``forward`` of the modules
in which chains were found: their class becomes a subclass of what it was, whose ``forward`` is that module's own code as
``torch.fx`` traced it, with calls of chains in the place of layers. Where a call is not like the one that was traced (other
arguments, training in place of inference) the class's own ``forward`` runs.
"""

from __future__ import annotations

import inspect
import linecache
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn

from ._chain import evaluate, output_shape, parsed
from ._match import Candidate, candidates, is_plain
from .nn import ChainModule, Precision, Runner

__all__ = ["Entry", "Report", "fuse", "report", "unfuse"]

# Chains with one of these are fused without being timed.
_WORTH = frozenset({"group_norm", "instance_norm"})

# How much faster a chain must be than PyTorch's layers to be kept when it is timed.
_MARGIN = 0.98

_MOST_ARGUMENTS = 6

_STATE = "_convfuse_state"
_REPORT = "_convfuse_report"


class FusedChain(Runner):
    """A chain in the place of layers of a model, which it still refers to."""

    def __init__(
        self,
        chain: str,
        sources: Sequence[tuple[nn.Module, str]],
        norms: Sequence[nn.Module],
        precision: Precision,
        cpu: bool,
    ) -> None:
        super().__init__(chain, sources, precision)
        # Their statistics are those that were learnt only as long as they are not trained.
        self.norms = tuple(norms)
        self.cpu = cpu
        self.record: list[tuple[torch.Tensor, ...]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"record": None}

    def layers(self, x: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
        """What PyTorch's own layers make of it."""
        return evaluate(parsed(self.chain), x, self.parameters(), inputs)

    def __call__(self, x: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
        if self.record is not None and not self.record:
            self.record.append((x, *inputs))
        is_ours = x.is_cuda or (self.cpu and x.device.type == "cpu")
        if not is_ours or x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            return self.layers(x, *inputs)
        if self.norms and any([norm.training for norm in self.norms]):
            return self.trained(x, *inputs)
        if inputs and not self.fits(x, inputs):
            return self.layers(x, *inputs)
        return super().__call__(x, *inputs)

    def fits(self, x: torch.Tensor, inputs: tuple[torch.Tensor, ...]) -> bool:
        """Whether residuals are as large as what they are added to, and of its type: PyTorch adds others as well."""
        chain, given = parsed(self.chain), iter(inputs)
        if any(one.dtype is not x.dtype for one in inputs):
            return False
        for index, (operator, _) in enumerate(chain.layers):
            if operator == "add":
                before = output_shape(chain, x.shape, index)
                if list(next(given).shape) != before:
                    return False
        return True

    def trained(self, x: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
        """The layers with a batch norm that is in training, in a model that is not."""
        raise RuntimeError(
            "convfuse: a batch norm was put into training mode after fuse; call convfuse.unfuse(model) before training"
        )


@dataclass
class Entry:
    """What was found in one place."""

    module: str
    """Where: the path of the module whose ``forward`` has the layers."""
    chain: str
    """The layers, with spaces between."""
    replaced: bool
    """Whether it is fused now."""
    reason: str
    """Why, or why not."""
    layers_us: float | None = None
    """What PyTorch's layers took for the example."""
    fused_us: float | None = None
    """What the chain took."""


@dataclass
class Report:
    """What :func:`fuse` did to a model."""

    entries: list[Entry] = field(default_factory=list)
    not_traced: list[tuple[str, str]] = field(default_factory=list)
    """Modules whose code cannot be traced, and why; those within them were looked at by themselves."""

    @property
    def replaced(self) -> int:
        """How many chains are fused."""
        return sum(entry.replaced for entry in self.entries)

    def __str__(self) -> str:
        lines = [f"{self.replaced} of {len(self.entries)} chains are fused"]
        for entry in self.entries:
            times = ""
            if entry.layers_us is not None and entry.fused_us is not None:
                times = f" ({entry.layers_us:.1f} us by PyTorch, {entry.fused_us:.1f} us fused)"
            sign = "+" if entry.replaced else "-"
            where = entry.module or "the model"
            lines.append(f"{sign} {where}: {entry.chain}: {entry.reason}{times}")
        for path, why in self.not_traced:
            lines.append(f"? {path or 'the model'}: not traced: {why}")
        return "\n".join(lines)


class _Fused:
    """What classes of fused modules have beside what they had."""

    def forward(self, *arguments, **named):
        state = self._convfuse_state
        if named or len(arguments) != state.count or self.training is not state.training:
            return super().forward(*arguments, **named)
        for argument in arguments:
            if not isinstance(argument, torch.Tensor):
                return super().forward(*arguments)
        return state.run(self, *arguments)

    def _apply(self, fn, recurse=True):
        for runner in self.__dict__[_STATE].runners.values():
            runner.release()
        return super()._apply(fn, recurse)

    def __reduce_ex__(self, protocol):
        # As one of the class that it was: subclasses that are made while a program runs have no name to be found by.
        return _restored, (type(self).__mro__[2],), self.__dict__

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__[_STATE].build(self)


_CLASSES: dict[type, type] = {}


def _fused_class(kind: type) -> type:
    if kind not in _CLASSES:
        fused = type(kind.__name__, (_Fused, kind), {"__module__": kind.__module__})
        fused.__qualname__ = kind.__qualname__
        _CLASSES[kind] = fused
    return _CLASSES[kind]


def _restored(kind: type) -> nn.Module:
    fused = _fused_class(kind)
    return fused.__new__(fused)


class _State:
    """What a fused module has beside what it had: how it was traced, and the chains by the names of their convolutions' nodes."""

    def __init__(self, training: bool, count: int, opaque: Sequence[nn.Module]) -> None:
        self.training, self.count = training, count
        self.opaque = tuple(opaque)
        self.runners: dict[str, FusedChain] = {}
        self.run: Callable[..., Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"run": None}

    def build(self, module: nn.Module) -> None:
        """Makes the code that runs."""
        graph = _trace(module, self.opaque, self.count)
        for found in candidates(module, graph):
            runner = self.runners.get(found[0].start.name) if found else None
            same = [one for one in found if runner is not None and one.text == runner.chain]
            if same:
                _replace(graph, same[-1])
        self.run = _code(graph)


def _replace(graph: fx.Graph, found: Candidate) -> None:
    """Puts a call of the chain where its last node is."""
    name = f"{_STATE}.runners[{found.start.name!r}]"
    with graph.inserting_before(found.last):
        call = graph.create_node("get_attr", f"_convfuse__{found.start.name}")
        call.meta["convfuse"] = name
        value = graph.create_node("call_function", _call, (call, found.x, *found.residuals))
    found.last.replace_all_uses_with(value)
    for node in reversed(found.nodes):
        graph.erase_node(node)


def _call(chain: FusedChain, x: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
    return chain(x, *inputs)


def _code(graph: fx.Graph) -> Callable[..., Any]:
    """The function that a graph is, of a module and its arguments."""
    code = graph.python_code("self")
    text = code.src
    for node in graph.nodes:
        if "convfuse" in node.meta:
            text = re.sub(rf"self\.{re.escape(node.target)}\b", f"self.{node.meta['convfuse']}", text)
    file = f"<convfuse {id(graph):x}>"
    lines = text.splitlines(keepends=True)
    linecache.cache[file] = (len(text), None, lines, file)
    names = dict(code.globals)
    exec(compile(text, file, "exec"), names)
    return names["forward"]


class _Tracer(fx.Tracer):
    """Looks into all modules but layers, those that are fused by themselves, and those that somebody listens to."""

    traced_func_name = "_convfuse_entry"

    def __init__(self, opaque: Sequence[nn.Module]) -> None:
        super().__init__()
        self.opaque = {id(module) for module in opaque}

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if isinstance(m, ChainModule) or id(m) in self.opaque or not is_plain(m):
            return True
        return super().is_leaf_module(m, module_qualified_name)


class _NotTraced(Exception):
    """A module's code cannot be traced."""


def _own_class(module: nn.Module) -> type:
    kind = type(module)
    return kind.__mro__[2] if issubclass(kind, _Fused) else kind


def _count(module: nn.Module) -> int:
    """How many arguments ``forward`` must be given."""
    try:
        parameters = list(inspect.signature(_own_class(module).forward).parameters.values())[1:]
    except (TypeError, ValueError) as error:
        raise _NotTraced(str(error)) from None
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    count = sum(p.kind in positional and p.default is p.empty for p in parameters)
    if any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters):
        raise _NotTraced("forward needs an argument by name")
    if not 1 <= count <= _MOST_ARGUMENTS:
        raise _NotTraced(f"forward needs {count} arguments")
    return count


# fx counts a function's arguments by its code.
_ENTRIES = [
    lambda self, a: self._convfuse_forward(a),
    lambda self, a, b: self._convfuse_forward(a, b),
    lambda self, a, b, c: self._convfuse_forward(a, b, c),
    lambda self, a, b, c, d: self._convfuse_forward(a, b, c, d),
    lambda self, a, b, c, d, e: self._convfuse_forward(a, b, c, d, e),
    lambda self, a, b, c, d, e, f: self._convfuse_forward(a, b, c, d, e, f),
]


def _asks_for_tensors(module: nn.Module, opaque: Sequence[nn.Module]) -> bool:
    """Whether code that is traced asks what is a tensor: of values that are traced the answer would be wrong."""
    try:
        source = inspect.getsource(_own_class(module).forward)
    except (OSError, TypeError):
        source = ""
    if re.search(r"isinstance\([^)]*Tensor|is_tensor\(", source):
        return True
    for child in module.children():
        is_list = isinstance(child, (nn.Sequential, nn.ModuleList, nn.ModuleDict))
        is_layer = child.__module__.startswith("torch.nn") and not is_list
        if is_layer or any(child is one for one in opaque):
            continue
        if _asks_for_tensors(child, opaque):
            return True
    return False


def _trace(module: nn.Module, opaque: Sequence[nn.Module], count: int) -> fx.Graph:
    own = _own_class(module)
    if _asks_for_tensors(module, opaque):
        raise _NotTraced("its code asks whether values are tensors")
    # The original code of this module and of all in it that are fused.
    entry = {"_convfuse_entry": _ENTRIES[count - 1], "_convfuse_forward": own.forward}
    kinds = [(one, type(one)) for one in module.modules() if isinstance(one, _Fused)]
    kinds.append((module, type(module)))
    try:
        for one, _ in kinds:
            one.__class__ = _own_class(one)
        module.__class__ = type(own.__name__, (own,), entry)
        return _Tracer(opaque).trace(module)
    except Exception as error:  # whatever the module's code raises for values that have no numbers
        words = str(error).strip().splitlines() or [type(error).__name__]
        raise _NotTraced(words[0]) from None
    finally:
        for one, kind in kinds:
            one.__class__ = kind


def _longest(found: list[Candidate], timed: bool) -> Candidate | None:
    """The chain of those that begin with one convolution that is tried."""
    worth = found if timed else [one for one in found if _WORTH.intersection(one.operators)]
    return worth[-1] if worth else None


class _Fusing:
    """One call of ``fuse``."""

    def __init__(self, model: nn.Module, precision: Precision, cpu: bool, timed: bool) -> None:
        self.model, self.precision, self.cpu, self.timed = model, precision, cpu, timed
        self.report = Report()
        # A chain that several modules' code has is one, with one set of prepared parameters.
        self.runners: dict[tuple[Any, ...], FusedChain | None] = {}
        self.entries: dict[int, Entry] = {}
        self.not_traced: list[nn.Module] = []

    def all(self) -> None:
        paths = list(self.model.named_modules())
        for path, module in reversed(paths):
            is_layer = not any(True for _ in module.children())
            if is_layer or isinstance(module, (ChainModule, torch.jit.ScriptModule)):
                continue
            if isinstance(module, (nn.ModuleList, nn.ModuleDict)):
                continue
            if "forward" in module.__dict__:
                self.report.not_traced.append((path, "its forward was replaced"))
                continue
            self.one(path, module)

    def one(self, path: str, module: nn.Module) -> None:
        try:
            count = _count(module)
            opaque: list[nn.Module] = []
            try:
                graph = _trace(module, opaque, count)
            except _NotTraced:
                inner = set(map(id, module.modules())) - {id(module)}
                opaque = [one for one in self.not_traced if id(one) in inner]
                graph = _trace(module, opaque, count)
        except _NotTraced as error:
            self.not_traced.append(module)
            self.report.not_traced.append((path, str(error)))
            return
        state = _State(module.training, count, opaque)
        taken: set[fx.Node] = set()
        for found in candidates(module, graph):
            # Where two branches are added, the first one does it.
            free = [one for one in found if taken.isdisjoint(one.nodes)]
            chain = _longest(free, self.timed)
            if chain is None:
                self.refuse(free)
                continue
            taken.update(chain.nodes)
            state.runners[chain.start.name] = self.runner(path, module, chain)
        if state.runners:
            module.__dict__[_STATE] = state
            module.__class__ = _fused_class(type(module))
            state.build(module)

    def refuse(self, found: list[Candidate]) -> None:
        if not found:
            return
        key = self.key(found[-1])
        if key not in self.runners:
            names = " ".join(found[-1].operators)
            reason = "without a group norm or an instance norm; with an example it is timed"
            path = self.path(found[-1])
            self.runners[key] = None
            self.report.entries.append(Entry(path, names, False, reason))

    def path(self, chain: Candidate) -> str:
        """Where the convolution is."""
        conv = chain.sources[0][0]
        return next((path for path, one in self.model.named_modules() if one is conv), "")

    @staticmethod
    def key(chain: Candidate) -> tuple[Any, ...]:
        return (chain.text, *((id(module), name) for module, name in chain.sources))

    def runner(self, path: str, module: nn.Module, chain: Candidate) -> FusedChain:
        key = self.key(chain)
        if self.runners.get(key) is None:
            running = [one for one, name in chain.sources if name == "running_mean"]
            runner = FusedChain(chain.text, chain.sources, running, self.precision, self.cpu)
            entry = Entry(self.path(chain), " ".join(chain.operators), True, "fused")
            self.runners[key] = runner
            self.entries[id(runner)] = entry
            self.report.entries.append(entry)
        return self.runners[key]

    def keep_the_faster(self, example: tuple[Any, ...]) -> None:
        runners = [one for one in self.runners.values() if one is not None]
        for runner in runners:
            runner.record = []
        try:
            with torch.no_grad():
                self.model(*example)
            recorded = {id(one): one.record for one in runners}
        finally:
            for runner in runners:
                runner.record = None
        slower = set()
        for runner in runners:
            entry = self.entries[id(runner)]
            if not recorded[id(runner)]:
                entry.replaced, entry.reason = False, "the example does not come by"
            else:
                _time(runner, recorded[id(runner)][0], entry)
            if not entry.replaced:
                slower.add(id(runner))
                runner.release()
        for module in self.model.modules():
            state = module.__dict__.get(_STATE)
            if state is None:
                continue
            kept = {n: one for n, one in state.runners.items() if id(one) not in slower}
            if not kept:
                _undo(module)
            elif len(kept) != len(state.runners):
                state.runners = kept
                state.build(module)


def _time(runner: FusedChain, inputs: tuple[torch.Tensor, ...], entry: Entry) -> None:
    """Times both ways on an example, and holds the results against float64."""
    x = inputs[0]
    fused, layers = (lambda: runner(*inputs)), (lambda: runner.layers(*inputs))
    with torch.no_grad():
        ours, theirs = fused(), layers()
        if ours.dtype is not theirs.dtype:
            entry.replaced, entry.reason = False, f"PyTorch gives {theirs.dtype}"
            return
        with torch.autocast(x.device.type, enabled=False):
            values = [value.double() for value in runner.parameters()]
            doubles = [one.double() for one in inputs]
            exact = evaluate(parsed(runner.chain), doubles[0], values, doubles[1:])
        if not _is_within_bound(runner, ours, theirs, exact):
            entry.replaced, entry.reason = False, "the results differ by more than the bound"
            return
        del ours, theirs, exact
        entry.layers_us, entry.fused_us = _duration(layers, x.device), _duration(fused, x.device)
    entry.replaced = entry.fused_us <= _MARGIN * entry.layers_us
    entry.reason = "faster" if entry.replaced else "PyTorch's layers are as fast"


def _is_within_bound(
    runner: FusedChain, ours: torch.Tensor, theirs: torch.Tensor, exact: torch.Tensor
) -> bool:
    """As near to float64 as PyTorch's layers are, or nearer than 32 units in the last place of the largest value; 2^12 times as far for
    float32 with products of fewer bits."""
    same = torch.equal(ours.isnan(), exact.isnan())
    error = (ours.double() - exact).nan_to_num().abs().max().item()
    reference = (theirs.double() - exact).nan_to_num().abs().max().item()
    unit = torch.finfo(ours.dtype).eps * exact.nan_to_num().abs().max().item()
    under_autocast = torch.is_autocast_enabled(ours.device.type)
    is_fast = ours.dtype is torch.float32 and (runner._is_fast() or under_autocast)
    return same and error <= max(2 * reference, 32 * unit * (4096 if is_fast else 1))


def _duration(call: Callable[[], Any], device: torch.device, rounds: int = 12) -> float:
    """Microseconds: on a GPU by events around several calls, so that the device's time counts where it is longer than the host's."""
    for _ in range(3):
        call()
    times = []
    for _ in range(rounds):
        if device.type == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(5):
                call()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e3 / 5)
        else:
            start = time.perf_counter()
            call()
            times.append((time.perf_counter() - start) * 1e6)
    return sorted(times)[len(times) // 2]


def _undo(module: nn.Module) -> None:
    module.__class__ = _own_class(module)
    module.__dict__.pop(_STATE, None)


def fuse(
    model: nn.Module,
    example_input: torch.Tensor | tuple[Any, ...] | None = None,
    *,
    precision: Precision = "auto",
    cpu: bool = False,
) -> nn.Module:
    """Replaces the chains of layers in ``model`` that run faster fused, in place, and returns it.

    The model is to be in the mode that it will run in, most likely ``eval()``. Its parameters, ``state_dict`` and submodules stay
    what they are; it can be copied, saved, moved, compiled and captured like before. Chains are found in the code of each module
    that ``torch.fx`` can trace. Hooks are to be registered before: a layer that has one is left alone, and one that is registered
    on a replaced layer later is not called.

    Without ``example_input`` chains with a group norm or an instance norm are replaced. With it (a tensor, or a tuple of
    arguments) every chain that the example comes by is timed both ways, held against float64, and replaced only where it is faster.

    ``precision`` says how float32 is multiplied: ``"accurate"``, ``"fast"`` (factors of 11 bits, as tf32 has), or ``"auto"``: fast
    where ``torch.set_float32_matmul_precision`` allows tf32. ``cpu`` has chains on CPU tensors run by this library, too, in place of
    PyTorch's layers.

    :func:`report` tells what was done, :func:`unfuse` undoes it. A model that is fused already is fused anew.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"convfuse: fuse takes a torch.nn.Module, not {type(model).__name__}")
    unfuse(model)
    work = _Fusing(model, precision, cpu, example_input is not None)
    work.all()
    if example_input is not None:
        is_one = isinstance(example_input, torch.Tensor)
        work.keep_the_faster((example_input,) if is_one else tuple(example_input))
    model.__dict__[_REPORT] = work.report
    return model


def unfuse(model: nn.Module) -> nn.Module:
    """Makes of a model what it was before :func:`fuse`, in place, and returns it."""
    for module in model.modules():
        if isinstance(module, _Fused):
            _undo(module)
        module.__dict__.pop(_REPORT, None)
    return model


def report(model: nn.Module) -> Report:
    """What :func:`fuse` did to this model: which chains were replaced, which were not, why, and what it brought."""
    found = model.__dict__.get(_REPORT)
    if found is None:
        raise ValueError("convfuse: the model was not given to fuse, or unfuse has undone it")
    return found
