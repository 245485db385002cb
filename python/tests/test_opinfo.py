"""PyTorch's own samples for convolutions, norms, pools and activations, compiled by the backend."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves, tree_map_only

import convfuse
from convfuse._backend import Kernels, Options
from convfuse._inductor import convfuse as backend

pytest.importorskip("expecttest", reason="PyTorch's samples need expecttest")

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

FIRST = (
    *("conv1d", "conv2d", "conv3d", "group_norm", "instance_norm", "batch_norm", "layer_norm"),
    *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
)
BEHIND = (
    *("max_pool2d", "max_pool3d", "avg_pool2d", "avg_pool3d", "prelu", "leaky_relu", "silu"),
    *("adaptive_avg_pool2d", "adaptive_avg_pool3d", "gelu", "elu", "softplus", "mish", "relu"),
    *("hardswish", "hardtanh", "relu6", "hardsigmoid", "celu", "selu", "sigmoid", "tanh", "softmax"),
    *("max_pool1d", "avg_pool1d", "adaptive_avg_pool1d", "adaptive_max_pool1d", "adaptive_max_pool2d"),
    *("adaptive_max_pool3d", "log_softmax", "logsumexp", "amax", "amin", "mean", "sum", "pad", "interpolate"),
)

# Operators with samples that PyTorch refuses.
REFUSING = ("conv1d", "conv2d", "conv3d", "group_norm", "max_pool1d", "max_pool2d", "max_pool3d", "avg_pool2d")
REFUSING += ("avg_pool3d", "adaptive_avg_pool2d", "adaptive_max_pool3d", "gelu", "hardtanh", "prelu", "amax", "mean")

DYNAMIC = ("conv2d", "conv_transpose2d", "instance_norm", "layer_norm", "max_pool2d", "avg_pool2d", "prelu")

# Every sample of these is left to PyTorch, since it has too few axes.
NEVER = {"layer_norm", "prelu", "logsumexp"}

# The most samples of an operator that are used. There are hundreds of pools.
MOST = 24


def variants(name):
    """PyTorch's descriptions of an operator."""
    return [one for one in op_db if one.name in (name, f"nn.functional.{name}")]


def samples(name, dtype):
    """PyTorch's own samples for an operator."""
    info = variants(name)[0]
    if dtype not in info.supported_dtypes("cpu"):
        pytest.skip(f"PyTorch's {name} knows no {dtype}")
    torch.manual_seed(0)
    every = info.sample_inputs("cpu", dtype, requires_grad=False)
    found = [(info.op, one.input, one.args, one.kwargs) for one in every if isinstance(one.input, torch.Tensor)]
    return found[:: math.ceil(len(found) / MOST)]


def results(y):
    """The tensors among an operator's outputs."""
    return [one for one in tree_leaves(y) if isinstance(one, torch.Tensor)]


def ahead(given):
    """Applies an activation after each call."""
    return [F.relu(op(x, *args, **named)) for op, x, args, named in given]


def behind(given):
    """Applies a norm before each call."""
    found = []
    for op, x, args, named in given:
        if x.dim() < 3 and not args and "weight" not in named:
            x = x.reshape(1, 1, -1)
        if x.dim() > 2 and x.shape[1:].numel() > 1:
            x = F.group_norm(x, 1)
        found += results(op(x, *args, **named))
    return found


class Function(torch.nn.Module):
    """An operator as a module."""

    def __init__(self, op):
        super().__init__()
        self.op = op

    def forward(self, x, args, named):
        return self.op(x, *args, **named)


@pytest.mark.parametrize("name", REFUSING)
def test_what_pytorch_refuses_is_refused_in_its_words(name):
    (info, *_), count = variants(name), 0
    for sample in (one.sample_input for one in info.error_inputs("cpu")):
        torch._dynamo.reset()
        found = []
        for model in (Function(info.op), convfuse.fuse(Function(info.op), cpu=True, choice="all")):
            try:
                with torch.no_grad():
                    model(sample.input, sample.args, sample.kwargs)
            except Exception as error:  # noqa: BLE001  the same of both
                found.append((type(error), str(error)))
                count += 1
            else:
                found.append(None)
        assert found[0] == found[1]
    assert count


@pytest.mark.parametrize("name", DYNAMIC)
def test_samples_of_unknown_extents(name):
    test_samples_of_pytorch(name, torch.float32, True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", FIRST + BEHIND)
def test_samples_of_pytorch(name, dtype, is_dynamic=False):
    given = samples(name, dtype)
    function = ahead if name in FIRST else behind
    kernels = Kernels(Options("accurate", cpu=True, choice="all"))
    compiled = torch.compile(function, backend=backend, options={"kernels": kernels})

    def copies(wide=False):
        """Copies the inputs, since norms write to their running statistics."""
        to = torch.Tensor.double if wide else torch.clone
        known = {torch.float16, torch.bfloat16, torch.float32}
        return tree_map_only(
            torch.Tensor, lambda one: to(one) if one.dtype in known else one.clone(), given
        )

    mine = copies()
    for _, x, _, _ in mine if is_dynamic else ():
        for axis in range(x.dim()):
            if axis != 1:
                torch._dynamo.maybe_mark_dynamic(x, axis)
    with torch.no_grad():
        ours, theirs, exact = compiled(mine), function(copies()), function(copies(wide=True))
    for y, z, reference in zip(ours, theirs, exact, strict=True):
        assert y.shape == z.shape and y.dtype is z.dtype
        if y.numel() == 0 or not y.is_floating_point():
            continue
        unit = torch.finfo(dtype).eps * max(1.0, reference.abs().nan_to_num().max().item())
        error = (y.double() - reference).abs()
        allowed = (2 * (z.double() - reference).abs()).clamp(min=64 * unit)
        assert torch.equal(y.isnan(), z.isnan())
        assert (error.nan_to_num() <= allowed.nan_to_num().max()).all()
    taken = [region for program in kernels.programs for region in program.regions]
    assert name in NEVER or taken, kernels.report()
