"""What runs in a fused model: chains in the place of layers, and the classes of the modules that have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from ._autocast import TYPES
from ._chain import evaluate, output_shape, reduced_dim
from ._layers import BATCH_NORMS, kind_of
from ._match import Candidate, candidates
from ._runner import Precision, Runner, convolutions_allow_tf32
from ._trace import STATE, code, replace, trace

__all__ = ["FusedChain", "State", "put", "take_out"]


class FusedChain(Runner):
    """A chain in the place of layers of a model, which it still refers to."""

    # It stands for PyTorch's convolutions, and multiplies as those would.
    _allows_tf32 = staticmethod(convolutions_allow_tf32)

    def __init__(self, found: Candidate, precision: Precision, cpu: bool) -> None:
        super().__init__(found.text, found.sources, precision, found.in_place)
        if not self.multiplies:
            self.precision = "accurate"
        self.cpu = cpu
        self.axes = found.axes
        # A chain that begins with a convolution refuses what that refuses; a norm takes more than a chain, and some of it in another way.
        self.norm = None if self.multiplies else found.modules[0]
        self.in_channels = self.parsed.in_channels
        # A factor with an axis for the batch gives one to what has none.
        scales = {a["name"] for operator, a in self.parsed.layers if operator == "scale"}
        stored = zip(self.parsed.names, self.parameters(), strict=True)
        self.needs_batch = any(map(_needs_batch, self.parsed.layers)) or any(
            name in scales and value.dim() > found.axes + 1 for name, value in stored
        )
        # Is told of the next call before it is made.
        self.watcher: Callable[[FusedChain, tuple[torch.Tensor, ...], bool], None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"watcher": None}

    def layers(self, x: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
        """What PyTorch's own layers make of it."""
        return evaluate(self.parsed, x, self.parameters(), inputs, self.axes, self.in_place)

    def __call__(
        self, x: torch.Tensor, *inputs: torch.Tensor, rounds: bool = False
    ) -> torch.Tensor:
        if self.watcher is not None:
            watcher, self.watcher = self.watcher, None
            watcher(self, (x, *inputs), rounds)
        is_ours = x.is_cuda or (self.cpu and x.device.type == "cpu")
        if not is_ours or x.dtype not in TYPES:
            return self.layers(x, *inputs)
        if self.needs_batch and self.axes is not None and x.dim() == self.axes + 1:
            return self.layers(x, *inputs)
        if self.norm is not None and not self.takes(x):
            if hasattr(self.norm, "_check_input_dim"):
                self.norm._check_input_dim(x)
            return self.layers(x, *inputs)
        if inputs and not self.fits(x, inputs):
            return self.layers(x, *inputs)
        return super().__call__(x, *inputs, rounds=rounds)

    def takes(self, x: torch.Tensor) -> bool:
        """Whether a norm that comes first is given a batch of as many channels as it has."""
        axes = x.dim() - 2
        return axes >= 0 and self.axes in (None, axes) and x.shape[1] == self.in_channels

    def fits(self, x: torch.Tensor, inputs: tuple[torch.Tensor, ...]) -> bool:
        """Whether residuals are as large as what they are added to, and of its type: PyTorch adds others as well. Under autocast types
        may differ, which the layers before may have changed."""
        chain, given = self.parsed, iter(inputs)
        if not all([isinstance(one, torch.Tensor) for one in inputs]):
            # An extent, for example.
            return False
        if any([one.dtype is not x.dtype for one in inputs]):
            if not torch.is_autocast_enabled(x.device.type):
                return False
            if any([one.dtype not in TYPES or one.device != x.device for one in inputs]):
                return False
        for index, (operator, _) in enumerate(chain.layers):
            if operator == "add":
                before = output_shape(chain, x.shape, index)
                if list(next(given).shape) != before:
                    return False
        return True


def _needs_batch(layer: tuple[str, dict[str, Any]]) -> bool:
    """Whether a layer takes the first axis for the batch: without one it does something else, or nothing."""
    operator, attributes = layer
    if operator == "prelu":
        return attributes["num_parameters"] != 1
    dim = reduced_dim(attributes)
    return operator in ("group_norm", "batch_norm") or (dim is not None and dim >= 0)


class State:
    """What a fused module has beside what it had: how it was traced, and the chains by the names of their first nodes."""

    def __init__(self, module: nn.Module, count: int, opaque: Sequence[nn.Module]) -> None:
        self.count, self.opaque = count, tuple(opaque)
        # Of all in it, since its code may ask any.
        self.modes = tuple((one, one.training) for one in module.modules())
        self.runners: dict[str, FusedChain] = {}
        self.run: Callable[..., Any] | None = None
        # Those whose mode the code that runs does not ask any more.
        self.decided: tuple[tuple[nn.Module, bool], ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"run": None, "decided": ()}

    def build(self, module: nn.Module) -> None:
        """Makes the code that runs, in the modes that there were when chains were looked for."""
        now = [(one, one.training) for one, _ in self.modes]
        replaced: set[int] = set()
        try:
            for one, training in self.modes:
                one.training = training
            graph = trace(module, self.opaque, self.count)
            for found in candidates(module, graph):
                runner = self.runners.get(found[0].start.name) if found else None
                same = [one for one in found if runner is not None and one.text == runner.chain]
                if same:
                    replaced.update(map(id, same[-1].modules))
                    replace(graph, same[-1])
        finally:
            for one, training in now:
                one.training = training
        called = [
            module.get_submodule(one.target) for one in graph.nodes if one.op == "call_module"
        ]
        # One that is called in another place as well is asked there alone.
        asked = {id(inner) for one in called for inner in one.modules()} - replaced
        self.decided = tuple(
            (one, training)
            for one, training in self.modes
            if one is module or (id(one) not in asked and not _is_the_same_in_training(one))
        )
        self.run = code(graph)


def _is_the_same_in_training(module: nn.Module) -> bool:
    """Whether a module does not ask which mode it is in: PyTorch's, but dropouts and batch norms."""
    kind = kind_of(module)
    if not kind.__module__.startswith("torch.nn.modules."):
        return False
    return "Dropout" not in kind.__name__ and kind not in BATCH_NORMS


class _Fused:
    """What classes of fused modules have beside what they had."""

    def forward(self, *arguments, **named):
        state = self._convfuse_state
        if named or len(arguments) != state.count:
            return super().forward(*arguments, **named)
        if any([one.training is not training for one, training in state.decided]):
            return super().forward(*arguments)
        for argument in arguments:
            if not isinstance(argument, torch.Tensor):
                return super().forward(*arguments)
        return state.run(self, *arguments)

    def __reduce_ex__(self, protocol):
        # As one of the class that it was: subclasses that are made while a program runs have no name to be found by.
        return _restored, (kind_of(self),), self.__dict__

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__[STATE].build(self)


_CLASSES: dict[type, type] = {}


def _fused_class(kind: type) -> type:
    if kind not in _CLASSES:
        content = {"__module__": kind.__module__, "_convfuse_kind": kind}
        fused = type(kind.__name__, (_Fused, kind), content)
        fused.__qualname__ = kind.__qualname__
        _CLASSES[kind] = fused
    return _CLASSES[kind]


def _restored(kind: type) -> nn.Module:
    fused = _fused_class(kind)
    return fused.__new__(fused)


def put(module: nn.Module, state: State) -> None:
    """Has a module run the chains of a state."""
    module.__dict__[STATE] = state
    module.__class__ = _fused_class(kind_of(module))
    state.build(module)


def take_out(module: nn.Module) -> None:
    """Makes of a module what it was."""
    module.__class__ = kind_of(module)
    module.__dict__.pop(STATE, None)
