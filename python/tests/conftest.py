"""Without PyTorch what needs it is not collected, and said to be so."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.fixture
def child():
    """Runs code in a Python of its own, which finds the package that is installed: ``-c`` looks into the current folder first, and that
    of the sources has no native half."""

    def run(code, timeout=60):
        program, folder = [sys.executable, "-c", code], Path(__file__).parent
        return subprocess.run(program, capture_output=True, text=True, timeout=timeout, cwd=folder)

    return run
