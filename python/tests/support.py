"""Shared code of the tests: devices, and references in float64."""

from __future__ import annotations

import copy
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import convfuse
from convfuse import nn as fused_nn
from convfuse._chain import evaluate, parsed
from convfuse.ops import RUN

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])

# The largest permitted error relative to the largest value: of arithmetic in the type, with sums of some
# hundred products.
BOUNDS = {torch.float32: 2e-5, torch.float16: 2e-2, torch.bfloat16: 1.2e-1}

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

BLOCKS = {
    "decoder": (
        (2, 32, 20, 24),
        32,
        [
            {"conv2d": {"name": "conv", "out_channels": 64, "kernel_size": 3, "padding": 1}},
            {"group_norm": {"name": "norm", "num_groups": 32}},
            {"silu": {}},
        ],
    ),
    "segmentation": (
        (2, 8, 8, 12, 10),
        8,
        [
            {"conv3d": {"name": "conv", "out_channels": 16, "kernel_size": 3, "padding": 1}},
            {"instance_norm": {"name": "norm", "affine": True}},
            {"leaky_relu": {"negative_slope": 0.01}},
        ],
    ),
    "classifier": (
        (2, 16, 15, 17),
        16,
        [
            {"conv2d": {"name": "conv", "out_channels": 24, "kernel_size": 3, "stride": 2}},
            {"batch_norm": {"name": "norm"}},
            {"relu": {}},
            {"max_pool2d": {"kernel_size": 3, "stride": 2, "padding": 1}},
        ],
    ),
    "residual_unit": (
        (2, 8, 8, 12, 10),
        8,
        [
            {"conv3d": {"name": "conv", "out_channels": 16, "kernel_size": 3, "padding": 1}},
            {"instance_norm": {"name": "norm"}},
            {"prelu": {"name": "act"}},
        ],
    ),
    "transposed": (
        (2, 8, 9, 10),
        8,
        [
            {
                "conv_transpose2d": {
                    "name": "up",
                    "out_channels": 12,
                    "kernel_size": [3, 4],
                    "stride": 2,
                    "padding": [0, 1],
                    "output_padding": [1, 0],
                    "groups": 2,
                }
            },
            {"group_norm": {"name": "norm", "num_groups": 3}},
            {"relu": {}},
        ],
    ),
    "residual": (
        (2, 16, 12, 14),
        16,
        [
            {"conv2d": {"name": "conv", "out_channels": 16, "kernel_size": 3, "padding": 1}},
            {"group_norm": {"name": "norm", "num_groups": 4}},
            {"add": {"input": "shortcut"}},
            {"relu": {}},
        ],
    ),
    "arithmetic": (
        (2, 8, 9, 11),
        8,
        [
            {"conv2d": {"name": "conv", "out_channels": 12, "kernel_size": 3}},
            {"add": {"name": "shift", "shape": [12, 1, 1], "initialisation": "normal"}},
            {"mul": {"name": "gain", "shape": [1, 12, 1, 1], "initialisation": "normal"}},
            {"sub": {"name": "one", "shape": [1]}},
            {"div": {"name": "divisor", "shape": [], "initialisation": {"constant": 1.7}}},
            {"maximum": {"value": -2}},
            {"hardtanh": {"min_val": -1.5, "max_val": 3}},
            {"minimum": {"value": 2.5}},
            {"add": {"value": 0.3}},
            {"sub": {"value": 0.1}},
            {"mul": {"value": 1.5}},
            {"div": {"value": 0.7}},
            {"sigmoid": {}},
        ],
    ),
    "softmax": (
        (2, 8, 9, 11),
        8,
        [
            {"softmax": {"dim": [2, 3]}},
            {"scale": {"name": "scale", "initialisation": "normal"}},
            {"conv2d": {"name": "conv", "out_channels": 12, "kernel_size": 3}},
            {"log_softmax": {"dim": 1}},
            {"add": {"name": "bias", "shape": [12, 1, 1], "initialisation": "normal"}},
            {"sigmoid": {}},
        ],
    ),
    "reductions": (
        (2, 8, 9, 11),
        8,
        [
            {"conv2d": {"name": "conv", "out_channels": 12, "kernel_size": 3}},
            {"batch_norm": {"name": "norm"}},
            {"mean": {"dim": -1}},
            {"mul": {"name": "gain", "initialisation": "normal"}},
            {"max": {"dim": 2}},
            {"sub": {"name": "shift", "shape": [1, 12], "initialisation": "normal"}},
            {"logsumexp": {"dim": [1], "keepdim": True}},
            {"mul": {"value": 0.5}},
        ],
    ),
}


def block(name, device, dtype=torch.float32):
    """A block with random parameters, and inputs for it."""
    shape, channels, layers = BLOCKS[name]
    torch.manual_seed(1)
    module = fused_nn.Chain(channels, layers).eval()
    redraw(module)
    inputs = [torch.randn(shape) for _ in range(1 + len(parsed(module.chain).inputs))]
    module = module.to(device, dtype)
    return module, [x.to(device, dtype) for x in inputs]


def redraw(module):
    """Draws parameters that differ from the initial ones, with positive variances."""
    with torch.no_grad():
        for name, value in [*module.named_parameters(), *module.named_buffers()]:
            if name.endswith("running_var"):
                value.uniform_(0.5, 2.0)
            elif value.dim() == 1:
                value.uniform_(-1.5, 1.5)


def problem(number, **options):
    """A small problem 85 or 79: module and input."""
    torch.manual_seed(7)
    if number == 85:
        module = fused_nn.Conv2dGroupNormScaleMaxPoolClamp(
            8, 64, 3, 16, (64, 1, 1), 4, 0.0, 1.0, **options
        )
        return module, torch.randn(3, 8, 20, 25)
    module = fused_nn.Conv3dMultiplyInstanceNormClampMultiplyMax(
        3, 16, 3, (16, 1, 1, 1), -1.0, 1.0, **options
    )
    return module, torch.randn(3, 3, 6, 9, 10)


def exact(module, *inputs):
    """The module's result in float64 with PyTorch's own layers."""
    values = [value.detach().double().cpu() for value in module.chain_parameters()]
    inputs = [x.detach().double().cpu() for x in inputs]
    return evaluate(parsed(module.chain), inputs[0], values, inputs[1:])


def expect_close(actual, expected, dtype=None, factor=1.0):
    """Also fails on NaN."""
    bound = BOUNDS[dtype or actual.dtype] * factor * max(1.0, expected.abs().max().item())
    error = (actual.detach().double().cpu() - expected).abs().max().item()
    assert actual.shape == expected.shape
    assert error <= bound, f"largest error {error}, allowed {bound}"


@pytest.fixture
def products_in_full():
    """Makes PyTorch, and fused models with its settings, use accurate f32 products instead of tf32."""
    # The only interface that still works after PyTorch's own tests were imported.
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


def expect_same(actual, expected):
    """Expects the same type, and the same values up to the order of f32 sums."""
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    error = (actual - expected).abs().max().item()
    assert error <= 1e-4 * max(1.0, expected.abs().max().item()), error


def chain_text(channels, *layers):
    return json.dumps({"in_channels": channels, "layers": list(layers)})


def chains(model):
    """The chains of a fused model's regions, in order."""
    return [one.chain for one in convfuse.report(model).entries if one.taken]


def reasons(model):
    """The reasons why places were not taken, by their first operator."""
    return {one.chain: one.reason for one in convfuse.report(model).entries if not one.taken}


def fused(model, **options):
    """A fused copy of a model with PyTorch's math mode on a CPU."""
    return convfuse.fuse(copy.deepcopy(model), **({"cpu": True, "precision": "accurate"} | options))


def at_once(work, count=4):
    """Runs ``work`` in this number of parallel threads, and raises the error of any of them."""
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(work, range(count)))


def calls(model):
    """The operator calls in each graph of a fused model."""
    programs = model.__dict__["_convfuse"].kernels.programs
    graphs = [one.run.__self__.graph for one in programs]
    return [[one for one in graph.nodes if one.target is RUN] for graph in graphs]


def exact_of(model, *inputs):
    """The result of a model in float64."""
    with torch.no_grad():
        return copy.deepcopy(model).double()(*[one.double() for one in inputs])


def expect_near(y, exact, factor=1.0):
    """Expects the shape, and the type's accuracy relative to float64."""
    expect_close(y, exact, factor=factor)


class ResidualBlock(nn.Module):
    """A residual block as in diffusion models."""

    def __init__(self, channels=8):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, channels), nn.Conv2d(channels, channels, 3, 1, 1)
        self.norm2, self.conv2 = nn.GroupNorm(4, channels), nn.Conv2d(channels, channels, 3, 1, 1)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        y = self.conv1(F.silu(self.norm1(x)))
        y = self.conv2(self.dropout(F.silu(self.norm2(y))))
        return x + y
