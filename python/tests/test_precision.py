"""Which setting of PyTorch decides how float32 is multiplied, in fused models and in modules, by either of its interfaces."""

from __future__ import annotations

import pytest
import torch
from support import problem
from torch import nn

import convfuse
from convfuse import _timing
from convfuse._runner import convolutions_allow_tf32

# Statements, and whether then convolutions and matrix products of float32 may be made with fewer bits, by PyTorch and by ``fuse``, and by modules.
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

# The settings are of a process, and not all can be taken back: each has a child of one that has imported everything.
CODE = """
import os, sys, warnings
import torch
from torch import nn
from torch.backends import cuda, cudnn
import convfuse
from convfuse import nn as fused_nn


def ask():
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    convs = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8))
    norms = nn.Sequential(nn.GroupNorm(1, 3), nn.ReLU())
    conv = {"conv2d": {"name": "conv", "out_channels": 8, "kernel_size": 3}}
    module, runners = fused_nn.Chain(3, [conv]), []
    for model in (convs, norms):
        convfuse.fuse(model.eval(), cpu=True)
        runners.extend(model._convfuse_state.runners.values())
    with torch.no_grad():
        for model in (convs, norms, module):
            model(torch.randn(1, 3, 5, 5))
    # A chain without products has no precision.
    return [runners[0]._is_fast(), module._runner._is_fast(), runners[1]._is_fast()]


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
    expected = [f"[{fused}, {module}, False]" for fused, module in SETTINGS.values()]
    assert list(zip(SETTINGS, done.stdout.splitlines(), strict=True)) == list(zip(SETTINGS, expected))


@pytest.mark.parametrize("precision", ["accurate", "fast"])
def test_a_precision_that_is_said_needs_no_setting(precision):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8)).eval()
    convfuse.fuse(model, precision=precision, cpu=True)
    (runner,) = model._convfuse_state.runners.values()
    assert runner._is_fast() is (precision == "fast")
    assert problem(85, precision=precision)[0]._runner._is_fast() is (precision == "fast")


def test_compiled_models_keep_the_setting(monkeypatch):
    torch._dynamo.reset()
    seen = []

    def backend(graph, _):
        runs = [one for one in graph.graph.nodes if one.target is torch.ops.convfuse.run.default]
        seen.extend(one.args[-1] for one in runs)
        return graph.forward

    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8)).eval()
    convfuse.fuse(model, cpu=True)
    x = torch.randn(1, 3, 5, 5)
    for allowed in (True, False):
        torch._dynamo.reset()
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", allowed)
        assert convolutions_allow_tf32() is allowed
        with torch.no_grad():
            torch.compile(model, fullgraph=True, backend=backend)(x)
    assert seen == [True, False]


NAN = float("nan")


@pytest.mark.parametrize(
    ("ours", "theirs", "is_kept"),
    [
        ([1.0, 2.0], [1.0, 2.0], True),
        ([1.0, 2.0 + 1e-6], [1.0, 2.0], True),
        ([1.0, 2.1], [1.0, 2.0], False),
        # Twice as far as PyTorch's layers are.
        ([1.0, 2.1], [1.0, 1.94], True),
        ([1.0, 2.1], [1.0, 1.96], False),
        ([1.0, NAN], [1.0, 2.0], False),
        ([NAN, NAN], [1.0, 2.0], False),
    ],
)
def test_what_is_as_near_as_pytorch_is_kept(ours, theirs, is_kept):
    runner = convfuse.fuse(nn.Sequential(nn.GroupNorm(1, 2)), cpu=True)._convfuse_state
    (runner,) = runner.runners.values()
    exact = torch.tensor([1.0, 2.0], dtype=torch.float64)
    found = _timing._is_within_bound(runner, torch.tensor(ours), torch.tensor(theirs), exact)
    assert found is is_kept
    # NaN is to be where float64 has it, whatever PyTorch's layers make of it.
    lost = exact.masked_fill(torch.tensor([False, True]), NAN)
    found = _timing._is_within_bound(runner, torch.tensor(ours), torch.tensor(theirs), lost)
    assert found is (ours[1] != ours[1] and ours[0] == ours[0])
