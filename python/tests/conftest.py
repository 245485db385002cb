"""Without PyTorch, the tests that need it are not collected, and the report says so."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Tensors here are small. With one thread per core in several pytest-xdist processes, or in a container with
# fewer cores, threads mostly wait for each other. Set before PyTorch is loaded, and inherited by processes
# that tests start.
_WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_THREADS = max(1, min(4, len(os.sched_getaffinity(0)) // _WORKERS))
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ.setdefault(_name, str(_THREADS))

HAS_TORCH = importlib.util.find_spec("torch") is not None

_HERE = Path(__file__).parent
_WITHOUT_TORCH = {"test_arrays.py"}

collect_ignore = (
    [] if HAS_TORCH else sorted({one.name for one in _HERE.glob("test_*.py")} - _WITHOUT_TORCH)
)


def pytest_report_header(config):
    if not HAS_TORCH:
        return "convfuse: no PyTorch here; what needs it is left to a machine that has it"
    return None


@pytest.fixture(autouse=True)
def fresh():
    """Clears everything compiled."""
    if HAS_TORCH:
        import torch

        torch._dynamo.reset()


@pytest.fixture
def child():
    """Runs code in a new Python that finds the installed package: ``-c`` searches the current folder first,
    and the source folder has no native half."""

    def run(code, timeout=60):
        program = [sys.executable, "-c", code]
        return subprocess.run(program, capture_output=True, text=True, timeout=timeout, cwd=_HERE)

    return run
