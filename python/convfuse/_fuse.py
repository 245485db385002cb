"""``fuse``: chains in any model are replaced where they run faster fused, and nothing else changes.

A model stays the object that it is, with its submodules, parameters and ``state_dict``. What changes is the ``forward`` of the modules
in which chains were found: their class becomes a subclass of what it was, whose ``forward`` is that module's own code as
``torch.fx`` traced it, with calls of chains in the place of layers. Where a call is not like the one that was traced (other
arguments, training in place of inference) the class's own ``forward`` runs. Where code cannot be traced, the layers in it are
modules in which a chain of one layer may be found.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import fx, nn

from ._autocast import gives_float32
from ._fused import FusedChain, State, put, take_out
from ._layers import begins_a_chain
from ._match import Candidate, candidates
from ._report import Entry, Report
from ._runner import Precision
from ._timing import judge
from ._trace import STATE, NotTraced, count_arguments, is_layer, trace
from .nn import ChainModule

__all__ = ["Entry", "Report", "fuse", "report", "unfuse"]

# Chains with one of these are fused without being timed: PyTorch has one block of threads take the statistics of a whole group.
_WORTH = frozenset({"group_norm", "instance_norm"})

_NORMS = _WORTH | {"batch_norm"}

_REPORT = "_convfuse_report"


@dataclass
class _Place:
    """A module whose code was traced, and for each first layer in it the chains that begin there, the shortest first."""

    module: nn.Module
    state: State
    found: list[list[Candidate]]


@dataclass
class _Found:
    """A chain, wherever it stands."""

    chain: Candidate
    entry: Entry
    runner: FusedChain | None = None
    is_idle: bool = False
    """Whether the example does not come by."""
    places: list[nn.Module] = field(default_factory=list)
    """The modules whose code has it."""


class _Fusing:
    """One call of ``fuse``."""

    def __init__(self, model: nn.Module, precision: Precision, cpu: bool, timed: bool) -> None:
        self.model, self.precision, self.cpu, self.timed = model, precision, cpu, timed
        self.paths = {id(module): path for path, module in model.named_modules()}
        self.places: list[_Place] = []
        self.not_traced: list[tuple[nn.Module, str]] = []
        # The layers that graphs have seen.
        self.seen: set[int] = set()
        # A chain that several modules' code has is one, with one set of prepared parameters.
        self.found: dict[tuple[Any, ...], _Found] = {}
        self.slower: set[tuple[Any, ...]] = set()

    def trace_all(self) -> None:
        """Modules before those that they are in, then the layers of code that cannot be traced."""
        modules = [module for _, module in self.model.named_modules()]
        for module in reversed(modules):
            if is_layer(module) or isinstance(module, (ChainModule, torch.jit.ScriptModule)):
                continue
            if isinstance(module, (nn.ModuleList, nn.ModuleDict)):
                continue
            if "forward" in module.__dict__:
                self.not_traced.append((module, "its forward was replaced"))
                continue
            self.trace(module)
        fused = [one for one in modules if isinstance(one, ChainModule)]
        done = self.seen | {id(inner) for one in fused for inner in one.modules()}
        loose = [inner for one, _ in self.not_traced for inner in one.modules()] + [self.model]
        for layer in {id(one): one for one in loose}.values():
            if is_layer(layer) and begins_a_chain(layer) and id(layer) not in done:
                self.trace(layer)

    def trace(self, module: nn.Module) -> None:
        try:
            count = count_arguments(module)
            opaque: list[nn.Module] = []
            try:
                graph = trace(module, opaque, count)
            except NotTraced:
                inner = set(map(id, module.modules())) - {id(module)}
                opaque = [one for one, _ in self.not_traced if id(one) in inner]
                graph = trace(module, opaque, count)
        except NotTraced as error:
            self.not_traced.append((module, str(error)))
            return
        for node in graph.nodes:
            if node.op == "call_module":
                self.seen.add(id(module.get_submodule(node.target)))
        found = [one for one in candidates(module, graph) if one]
        self.places.append(_Place(module, State(module, count, opaque), found))

    def choose(self) -> None:
        """Has every module run the longest chains that are not known to be slower."""
        for place in self.places:
            taken: set[fx.Node] = set()
            left: set[fx.Node] = set()
            runners: dict[str, FusedChain] = {}
            for found in place.found:
                # A convolution comes before the norm behind it. Where two branches are added, the first one does it.
                free = [one for one in found if taken.isdisjoint(one.nodes)]
                free = [one for one in free if one.key not in self.slower]
                worth = free if self.timed else [one for one in free if _WORTH & {*one.operators}]
                if worth:
                    taken.update(worth[-1].nodes)
                    known = self.know(worth[-1], place.module)
                    if not known.is_idle:
                        runners[worth[-1].start.name] = known.runner
                elif free and len(free[-1].operators) > 1 and free[-1].start not in left:
                    left.update(free[-1].nodes)
                    self.know(free[-1], place.module, is_worth=False)
            if runners == place.state.runners:
                continue
            place.state.runners = runners
            if runners:
                put(place.module, place.state)
            else:
                take_out(place.module)

    def know(self, chain: Candidate, place: nn.Module, is_worth: bool = True) -> _Found:
        """What is known of a chain that stands in the code of a module."""
        if chain.key not in self.found:
            runner = FusedChain(chain, self.precision, self.cpu) if is_worth else None
            reason = "without a group norm or an instance norm; with an example it is timed"
            path, names = self.paths[id(chain.modules[0])], " ".join(chain.operators)
            entry = Entry(path, names, is_worth, "fused" if is_worth else reason)
            self.found[chain.key] = _Found(chain, entry, runner)
        known = self.found[chain.key]
        if all(place is not one for one in known.places):
            known.places.append(place)
        return known

    def keep_the_faster(self, example: tuple[Any, ...]) -> None:
        """Times what was chosen on an example, and chooses again without what is slower, until nothing is."""
        judged: set[tuple[Any, ...]] = set()
        while True:
            fresh = [one for key, one in self.found.items() if key not in judged]
            if not fresh:
                return
            judged.update(one.chain.key for one in fresh)
            for one in fresh:
                one.runner.watcher = partial(judge, entry=one.entry)
            try:
                with torch.no_grad():
                    self.model(*example)
                idle = [one for one in fresh if one.runner.watcher is not None]
            finally:
                for one in fresh:
                    one.runner.watcher = None
            for one in idle:
                one.is_idle, one.entry.replaced = True, False
                one.entry.reason = "the example does not come by"
            for one in fresh:
                if not one.entry.replaced and not one.is_idle:
                    self.give_up(one.chain)
            self.choose()

    def give_up(self, chain: Candidate) -> None:
        """A chain is slower, and those that begin with its first layer are taken to be; but for what is before its norm."""
        norms = [index for index, one in enumerate(chain.operators) if one in _NORMS and index > 0]
        least = norms[0] if norms else 0
        for place in self.places:
            for found in place.found:
                if any(one.key == chain.key for one in found):
                    self.slower.update(one.key for one in found if len(one.operators) > least)

    def running(self) -> set[int]:
        """The chains that run, by their identities. Notes which of them round what they give somewhere."""
        running: set[int] = set()
        for place in self.places:
            for chain in [one for found in place.found for one in found]:
                known, runner = self.found.get(chain.key), place.state.runners.get(chain.start.name)
                if runner is None or known is None or known.runner is not runner:
                    continue
                running.add(id(runner))
                counts = len(runner.parsed.inputs), len(runner.parsed.names)
                if chain.rounds and gives_float32(runner.steps, *counts):
                    known.entry.rounds = True
        return running

    def report(self) -> Report:
        """What was done, in the order of the model's modules."""
        order = {path: index for index, path in enumerate(self.paths.values())}
        running = self.running()
        # One that is faster may have gone into a longer one.
        shown = [
            one
            for one in self.found.values()
            if not (one.entry.replaced and id(one.runner) not in running)
            and not self.is_beside_the_point(one)
        ]
        entries = sorted((one.entry for one in shown), key=lambda entry: order[entry.module])
        named = [
            (self.paths[id(module)], why)
            for module, why in self.not_traced
            if any(begins_a_chain(one) for one in module.modules())
        ]
        return Report(entries, sorted(named, key=lambda one: order[one[0]]))

    def is_beside_the_point(self, found: _Found) -> bool:
        """Whether code around it has its first layer in a chain as well: a module's own code then runs in no call of the model, or in none
        like the example."""
        if self.timed and not found.is_idle:
            return False
        first = found.chain.modules[0]
        others = [one for one in self.found.values() if one is not found and not one.is_idle]
        if self.timed and any(first is layer for one in others for layer in one.chain.modules):
            return True
        inner = set(map(id, found.places))
        for other in self.found.values():
            if other is found or all(first is not layer for layer in other.chain.modules):
                continue
            around = {id(one) for place in other.places for one in place.modules()}
            if inner <= around - set(map(id, other.places)):
                return True
        return False


def _expect_module(model: Any, name: str) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"convfuse: {name} takes a torch.nn.Module, not {type(model).__name__}")


def fuse(
    model: nn.Module,
    example_input: torch.Tensor | tuple[Any, ...] | None = None,
    *,
    precision: Precision = "auto",
    cpu: bool = False,
) -> nn.Module:
    """Replaces the chains of layers in ``model`` that run faster fused, in place, and returns it.

    The model is to be in the mode that it will run in, most likely ``eval()``. Its parameters, ``state_dict`` and submodules stay
    what they are; it can be copied, saved, moved, compiled and captured like before. Chains begin with a convolution or a norm, and are
    found in the code of each module that ``torch.fx`` can trace; of code that it cannot, each convolution and each norm is a chain. Hooks are to be
    registered before: a layer that has one is left alone, and one that is registered on a replaced layer later is not called.

    Without ``example_input`` chains with a group norm or an instance norm are replaced. With it (a tensor, or a tuple of
    arguments) every chain that the example comes by is timed both ways, held against float64, and replaced only where it is faster;
    one that is slower is tried in two parts, before and after the norm.

    ``precision`` says how convolutions of float32 are multiplied: ``"accurate"``, ``"fast"`` (tf32-class, factors of 11 bits), or
    ``"auto"``: as PyTorch's own convolutions would be. That is fast where the caller allows tf32 for convolutions, as PyTorch's defaults do
    (``torch.backends.cudnn.allow_tf32``, ``torch.backends.cudnn.conv.fp32_precision``), or for matrix products. The setting at the time of
    the call counts, in compiled models that at the time of compilation. In :mod:`convfuse.nn`, whose modules stand for no
    layers of PyTorch, ``"auto"`` asks for matrix products alone. ``cpu`` has chains on CPU tensors run by this library, too, in place of
    PyTorch's layers.

    :func:`report` tells what was done, :func:`unfuse` undoes it. A model that is fused already is fused anew.
    """
    _expect_module(model, "fuse")
    if not isinstance(example_input, (torch.Tensor, tuple, list, type(None))):
        kind = type(example_input).__name__
        raise TypeError(f"convfuse: example_input is a tensor or a tuple of arguments, not {kind}")
    unfuse(model)
    work = _Fusing(model, precision, cpu, example_input is not None)
    work.trace_all()
    work.choose()
    if example_input is not None:
        is_one = isinstance(example_input, torch.Tensor)
        try:
            work.keep_the_faster((example_input,) if is_one else tuple(example_input))
        except BaseException:
            unfuse(model)
            raise
    model.__dict__[_REPORT] = work.report()
    return model


def unfuse(model: nn.Module) -> nn.Module:
    """Makes of a model what it was before :func:`fuse`, in place, and returns it."""
    _expect_module(model, "unfuse")
    for module in model.modules():
        if STATE in module.__dict__:
            take_out(module)
        module.__dict__.pop(_REPORT, None)
    return model


def report(model: nn.Module) -> Report:
    """What :func:`fuse` did to this model: which chains were replaced, which were not, why, and what it brought."""
    _expect_module(model, "report")
    found = model.__dict__.get(_REPORT)
    if found is None:
        raise ValueError("convfuse: the model was not given to fuse, or unfuse has undone it")
    return found
