"""``fuse``: calls of functions and methods with their attributes, and what looks like a layer of a chain and is none."""

from __future__ import annotations

import pytest
import torch
from support import Runs, chains, decided_by, expect_same, products_in_full, redraw  # noqa: F401
from torch import nn
from torch.nn import functional as F

import convfuse

pytestmark = pytest.mark.usefixtures("products_in_full")


class Tail(nn.Module):
    """A norm, and a function of what it gives and of the module, which has parameters: for each channel, and a vector that is as long as
    the rows are, too."""

    def __init__(self, function):
        super().__init__()
        self.norm, self.function = nn.InstanceNorm2d(8, affine=True), function
        self.vector = nn.Parameter(torch.linspace(-1, 2, 8))
        self.factors = nn.Parameter(torch.linspace(-1, 2, 8).reshape(8, 1, 1))

    def forward(self, x):
        return self.function(self.norm(x), Around(self, x))


class Around:
    """A module, and what it is given."""

    def __init__(self, module, given):
        self.vector, self.factors, self.given = module.vector, module.factors, given


# Odd rows, so that windows hang over; as many columns as channels.
SHAPE = (2, 8, 9, 8)


def made(function):
    torch.manual_seed(3)
    model = Tail(function).eval()
    redraw(model)
    return model, 2 * torch.randn(SHAPE)


def check(model, x, chain, norm="norm"):
    with torch.no_grad():
        expected = model(x.clone())
        convfuse.fuse(model, cpu=True)
        assert chains(model) == {norm: chain}
        y = model(x.clone())
    assert y.shape == expected.shape
    expect_same(y, expected)


TAKEN = {
    "clamp": [
        lambda y, _: y.clamp(-0.5, 0.25),
        lambda y, _: torch.clamp(y, max=0.25),
        lambda y, _: torch.clip(y, min=-0.5),
    ],
    "leaky_relu": [
        lambda y, _: F.leaky_relu(y),
        lambda y, _: F.leaky_relu(y, -0.5),
        lambda y, _: F.leaky_relu(y, negative_slope=0.3, inplace=True),
    ],
    "elu": [lambda y, _: F.elu(y), lambda y, _: F.elu(y, 0.5), lambda y, _: F.elu(y, alpha=2.0)],
    "gelu": [lambda y, _: F.gelu(y), lambda y, _: F.gelu(y, approximate="tanh")],
    "softplus": [
        lambda y, _: F.softplus(y),
        lambda y, _: F.softplus(y, 4.0, 3.0),
        lambda y, _: F.softplus(y, beta=0.5, threshold=0.25),
    ],
    "max_pool2d": [
        lambda y, _: F.max_pool2d(y, 2),
        lambda y, _: F.max_pool2d(y, 3, 2, 1),
        lambda y, _: F.max_pool2d(y, 3, 1, 0, 2),
        lambda y, _: F.max_pool2d(y, 2, ceil_mode=True),
        lambda y, _: F.max_pool2d(y, 3, 2, 1, 1, True),
        lambda y, _: F.max_pool2d(y, (2, 3), stride=(1, 2), padding=(1, 0), dilation=(3, 1)),
    ],
    "max": [
        lambda y, _: y.amax(1),
        lambda y, _: torch.max(y, 1)[0],
        lambda y, _: y.max(dim=1).values,
    ],
    "prelu": [lambda y, own: F.prelu(y, own.vector)],
    "scale": [lambda y, own: y * own.factors, lambda y, own: own.factors * y],
}


@pytest.mark.parametrize(
    ("operator", "function"),
    [(operator, function) for operator, functions in TAKEN.items() for function in functions],
)
def test_calls_are_taken_with_their_attributes(operator, function):
    check(*made(function), f"instance_norm {operator}")


LEFT = {
    "a factor for each column": lambda y, own: y * own.vector,
    "a factor for each row": lambda y, own: y[:, :, :8] * own.vector[:, None],
    "a summand for each column": lambda y, own: y + own.vector,
    "a maximum that keeps its axis": lambda y, _: y.amax(1, keepdim=True),
    "a maximum of rows": lambda y, _: y.amax(2),
    "where the maximum is": lambda y, _: torch.max(y, 1)[1].float(),
    "a dropout that drops": lambda y, _: F.dropout(y, 1.0, training=True),
    "bounds that are tensors": lambda y, own: torch.clamp(y, max=own.vector),
    "a share of a sum": lambda y, own: torch.add(y, own.given, alpha=2),
    "a share of a sum, as a method": lambda y, own: y.add(own.given, alpha=-0.5),
}


@pytest.mark.parametrize("what", LEFT)
def test_calls_that_are_no_layers_are_left(what):
    check(*made(LEFT[what]), "instance_norm")


POOLS = [
    nn.MaxPool2d(2, ceil_mode=True),
    nn.MaxPool2d((3, 2), (2, 3), (1, 0), (2, 1)),
    nn.AvgPool2d(2, ceil_mode=True),
    nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
    nn.AvgPool2d((2, 3), padding=(1, 0), divisor_override=5),
]


@pytest.mark.parametrize("pool", POOLS, ids=str)
def test_pools_are_taken_with_their_attributes(pool):
    operator = "max_pool2d" if isinstance(pool, nn.MaxPool2d) else "avg_pool2d"
    torch.manual_seed(3)
    model = nn.Sequential(nn.GroupNorm(2, 8), pool).eval()
    check(model, torch.randn(SHAPE), f"group_norm {operator}", "0")


WRITING = {
    "module": nn.ReLU(inplace=True),
    "function": lambda x: F.relu(x, inplace=True),
    "function of its own": torch.relu_,
    "method": lambda x: x.relu_(),
    "assignment": lambda x: x.__iadd__(3),
}


@pytest.mark.parametrize("how", WRITING)
def test_what_writes_between_layers_is_not_passed(how):
    class Writes(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm, self.write = nn.Conv2d(8, 8, 1), nn.GroupNorm(2, 8), WRITING[how]

        def forward(self, x):
            x = x + 0
            y = self.conv(x)
            self.write(x)
            return self.norm(y).relu() + x.sum()

    torch.manual_seed(3)
    model, x = Writes().eval(), torch.randn(SHAPE)
    redraw(model)
    with torch.no_grad():
        expected = model(x)
        expect_same(convfuse.fuse(model, cpu=True)(x), expected)


def doubled(module, *given):
    """What a hook gives for what it was given last: values, alone or in a tuple."""
    values = given[-1]
    return (2 * values[0],) if isinstance(values, tuple) else 2 * values


@pytest.mark.parametrize("register", ["register_forward_pre_hook", "register_forward_hook"])
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_hooks_of_any_layer_are_called(layer, register):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Conv2d(8, 8, 1), nn.GroupNorm(2, 8), nn.Softplus()).eval()
    redraw(model)
    getattr(model[layer], register)(doubled)
    x = torch.randn(SHAPE)
    with torch.no_grad():
        expected = model(x)
        expect_same(convfuse.fuse(model, cpu=True)(x), expected)


def test_layers_in_training_among_others_are_left():
    model = nn.Sequential(nn.GroupNorm(2, 8), nn.Dropout(0.5), nn.ReLU()).eval()
    redraw(model)
    model[1].train()
    x = torch.randn(SHAPE)
    with torch.no_grad():
        torch.manual_seed(5)
        expected = model(x)
        convfuse.fuse(model, cpu=True)
        torch.manual_seed(5)
        expect_same(model(x), expected)
    assert chains(model) == {"0": "group_norm"}


@pytest.mark.parametrize("operator", ["scale", "scale scale"])
def test_factors_of_one_module_are_told_apart(operator):
    class Factors(Tail):
        def __init__(self):
            super().__init__(None)
            self.other = nn.Parameter(torch.linspace(3, 1, 8).reshape(1, 8, 1, 1))

        def forward(self, x):
            y = self.norm(x) * self.other
            return y if operator == "scale" else y * self.factors

    torch.manual_seed(3)
    model = Factors().eval()
    # Every second element of something longer.
    model.other = nn.Parameter(torch.linspace(3, 1, 16).reshape(1, 16, 1, 1)[:, ::2])
    check(model, torch.randn(SHAPE), f"instance_norm {operator}")


@pytest.mark.parametrize("norm", [nn.GroupNorm, nn.InstanceNorm2d, nn.BatchNorm2d])
def test_norms_are_taken_with_their_eps(norm, monkeypatch):
    arguments = (2, 8) if norm is nn.GroupNorm else (8,)
    model = nn.Sequential(nn.Conv2d(8, 8, 1), norm(*arguments, eps=0.5)).eval()
    decided_by(monkeypatch, lambda _: True)
    x = torch.randn(SHAPE)
    with torch.no_grad():
        expected = model(x)
        convfuse.fuse(model, x, cpu=True)
        assert len(chains(model)["0"].split()) == 2
        expect_same(model(x), expected)


def test_values_that_are_given_as_well_end_a_chain():
    class Both(Tail):
        def forward(self, x):
            y = self.norm(x)
            return y.relu(), y

    torch.manual_seed(3)
    model, x = Both(None).eval(), torch.randn(SHAPE)
    with torch.no_grad():
        expected = model(x)
        convfuse.fuse(model, cpu=True)
        assert chains(model) == {"norm": "instance_norm"}
        for actual, wanted in zip(model(x), expected, strict=True):
            expect_same(actual, wanted)


def test_residuals_behind_windows_that_hang_over_are_fused():
    class Windows(Tail):
        def __init__(self):
            super().__init__(None)
            self.pool = nn.MaxPool2d(2, 2, 1, ceil_mode=True)

        def forward(self, x, residual):
            return self.pool(self.norm(x)) + residual

    torch.manual_seed(3)
    model, x = Windows().eval(), torch.randn(2, 8, 9, 8)
    residual = torch.randn_like(model.pool(x))
    with torch.no_grad(), Runs() as runs:
        expected = model(x, residual)
        convfuse.fuse(model, cpu=True)
        expect_same(model(x, residual), expected)
    # Not by PyTorch's layers, to which residuals of other shapes are left.
    assert chains(model) == {"norm": "instance_norm max_pool2d add"} and len(runs.types) == 1
