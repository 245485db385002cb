"""What ``fuse`` says of a model."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Entry", "Report"]


@dataclass
class Entry:
    """What was found in one place."""

    module: str
    """Where: the path of the first layer."""
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
    rounds: bool = False
    """Whether under autocast it gives 16 bits where PyTorch's layers would give float32, since all that read it round it to 16 bits."""


@dataclass
class Report:
    """What :func:`fuse` did to a model."""

    entries: list[Entry] = field(default_factory=list)
    not_traced: list[tuple[str, str]] = field(default_factory=list)
    """Modules whose code cannot be traced, and why; modules and layers within them were looked at by themselves."""

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
            rounds = ", 16 bits under autocast" if entry.rounds else ""
            sign = "+" if entry.replaced else "-"
            where = entry.module or "the model"
            lines.append(f"{sign} {where}: {entry.chain}: {entry.reason}{times}{rounds}")
        for path, why in self.not_traced:
            lines.append(f"? {path or 'the model'}: not traced: {why}")
        return "\n".join(lines)
