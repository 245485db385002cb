"""Fused convolution pipelines on the GPU, for PyTorch.

``convfuse.fuse(model)`` replaces chains of layers in a model with one or a few fused kernels where these are
faster, and leaves the rest unchanged. ``convfuse.unfuse`` undoes it, and ``convfuse.report`` describes the
result. ``convfuse.nn`` has modules that are fused from the start. ``convfuse.export(model, example, path)``
writes a whole model as a file that runs without Python.

Everything requires PyTorch 2.10 or later, except ``import convfuse`` itself and ``convfuse.arrays``, which
runs on arrays of other libraries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    from ._native import __version__
except ModuleNotFoundError as error:
    # In the source folder, which Python searches before the installed packages.
    raise ModuleNotFoundError(
        f"convfuse: {__path__[0]} has the package's sources without its native half: run Python from another folder, where the "
        "installed package is found, or build it into this one by 'maturin develop --release'",
        name=error.name,
    ) from None

if TYPE_CHECKING:
    from . import arrays, nn, ops
    from ._export import Exported, ExportError, export
    from ._fuse import Report, fuse, report, unfuse

__all__ = [
    "ExportError",
    "Exported",
    "Report",
    "__version__",
    "arrays",
    "export",
    "fuse",
    "nn",
    "ops",
    "report",
    "unfuse",
]


def __getattr__(name: str) -> Any:
    # Modules that need PyTorch are imported on first access.
    import importlib

    try:
        if name in ("arrays", "nn", "ops"):
            return importlib.import_module(f".{name}", __name__)
        if name in ("fuse", "unfuse", "report", "Report"):
            return getattr(importlib.import_module("._fuse", __name__), name)
        if name in ("export", "Exported", "ExportError"):
            return getattr(importlib.import_module("._export", __name__), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        words = f"convfuse.{name} needs PyTorch 2.10 or later, which is not installed here"
        raise ModuleNotFoundError(words, name="torch") from None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
