"""Without PyTorch what needs it is not collected, and said to be so."""

from __future__ import annotations

import importlib.util

HAS_TORCH = importlib.util.find_spec("torch") is not None

collect_ignore = (
    []
    if HAS_TORCH
    else [
        "test_fuse.py",
        "test_fuse_layers.py",
        "test_gpu.py",
        "test_modules.py",
        "test_operator.py",
        "test_precision.py",
    ]
)


def pytest_report_header(config):
    if not HAS_TORCH:
        return "convfuse: no PyTorch here; what needs it is left to a machine that has it"
    return None
