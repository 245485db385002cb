"""What is said of graphs and of models."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Entry", "Report", "Times"]


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
    """What a call of the whole model took, in milliseconds."""

    call: float
    """The host's time included."""
    graph: float | None = None
    """A replay of a CUDA graph, where there is one."""

    def __str__(self) -> str:
        replay = "" if self.graph is None else f", {self.graph:.3f} ms in a CUDA graph"
        return f"{self.call:.3f} ms a call{replay}"


@dataclass
class Report:
    """What was taken of a model, and what was not."""

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
        """How many regions are calls of the operator."""
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
