"""Reports on graphs and models."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

__all__ = ["Entry", "Report", "Times", "compiled", "note"]


@dataclass
class Entry:
    """A place in a graph where a region could begin."""

    module: str
    """Where: the path of the module that the first layer is of, as well as it is known."""
    chain: str
    """The layers, with spaces between; of what is no region, what it would begin with."""
    taken: bool
    """Whether it is one call of the operator."""
    reason: str
    """Why it is none, or why it ends where it does."""


@dataclass
class Times:
    """The time of a call of the whole model, in milliseconds."""

    call: float
    """The host's time included."""
    graph: float | None = None
    """A replay of a CUDA graph, where there is one."""

    def __str__(self) -> str:
        replay = "" if self.graph is None else f", {self.graph:.3f} ms in a CUDA graph"
        return f"{self.call:.3f} ms a call{replay}"


@dataclass(eq=False)
class Report:
    """The regions taken from a model, and the others."""

    entries: list[Entry] = field(default_factory=list)
    not_traced: list[tuple[str, str]] = field(default_factory=list)
    """Graphs that PyTorch's own operators compute, and why."""
    notes: list[str] = field(default_factory=list)
    """What holds for the whole model."""
    plain: Times | None = None
    """PyTorch's own operators, on the example."""
    fused: Times | None = None
    """The model as it is now, on the example."""

    @property
    def replaced(self) -> int:
        """The number of regions that are calls of the operator."""
        return sum(entry.taken for entry in self.entries)

    def __str__(self) -> str:
        lines = [f"{self.replaced} of {len(self.entries)} regions are taken"]
        lines += [f"= {note}" for note in self.notes]
        for name, times in (("PyTorch", self.plain), ("convfuse", self.fused)):
            if times is not None:
                lines.append(f"= {name}: {times}")
        for entry in self.entries:
            sign, where = "+" if entry.taken else "-", entry.module or "the model"
            lines.append(f"{sign} {where}: {entry.chain}: {entry.reason}")
        lines += [f"? {where}: {why}" for where, why in self.not_traced]
        return "\n".join(lines)


_COMPILED: weakref.WeakKeyDictionary[Report, dict[int, StorageWeakRef | None]] = (
    weakref.WeakKeyDictionary()
)
"""Reports of graphs that ``torch.compile`` has, with what tells the graphs' inputs: their identities, and whether what they lie in is still
there. A tensor with a weak reference to itself could not be swapped."""


def note(report: Report, inputs: Iterable[object]) -> None:
    """Registers a graph's report, which can be found as long as someone holds it."""
    _COMPILED[report] = {id(one): _storage(one) for one in inputs if isinstance(one, torch.Tensor)}


def _storage(one: torch.Tensor) -> StorageWeakRef | None:
    try:
        return StorageWeakRef(one.untyped_storage())
    except (NotImplementedError, RuntimeError):
        # A tensor subclass without storage.
        return None


def _is_input(one: torch.Tensor, inputs: dict[int, StorageWeakRef | None]) -> bool:
    if id(one) not in inputs:
        return False
    storage = inputs[id(one)]
    return storage is None or not storage.expired()


def compiled(model: nn.Module) -> Report | None:
    """The combined report of the graphs whose inputs include parameters or buffers of a model, if there are
    any."""
    own = [*model.parameters(), *model.buffers()]
    found = [
        report
        for report, inputs in list(_COMPILED.items())
        if any(_is_input(one, inputs) for one in own)
    ]
    if not found:
        return None
    whole = Report()
    for one in found:
        whole.entries += one.entries
        whole.not_traced += one.not_traced
        whole.notes += one.notes
    return whole
