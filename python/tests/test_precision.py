"""The PyTorch setting that selects the math mode of float32, for fused models and modules, in either of
PyTorch's interfaces."""

from __future__ import annotations

import pytest
import torch
from support import calls, problem
from torch import nn

import convfuse
from convfuse import _precision

# Statements, each with two results: whether float32 convolutions and matrix products may then use fewer bits
# in PyTorch and ``fuse``, and whether they may in modules.
SETTINGS = {
    "": (True, False),
    "cudnn.allow_tf32 = False": (False, False),
    "torch.set_float32_matmul_precision('high')": (True, True),
    "torch.set_float32_matmul_precision('medium')": (True, True),
    "cudnn.allow_tf32 = False; cuda.matmul.allow_tf32 = True": (True, True),
    "cudnn.allow_tf32 = False; cuda.matmul.allow_tf32 = False": (False, False),
    "cudnn.conv.fp32_precision = 'ieee'": (False, False),
    "cudnn.conv.fp32_precision = 'ieee'; cudnn.conv.fp32_precision = 'tf32'": (True, False),
    "cudnn.conv.fp32_precision = 'ieee'; cuda.matmul.fp32_precision = 'tf32'": (True, True),
    "cudnn.conv.fp32_precision = 'ieee'; cuda.matmul.fp32_precision = 'ieee'": (False, False),
    "torch.backends.fp32_precision = 'tf32'": (True, True),
    "cudnn.allow_tf32 = False; torch.backends.fp32_precision = 'tf32'": (True, True),
    "cudnn.allow_tf32 = False; torch.backends.fp32_precision = 'ieee'": (False, False),
    "cudnn.conv.fp32_precision = 'ieee'; cudnn.allow_tf32 = True": (True, False),
}

# The settings are global to the process, and not all can be undone. Each runs in a fork of a process that
# has imported everything.
CODE = """
import os, sys, warnings
from torch.backends import cuda, cudnn
import torch
from convfuse import _precision

def ask():
    warnings.simplefilter("error")
    return [_precision.convolutions_allow_tf32(), _precision.matrix_products_allow_tf32()]


for setting in SETTINGS:
    child = os.fork()
    if child == 0:
        exec(setting)
        print(ask(), flush=True)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(f"failed: {setting}")
"""


def test_auto_is_what_the_caller_allows(child):
    done = child(CODE.replace("SETTINGS", repr(list(SETTINGS))), timeout=300)
    assert done.returncode == 0, done.stderr
    expected = [f"[{fused}, {module}]" for fused, module in SETTINGS.values()]
    assert list(zip(SETTINGS, done.stdout.splitlines(), strict=True)) == list(
        zip(SETTINGS, expected)
    )


@pytest.fixture
def model():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8)).eval()


def is_fast(model):
    return [one.args[3] for graph in calls(model) for one in graph]


@pytest.mark.parametrize("precision", ["accurate", "fast"])
def test_a_precision_that_is_said_needs_no_setting(model, precision):
    convfuse.fuse(model, precision=precision, cpu=True)
    with torch.no_grad():
        model(torch.randn(1, 3, 5, 5))
    assert is_fast(model) == [precision == "fast"]
    assert problem(85, precision=precision)[0].precision == precision


def test_the_setting_is_none_of_the_cpu(model):
    convfuse.fuse(model, cpu=True)
    with torch.no_grad():
        model(torch.randn(1, 3, 5, 5))
    assert is_fast(model) == [False]


def test_the_setting_at_the_time_of_a_call_counts(model, monkeypatch):
    """As on a GPU, where PyTorch's settings decide."""
    from convfuse import _backend

    monkeypatch.setattr(_backend, "_fast", lambda _, precision: _precision.guarded(precision))
    convfuse.fuse(model, cpu=True)
    x, cudnn = torch.randn(1, 3, 5, 5), torch.backends.cudnn
    with torch.no_grad():
        for allowed in (True, False, True, False):
            with cudnn.flags(enabled=True, allow_tf32=allowed):
                model(x)
            assert is_fast(model) == [True, False][: len(is_fast(model))]
    # One compilation for each setting.
    assert is_fast(model) == [True, False]


def test_compiled_modules_follow_the_setting():
    seen = []

    def backend(graph, _):
        runs = [one for one in graph.graph.nodes if one.target is torch.ops.convfuse.run]
        runs += [one for one in graph.graph.nodes if one.target is torch.ops.convfuse.run.default]
        seen.extend(one.args[3] for one in runs)
        return graph.forward

    module, x = problem(85)
    compiled = torch.compile(module, fullgraph=True, backend=backend)
    before = torch.get_float32_matmul_precision()
    try:
        for precision in ("highest", "high", "highest"):
            torch.set_float32_matmul_precision(precision)
            with torch.no_grad():
                compiled(x)
    finally:
        torch.set_float32_matmul_precision(before)
    assert seen == [False, True]


def test_other_precisions_are_refused(model):
    for precision in ("half", "", "FAST"):
        with pytest.raises(ValueError, match=f"precision is '{precision}'"):
            convfuse.fuse(model, precision=precision)
