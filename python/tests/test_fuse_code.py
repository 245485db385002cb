"""``fuse``: code that does more than call layers, modules that change after it, and inputs without a batch."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest
import torch
from support import chains, expect_same, products_in_full, redraw  # noqa: F401
from torch import nn
from torch.nn import functional as F

import convfuse

pytestmark = pytest.mark.usefixtures("products_in_full")


class Block(nn.Module):
    """A convolution, a norm, and what a function makes of them."""

    def __init__(self, function, **layers):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(8, 8, 3, padding=1), nn.InstanceNorm2d(8, affine=True)
        self.register_buffer("count", torch.zeros(()))
        self.factor = nn.Parameter(torch.linspace(-1, 2, 8).reshape(1, 8, 1, 1))
        self.other = nn.Parameter(torch.linspace(3, 1, 8).reshape(8, 1, 1))
        self.function, self.seen = function, []
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x):
        return self.function(self, x)


SHAPE = (2, 8, 9, 8)
FUSED = {"conv": "conv2d instance_norm"}


def made(function, **layers):
    torch.manual_seed(3)
    model = Block(function, **layers).eval()
    redraw(model)
    return model, torch.randn(SHAPE)


def seeded(model, x, calls=1):
    """What the last one of some calls gives, and the input behind it."""
    torch.manual_seed(5)
    random.seed(5)
    with torch.no_grad():
        for _ in range(calls):
            given = x.clone()
            y = model(given)
    return y, given


def check(model, x, expected, calls=1, cpu=True):
    """A fused model beside a copy that is not; ``expected`` are its chains."""
    reference = copy.deepcopy(model)
    convfuse.fuse(model, cpu=cpu)
    assert chains(model) == expected
    for actual, wanted in zip(seeded(model, x, calls), seeded(reference, x, calls)):
        expect_same(actual, wanted)
    assert model.state_dict().keys() == reference.state_dict().keys()
    for name, value in reference.state_dict().items():
        assert torch.equal(model.state_dict()[name], value), name
    assert (
        model.__dict__.keys() - {"_convfuse_state", "_convfuse_report"} == reference.__dict__.keys()
    )


def body(own, x):
    return own.norm(own.conv(x))


def keeps(own, x):
    own.last = body(own, x)
    return own.last.relu()


def lists(own, x):
    own.seen.append(body(own, x))
    return own.seen[-1].relu()


def counts(own, x):
    own.count += 1
    return body(own, x) + own.count


def collects(own, x):
    total = torch.zeros(SHAPE)
    total += body(own, x)
    return total


KEEPING = {
    "an attribute": keeps,
    "a list": lists,
    "a buffer": counts,
    "a tensor that it makes": collects,
    "numbers of PyTorch's": lambda own, x: body(own, x) + torch.randn(8, 1, 1),
    "numbers of Python's": lambda own, x: body(own, x) * random.random(),
    "values of a buffer": lambda own, x: body(own, x) + (own.count + 1).exp(),
}


@pytest.mark.parametrize("what", KEEPING)
def test_code_that_keeps_or_draws_is_not_traced(what):
    model, x = made(KEEPING[what])
    # Layers by themselves: a norm is fused, and the convolution is not without an example.
    check(model, x, {"norm": "instance_norm"}, calls=3)
    if what in ("an attribute", "a list"):
        kept = model.last if what == "an attribute" else model.seen[-1]
        assert isinstance(kept, torch.Tensor) and not isinstance(kept, torch.fx.Proxy)
    assert "keeps" in convfuse.report(model).not_traced[0][1] or "makes" in str(
        convfuse.report(model)
    )


def heard():
    layers = nn.Sequential(nn.ReLU(inplace=True))
    layers.register_forward_hook(lambda *_: None)
    return layers


class IsInstance(nn.Module):
    """Code with a norm that asks whether it is given a tensor."""

    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(4, 8)

    def forward(self, x):
        return self.norm(x) if isinstance(x, torch.Tensor) else x


class IsInstanceOfSome(IsInstance):
    def forward(self, x):
        if isinstance(x, (list, torch.Tensor)):
            return self.norm(x)
        return x


class IsTensor(IsInstance):
    def forward(self, x):
        return self.norm(x) if torch.is_tensor(x) else x


class IsOfType(IsInstance):
    def forward(self, x):
        return self.norm(x) if type(x) is torch.Tensor else x


class HasMethod(IsInstance):
    def asks(self, x):
        return isinstance(x, torch.Tensor)

    def forward(self, x):
        return self.norm(x) if self.asks(x) else x


def normed(norm, x):
    return norm(x) if isinstance(x, torch.Tensor) else x


class CallsFunction(IsInstance):
    def forward(self, x):
        return normed(self.norm, x)


PLACES = {
    "by itself": lambda asks: asks,
    "first": lambda asks: nn.Sequential(asks, nn.Conv2d(8, 8, 1), nn.GroupNorm(2, 8)),
    "behind": lambda asks: nn.Sequential(nn.Conv2d(8, 8, 1), nn.GroupNorm(2, 8), asks),
    "within": lambda asks: nn.Sequential(nn.GroupNorm(2, 8), nn.Sequential(nn.ReLU(), asks)),
    "in a block": lambda asks: Block(lambda own, x: own.asks(body(own, x)), asks=asks),
    "deep": lambda asks: Block(lambda own, x: body(own, own.asks(x)), asks=nn.Sequential(asks)),
}


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize(
    "kind", [IsInstance, IsInstanceOfSome, IsTensor, IsOfType, HasMethod, CallsFunction]
)
def test_code_that_asks_for_tensors_is_told_the_truth(kind, where):
    torch.manual_seed(3)
    model, x = PLACES[where](kind()).eval(), torch.randn(SHAPE)
    redraw(model)
    expected = seeded(model, x)[0]
    expect_same(seeded(convfuse.fuse(model, cpu=True), x)[0], expected)
    assert any("asks whether" in why for _, why in convfuse.report(model).not_traced)


class Unknown(nn.Module):
    """Code that cannot be traced, and writes."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Identity()

    def forward(self, x):
        return x.relu_() if x.sum() < 1e9 else x


WRITING = {
    "a container with a hook": (lambda own, x: own.inner(x), heard),
    "code that is not traced": (lambda own, x: own.inner(x), Unknown),
    "a call with out": (lambda own, x: torch.mul(x, 2, out=x), nn.Identity),
    "an item": (lambda own, x: x.__setitem__((slice(None), 0), 0.0), nn.Identity),
    "an overload": (lambda own, x: torch.ops.aten.mul_.Tensor(x, 2.0), nn.Identity),
    "nothing": (lambda own, x: torch.mul(x, 2), nn.Identity),
}


@pytest.mark.parametrize("what", WRITING)
def test_what_may_write_is_not_passed(what):
    write, inner = WRITING[what]

    def function(own, x):
        y = own.conv(x)
        write(own, x)
        return own.norm(y)

    class Around(Block):
        def forward(self, x):
            return function(self, x)

    torch.manual_seed(3)
    model, x = Around(None, inner=inner()).eval(), torch.randn(SHAPE)
    redraw(model)
    check(model, x, FUSED if what == "nothing" else {"norm": "instance_norm"})


NUMBERS = {
    "groups": (nn.GroupNorm(np.int64(2), np.int64(8)), "group_norm"),
    "a slope": (nn.LeakyReLU(np.float32(0.3)), "leaky_relu"),
}


@pytest.mark.parametrize("what", NUMBERS)
def test_numbers_of_numpy_are_numbers(what):
    layer, chain = NUMBERS[what]
    model, x = made(lambda own, x: own.layer(body(own, x)), layer=layer)
    check(model, x, {"conv": f"conv2d instance_norm {chain}"})


def test_values_that_are_no_numbers_are_left():
    model, x = made(lambda own, x: F.leaky_relu(body(own, x), negative_slope=own.count.item()))
    check(model, x, {"norm": "instance_norm"})
    model, x = made(lambda own, x: body(own, x).clamp(min=x.size(1) * 0.05))
    check(model, x, FUSED)


@pytest.mark.parametrize("lost", ["weight", "bias"])
def test_a_norm_that_lost_a_parameter_is_left(lost):
    model, x = made(body)
    setattr(model.norm, lost, None)
    check(model, x, {})


@pytest.mark.parametrize("cpu", [True, False])
def test_extents_are_added(cpu):
    model, x = made(lambda own, x: body(own, x) + x.size(2))
    check(model, x, {"conv": "conv2d instance_norm add"}, cpu=cpu)


WITHOUT_BATCH = {
    "a maximum": (lambda own, x: body(own, x).amax(1), "max"),
    "a factor that has one": (lambda own, x: (body(own, x) * own.factor).relu(), "scale relu"),
    "a factor": (lambda own, x: body(own, x) * own.other, "scale"),
    "slopes": (lambda own, x: own.slopes(body(own, x)), "prelu"),
    "one slope": (lambda own, x: own.slope(body(own, x)), "prelu"),
    "groups": (lambda own, x: own.groups(body(own, x)), "group_norm"),
}


@pytest.mark.parametrize("cpu", [True, False])
@pytest.mark.parametrize("what", WITHOUT_BATCH)
def test_without_a_batch_layers_do_what_pytorch_s_do(what, cpu):
    function, operators = WITHOUT_BATCH[what]
    layers = {"slopes": nn.PReLU(8), "slope": nn.PReLU(), "groups": nn.GroupNorm(2, 8)}
    model, _ = made(function, **layers)
    # As many rows as channels, which PyTorch takes for channels.
    check(model, torch.randn(8, 8, 7), {"conv": f"conv2d instance_norm {operators}"}, cpu=cpu)


def test_assignments_to_attributes_write_into_them():
    def function(own, x):
        largest = torch.max(body(own, x), 1).values
        scaled = largest
        scaled *= 2
        return largest

    model, x = made(function)
    check(model, x, {"conv": "conv2d instance_norm max"})


def test_norms_of_other_axes_are_left():
    model, _ = made(lambda own, x: own.rows(own.conv(x)), rows=nn.InstanceNorm1d(8))
    check(model, torch.randn(8, 8, 7), {"rows": "instance_norm"})


def dropping(own, x):
    return own.dropout(body(own, x)).relu()


def asking(own, x):
    return F.dropout(body(own, x), 0.5, own.training)


@pytest.mark.parametrize("cpu", [True, False])
def test_one_layer_in_training_is_noticed(cpu):
    model, x = made(dropping, dropout=nn.Dropout(0.5))
    reference = copy.deepcopy(model)
    inferred = seeded(convfuse.fuse(model, cpu=cpu), x)[0]
    for training in (False, True, False):
        model.dropout.train(training)
        reference.dropout.train(training)
        y = seeded(model, x)[0]
        expect_same(y, seeded(reference, x)[0])
        assert torch.equal(y, inferred) is not training


def test_a_layer_in_training_that_is_also_called_elsewhere_is_noticed():
    model, x = made(
        lambda own, x: own.dropout(body(own, x)) + own.dropout(x), dropout=nn.Dropout(0.5)
    )
    reference = copy.deepcopy(model)
    convfuse.fuse(model, cpu=True).dropout.train()
    reference.dropout.train()
    expect_same(seeded(model, x)[0], seeded(reference, x)[0])


@pytest.mark.parametrize("function", [dropping, asking])
def test_copies_made_in_training_infer(function):
    model, x = made(function, dropout=nn.Dropout(0.5))
    expected = seeded(model, x)[0]
    copied = copy.deepcopy(convfuse.fuse(model, cpu=True).train())
    assert all(one.training for one in copied.modules())
    expect_same(seeded(copied.eval(), x)[0], expected)
    expect_same(seeded(model.eval(), x)[0], expected)


@pytest.mark.parametrize("is_first", [True, False])
def test_parametrisations_that_come_later_count(is_first):
    model, x = made(body)
    convfuse.fuse(model, cpu=True)
    if not is_first:
        seeded(model, x)
    nn.utils.parametrizations.weight_norm(model.conv)
    with torch.no_grad():
        model.conv.parametrizations.weight.original0.mul_(
            torch.linspace(0.5, 2, 8).reshape(8, 1, 1, 1)
        )
    y = seeded(model, x)[0]
    expect_same(y, seeded(convfuse.unfuse(model), x)[0])
