"""Without PyTorch what needs it is not collected, and said to be so."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Tensors here are small: with a thread for each core, in several processes of pytest-xdist or in a container that has a part of the cores,
# threads wait for each other most of the time. Known before PyTorch is loaded, and to the processes that tests start.
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
    """Nothing is compiled yet."""
    if HAS_TORCH:
        import torch

        torch._dynamo.reset()


@pytest.fixture
def child():
    """Runs code in a Python of its own, which finds the package that is installed: ``-c`` looks into the current folder first, and that
    of the sources has no native half."""

    def run(code, timeout=60):
        program = [sys.executable, "-c", code]
        return subprocess.run(program, capture_output=True, text=True, timeout=timeout, cwd=_HERE)

    return run
