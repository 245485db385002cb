"""Autocast: the types of chains in it, and who reads what is rounded.

What it does on a GPU is seen on any machine: tensors without values (``FakeTensorMode``) have devices, too.
"""

from __future__ import annotations

import itertools
import json
from contextlib import contextmanager

import pytest
import torch
from support import ResidualBlock, Runs, decided_by
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

import convfuse
from convfuse._autocast import TYPES, steps, type_of_layers, way
from convfuse._chain import evaluate, parsed

LOWS = [torch.float16, torch.bfloat16]


@contextmanager
def autocast(kind, low):
    """Autocast, for GPUs where there is none, too."""
    before = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
    torch.set_autocast_enabled(kind, True)
    torch.set_autocast_dtype(kind, low)
    try:
        yield
    finally:
        torch.set_autocast_enabled(kind, before[0])
        torch.set_autocast_dtype(kind, before[1])
        torch.clear_autocast_cache()


LAYERS = {
    "conv2d": {"name": "conv2d", "out_channels": 8, "kernel_size": 3, "padding": 1},
    "group_norm": {"name": "group_norm", "num_groups": 2},
    "layer_norm": {"name": "layer_norm", "normalized_shape": [8, 4, 4]},
    "instance_norm": {"name": "instance_norm", "affine": True},
    "batch_norm": {"name": "batch_norm"},
    "scale": {"name": "scale"},
    "prelu": {"name": "prelu"},
    "add": {"input": "add"},
    "clamp": {"min": 0.0},
    "max_pool2d": {"kernel_size": 1},
    "avg_pool2d": {"kernel_size": 1},
    "adaptive_avg_pool2d": {"output_size": 1},
    "conv3d": {"name": "conv3d", "out_channels": 8, "kernel_size": 3, "padding": 1},
    "max_pool3d": {"kernel_size": 1},
    "avg_pool3d": {"kernel_size": 1},
    "adaptive_avg_pool3d": {"output_size": 1},
    **{
        one: {}
        for one in "relu leaky_relu silu gelu sigmoid tanh hardswish elu softplus mish".split()
    },
    **{one: {"dim": 1} for one in ("max", "min", "sum", "mean")},
}
# Those that leave the size, each before each other.
OF_ONE_SIZE = [*LAYERS][:11]


def chain_of(*operators):
    """A chain of eight channels."""
    layers = [{one: LAYERS[one]} for one in operators]
    return parsed(json.dumps({"in_channels": 8, "layers": layers}))


@pytest.mark.parametrize("kind", ["cuda", "cpu"])
@pytest.mark.parametrize("low", LOWS)
def test_types_are_those_of_pytorch(kind, low):
    one, two = [(a,) for a in LAYERS], [*itertools.permutations(OF_ONE_SIZE, 2)]
    with autocast(kind, low), FakeTensorMode(), torch.no_grad():
        for operators in one + two:
            chain = chain_of(*operators)
            written = [index for index, one in enumerate(operators) if one in ("add", "scale")]
            axes = 3 if operators[0].endswith("3d") else 2
            shape = (2, 8, *[4] * axes)
            stored_as = [torch.float32, low]
            # Factors that are of another type than the parameters around them.
            factors_as = stored_as if "scale" in operators and len(operators) > 1 else [None]
            for given, stored, factors in itertools.product(TYPES, stored_as, factors_as):
                if stored is not torch.float32 and "batch_norm" in operators:
                    continue
                values = [
                    torch.empty(
                        shape, dtype=factors if name == "scale" and factors else stored, device=kind
                    )
                    for name, shape, _ in chain.parameters
                ]
                x = torch.empty(shape, dtype=given, device=kind)
                for residual in TYPES if "add" in operators else TYPES[:1]:
                    inputs = [x.to(residual)] * len(chain.inputs)
                    for in_place in ([], written) if written else ([],):
                        y = evaluate(chain, x, values, inputs, in_place=in_place)
                        types = [one.dtype for one in inputs], [one.dtype for one in values]
                        deciding = steps(chain, in_place)
                        found = type_of_layers(deciding, kind, low, given, *types)
                        assert found is y.dtype, (operators, given, stored, residual, in_place)


def test_no_residual_is_rounded_and_no_input_of_a_norm():
    low, wide = torch.float16, torch.float32
    for x, layers, rounds in itertools.product((low, wide), (low, wide), (False, True)):
        # Products are made of 16 bits unless somebody wants float32 of float32.
        in_full = layers is wide and x is wide and not rounds
        expected = (wide, wide) if in_full else (low, low if rounds else layers)
        assert way(True, low, layers, rounds, x, [low]) == expected
        assert way(True, low, layers, rounds, x, [wide]) == (wide, layers)
        gives = low if rounds else layers
        expected = (low, low) if gives is low and x is low else (wide, layers)
        assert way(False, low, layers, rounds, x, [low]) == expected
        assert way(False, low, layers, rounds, x, [wide]) == (wide, layers)


class Decoder(nn.Sequential):
    def __init__(self):
        first, last = nn.Conv2d(3, 8, 3, 1, 1), nn.Conv2d(8, 3, 3, 1, 1)
        head = nn.GroupNorm(2, 8), nn.SiLU()
        super().__init__(first, ResidualBlock(), ResidualBlock(), *head, last)


def on_a_gpu(kind):
    """A model on a GPU that need not be there, to be used in a ``FakeTensorMode``."""
    with torch.device("cuda"):
        return kind().eval()


@pytest.mark.parametrize("low", LOWS)
def test_a_decoder_runs_in_16_bits_on_a_gpu(low, monkeypatch):
    decided_by(monkeypatch, lambda chain: True)
    with FakeTensorMode(), torch.no_grad(), autocast("cuda", low):
        model, x = on_a_gpu(Decoder), torch.empty(2, 3, 10, 12, device="cuda")
        assert model(x).dtype is low
        convfuse.fuse(model, x)
        with Runs() as seen:
            assert model(x).dtype is low
    found = convfuse.report(model).entries
    assert all(one.replaced for one in found) and seen.types == [low] * len(found)
    # The second residual goes into a norm, with that norm into the last convolution.
    assert {one.module: one.rounds for one in found} == {
        "0": False,
        "1.norm1": True,
        "1.conv1": True,
        "1.conv2": False,
        "2.norm1": True,
        "2.conv1": True,
        "2.conv2": True,
        "5": False,
    }
    words = str(convfuse.report(model)).splitlines()
    assert "+ 1.norm1: group_norm silu: faster, 16 bits under autocast" in words
    assert "+ 5: conv2d: faster" in words


def test_without_autocast_nothing_is_rounded(monkeypatch):
    decided_by(monkeypatch, lambda chain: True)
    with FakeTensorMode(), torch.no_grad():
        model, x = on_a_gpu(Decoder), torch.empty(2, 3, 10, 12, device="cuda")
        convfuse.fuse(model, x)
        with Runs() as seen:
            assert model(x).dtype is torch.float32
            with autocast("cuda", torch.float16), torch.autocast("cpu", enabled=False):
                torch.set_autocast_enabled("cuda", False)
                assert model(x).dtype is torch.float32
    assert set(seen.types) == {torch.float32}


def test_where_gradients_are_recorded_nothing_is_rounded():
    with FakeTensorMode(), autocast("cuda", torch.float16):
        model = convfuse.fuse(on_a_gpu(lambda: nn.Sequential(nn.GroupNorm(2, 8), nn.Conv2d(8, 4, 3))))
        x = torch.empty(2, 8, 5, 5, device="cuda", dtype=torch.float16)
        for may_record, expected in ((True, torch.float32), (False, torch.float16)):
            with Runs() as seen, torch.set_grad_enabled(may_record):
                model(x)
            assert seen.types == [expected]


def heard():
    conv = convolution()
    conv.register_forward_pre_hook(lambda module, given: None)
    return conv


def of_function(function):
    """A module that reads a norm's value by a function."""

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.conv, self.linear = nn.GroupNorm(2, 8), nn.Conv2d(8, 8, 1), nn.Linear(6, 6)
            self.again = nn.GroupNorm(4, 8)

        def forward(self, x):
            return function(self, self.norm(x))

    return Reader


def after(*layers):
    return lambda: nn.Sequential(nn.GroupNorm(2, 8), *(layer() for layer in layers))


def convolution():
    return nn.Conv2d(8, 4, 3)


ROUNDED = {
    "conv": after(convolution),
    "conv_transpose": after(lambda: nn.ConvTranspose2d(8, 4, 2, 2)),
    "dropout": after(nn.Dropout, nn.Identity, convolution),
    "nearest": after(lambda: nn.Upsample(scale_factor=2), convolution),
    "linear": after(nn.Flatten, lambda: nn.Linear(288, 2)),
    "pad": of_function(lambda m, y: m.conv(F.pad(y, (1, 2, 0, 1)))),
    "interpolate": of_function(lambda m, y: m.conv(F.interpolate(y, scale_factor=2.0, mode="nearest"))),
    "pooled": of_function(lambda m, y: (m.conv(F.max_pool2d(y, 2)), m.conv(y))),
    "two": of_function(lambda m, y: m.conv(y) + m.linear(y)),
    "skip": of_function(lambda m, y: m.conv(torch.cat([m.conv(y), y], 1)[:, :8])),
    "attention": of_function(
        lambda m, y: m.linear(y.view(y.shape[0], y.size(1), -1, 6).permute(0, 2, 1, 3))
    ),
    "products": of_function(lambda m, y: torch.matmul(y, y.transpose(2, 3)) @ y.float()),
    "scores": of_function(lambda m, y: F.scaled_dot_product_attention(y, y, y)),
}

LEFT = {
    "leaves": of_function(lambda m, y: (m.conv(y), y)),
    "added": of_function(lambda m, y: m.conv(y) + y),
    "bilinear": after(lambda: nn.Upsample(scale_factor=2, mode="bilinear"), convolution),
    "dropout in training": after(nn.Dropout, convolution),
    "heard": after(heard),
    "softmax": of_function(lambda m, y: m.conv(torch.softmax(y, 1))),
    "normed again": of_function(lambda m, y: m.conv(y) + m.again(y)),
    "written to": of_function(lambda m, y: m.conv(y) + y.view(2, 8, 6, 6).mul_(2)),
    "asked for its type": of_function(lambda m, y: m.conv(y.to(m.linear.weight.dtype).to(y.dtype))),
    "indices": of_function(lambda m, y: m.conv(F.max_pool2d(y, 1, return_indices=True)[0])),
    "padded with ones": of_function(lambda m, y: m.conv(F.pad(y, (1, 1), value=1.0))),
    "dropout by function": of_function(lambda m, y: m.conv(F.dropout(y))),
}


@pytest.mark.parametrize(
    ("model", "rounds"), [*[(name, True) for name in ROUNDED], *[(name, False) for name in LEFT]]
)
def test_only_what_is_rounded_at_once_is_rounded_before(model, rounds):
    kind = (ROUNDED if rounds else LEFT)[model]
    with FakeTensorMode(), torch.no_grad(), autocast("cuda", torch.bfloat16):
        model = on_a_gpu(kind)
        for layer in model.modules():
            if isinstance(layer, nn.Dropout) and kind is LEFT["dropout in training"]:
                layer.train()
        x = torch.empty(2, 8, 6, 6, device="cuda", dtype=torch.bfloat16)
        expected = model(x)
        convfuse.fuse(model)
        norm, *_ = convfuse.report(model).entries
        assert norm.replaced and norm.rounds is rounds, convfuse.report(model)
        with Runs() as seen:
            y = model(x)
        assert seen.types[0] is (torch.bfloat16 if rounds else torch.float32)
        for ours, theirs in zip(
            *([one] if isinstance(one, torch.Tensor) else one for one in (y, expected))
        ):
            assert ours.dtype is theirs.dtype and ours.shape == theirs.shape
