"""The math mode of float32: that of PyTorch's own convolutions, unless the caller selects one."""

from __future__ import annotations

from typing import Any, Literal

import torch

__all__ = [
    "PRECISIONS",
    "Precision",
    "convolutions_allow_tf32",
    "expect_precision",
    "guarded",
    "matrix_products_allow_tf32",
]

Precision = Literal["auto", "accurate", "fast"]
PRECISIONS = ("auto", "accurate", "fast")

# Local names that save an attribute lookup per call.
_matmul_precision = torch.get_float32_matmul_precision
_cudnn_allows_tf32 = torch._C._get_cudnn_allow_tf32
_float32_precision = torch._C._get_fp32_precision_getter

# PyTorch has an older and a newer interface to allow tf32. The older one must not be read once the newer one
# was used.
_NEWER: list[bool] = []


def expect_precision(precision: str) -> None:
    """Raises ``ValueError`` for an invalid precision."""
    if precision not in PRECISIONS:
        raise ValueError(f"convfuse: precision is {precision!r}, must be one of {PRECISIONS}")


@torch.compiler.assume_constant_result
def matrix_products_allow_tf32() -> bool:
    """Whether tf32 is currently allowed in matrix products. Dynamo guards this setting itself."""
    if not _NEWER:
        try:
            return _matmul_precision() != "highest"
        except (RuntimeError, UserWarning):
            _NEWER.append(True)
    return _float32_precision("cuda", "matmul") == "tf32"


def convolutions_allow_tf32() -> bool:
    """Whether tf32 is currently allowed in convolutions, as by default in PyTorch, or in matrix products."""
    if not _NEWER:
        try:
            return _cudnn_allows_tf32() or _matmul_precision() != "highest"
        except (RuntimeError, UserWarning):
            _NEWER.append(True)
    return "tf32" in (_float32_precision("cuda", "conv"), _float32_precision("cuda", "matmul"))


def guarded(precision: Precision) -> bool:
    """Whether the program that Dynamo is compiling uses the fast math mode. If PyTorch's settings decide,
    Dynamo gets a guard on them and recompiles the program when they change."""
    if precision != "auto":
        return precision == "fast"
    from torch._dynamo.source import GlobalStateSource
    from torch._guards import TracingContext

    fast, context = convolutions_allow_tf32(), TracingContext.try_get()

    def holds(_: Any) -> bool:
        return convolutions_allow_tf32() is fast

    def create(builder: Any, guard: Any) -> None:
        words = [f"convfuse: tf32 in convolutions is {'' if fast else 'not '}allowed"]
        add = builder.guard_manager.root.add_lambda_guard
        try:
            add(holds, words, guard.user_stack)
        except TypeError:
            # PyTorch before 2.11 does not take the place in the user's code.
            add(holds, words)

    if context is not None:
        context.guards_context.dynamo_guards.add(GlobalStateSource().make_guard(create))
    return fast
