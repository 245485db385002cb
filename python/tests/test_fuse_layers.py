"""``fuse``: chains that begin with a norm, layers by themselves, and what an example decides about them."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from support import DEVICES, chains, decided_by, expect_same, products_in_full, redraw  # noqa: F401
from torch import nn
from torch.nn import functional as F

import convfuse
from convfuse import _native
from convfuse import nn as fused_nn

pytestmark = pytest.mark.usefixtures("products_in_full")


class PreActivation(nn.Module):
    """A residual block whose norms come first, as SegResNet and diffusion models have it."""

    def __init__(self, channels=8):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, channels), nn.InstanceNorm2d(channels, affine=True)
        self.conv1, self.conv2 = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.conv1(self.relu(self.norm1(x)))
        y = self.conv2(self.relu(self.norm2(y)))
        y += x
        return y


class Shared(nn.Module):
    """Norms whose value several take, and one with a residual and a pool behind."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(2, 8), nn.GroupNorm(4, 8)
        self.conv, self.pool = nn.Conv2d(8, 8, 1), nn.MaxPool2d(2)

    def forward(self, x):
        y = self.norm1(x)
        z = self.conv(y) + y
        return self.pool(F.silu(self.norm2(x)) + z)


class Inner(nn.Module):
    """Code that asks for a value, with layers of its own."""

    def __init__(self):
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(2, 8), nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x):
        y = self.norm(x)
        return self.conv(y) if y.sum() > -1e9 else y


class Outer(nn.Module):
    """A module that is traced around one that is not."""

    def __init__(self):
        super().__init__()
        self.first, self.inner = PreActivation(), Inner()
        self.last = nn.InstanceNorm2d(8)

    def forward(self, x):
        return F.relu(self.last(self.inner(self.first(x))))


CASES = {
    "pre-activation": (
        PreActivation,
        {"norm1": "group_norm relu", "conv1": "conv2d instance_norm relu"},
        {"conv2": "conv2d add"},
    ),
    "shared": (
        Shared,
        {"norm1": "group_norm", "norm2": "group_norm silu add max_pool2d"},
        {"conv": "conv2d add add max_pool2d"},
    ),
    "outer": (
        Outer,
        {
            "first.norm1": "group_norm relu",
            "first.conv1": "conv2d instance_norm relu",
            "inner.norm": "group_norm",
            "last": "instance_norm relu",
        },
        {"first.conv2": "conv2d add"},
    ),
}


def made(kind, device):
    torch.manual_seed(3)
    model = kind().eval()
    redraw(model)
    return model.to(device), torch.randn(2, 8, 12, 10, device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_chains_begin_with_norms(name, device):
    kind, replaced, left = CASES[name]
    model, x = made(kind, device)
    names, kinds = list(model.state_dict()), [type(one) for one in model.modules()]
    _native.clear()
    with torch.no_grad():
        expected = model(x)
        convfuse.fuse(model, cpu=True)
        assert chains(model) == replaced and chains(model, False) == left
        assert all(isinstance(one, kind) for one, kind in zip(model.modules(), kinds))
        assert list(model.state_dict()) == names
        expect_same(model(x), expected)
        assert (_native.kept_plans() > 0) == bool(replaced)
        redraw(model)
        changed = model(x)
        convfuse.unfuse(model)
        assert [type(one) for one in model.modules()] == kinds
        assert not any("_convfuse_state" in one.__dict__ for one in model.modules())
        expect_same(changed, model(x))


@pytest.mark.parametrize("device", DEVICES)
def test_copies_of_fused_layers_are_fused(device):
    model, x = made(Outer, device)
    convfuse.fuse(model, cpu=True)
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    copies = [
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        torch.load(buffer, weights_only=False),
    ]
    with torch.no_grad():
        y = model(x)
        for one in copies:
            assert type(one.inner.norm) is type(model.inner.norm) is not nn.GroupNorm
            assert torch.equal(one(x), y)
            redraw(one)
            changed = one(x)
            assert not torch.equal(changed, y)
            expect_same(changed, convfuse.unfuse(one)(x))
            assert type(one.inner.norm) is nn.GroupNorm
        assert torch.equal(model(x), y)


@pytest.mark.parametrize("device", DEVICES)
def test_a_layer_is_a_model(device):
    torch._dynamo.reset()
    layer, x = nn.GroupNorm(2, 8).to(device), torch.randn(2, 8, 5, 6, device=device)
    redraw(layer)
    with torch.no_grad():
        expected = layer(x)
        convfuse.fuse(layer, cpu=True)
        assert chains(layer) == {"": "group_norm"} and isinstance(layer, nn.GroupNorm)
        expect_same(layer(x), expected)
        expect_same(layer(input=x), expected)
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        expect_same(compiled(x), expected)
        expect_same(torch.export.export(layer, (x,)).module()(x), expected)
    layer(x).sum().backward()
    assert layer.weight.grad is not None
    assert type(convfuse.unfuse(layer)) is nn.GroupNorm


@pytest.mark.parametrize("device", DEVICES)
def test_layers_in_code_that_is_not_traced_compile(device):
    torch._dynamo.reset()
    model, x = made(Outer, device)
    with torch.no_grad():
        expected = model(x)
        convfuse.fuse(model, cpu=True)
        expect_same(torch.compile(model, backend="aot_eager")(x), expected)


def test_what_is_no_plain_layer_is_left_alone():
    class Heard(Inner):
        pass

    model, x = made(Heard, "cpu")
    seen = []
    model.norm.register_forward_hook(lambda *_: seen.append(1))
    assert convfuse.report(convfuse.fuse(model, cpu=True)).replaced == 0
    model(x)
    assert seen == [1]
    # Its layers hold the parameters of a chain that is fused already.
    whole = fused_nn.Conv2dGroupNormScaleMaxPoolClamp(8, 8, 3, 2, (8, 1, 1), 2, 0.0, 1.0)
    outer = nn.ModuleList([whole])
    assert convfuse.report(convfuse.fuse(outer, cpu=True)).entries == []


INPUTS = {
    "without positions": (nn.GroupNorm(2, 8), (4, 8)),
    "of a sequence": (nn.Sequential(nn.GroupNorm(2, 8), nn.GELU()), (4, 8, 9)),
    "of six dimensions": (nn.Sequential(nn.GroupNorm(2, 8), nn.GELU()), (2, 8, 3, 2, 2, 3)),
    "pooled as one image": (nn.Sequential(nn.GroupNorm(2, 8), nn.MaxPool2d(2)), (2, 8, 6)),
    "without a batch": (nn.Sequential(nn.InstanceNorm2d(8, affine=True), nn.SiLU()), (8, 5, 6)),
    "without a batch, as many rows as channels": (nn.InstanceNorm2d(8, affine=True), (8, 8, 6)),
    "without a batch, of a convolution": (
        nn.Sequential(nn.Conv2d(8, 4, 3), nn.InstanceNorm2d(4, affine=True), nn.ReLU()),
        (8, 6, 7),
    ),
    "of more channels than said": (nn.InstanceNorm2d(4), (2, 8, 5, 6)),
}


@pytest.mark.filterwarnings("ignore:input's size at dim=1")
@pytest.mark.parametrize("cpu", [True, False])
@pytest.mark.parametrize("name", INPUTS)
def test_inputs_that_a_norm_takes(name, cpu):
    model, shape = INPUTS[name]
    torch.manual_seed(3)
    model = copy.deepcopy(model).eval()
    redraw(model)
    x = torch.randn(shape)
    with torch.no_grad():
        expected = model(x)
        convfuse.fuse(model, cpu=cpu)
        assert convfuse.report(model).replaced == 1
        expect_same(model(x), expected)


def test_what_a_norm_refuses_is_still_refused(monkeypatch):
    model = nn.Sequential(nn.GroupNorm(2, 8), nn.ReLU()).eval()
    convfuse.fuse(model, cpu=True)
    with torch.no_grad(), pytest.raises(RuntimeError, match="[Ww]eight"):
        model(torch.randn(2, 6, 4, 4))
    decided_by(monkeypatch, lambda chain: True)
    for norm in (nn.BatchNorm2d(8), nn.InstanceNorm2d(8)):
        model = nn.Sequential(norm, nn.ReLU()).eval()
        convfuse.fuse(model, torch.randn(2, 8, 4, 4), cpu=True)
        assert convfuse.report(model).replaced == 1
        with torch.no_grad(), pytest.raises(ValueError, match="4D input"):
            model(torch.randn(2, 8, 2, 4, 4))


def test_in_place_work_on_the_input_comes_before_or_behind():
    class Writes(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.GroupNorm(2, 8)

        def forward(self, x):
            x = x + 0
            y = self.norm(x)
            x.relu_()
            return y.relu() + x

    model, x = made(Writes, "cpu")
    with torch.no_grad():
        expected = model(x)
        expect_same(convfuse.fuse(model, cpu=True)(x), expected)
    assert chains(model) == {"norm": "group_norm"}


def test_a_batch_norm_is_taken_with_what_follows(monkeypatch):
    class Batch(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.BatchNorm2d(8), nn.BatchNorm2d(8)

        def forward(self, x):
            return torch.cat([F.relu(self.norm1(x)), self.norm2(x)], 1)

    model, x = made(Batch, "cpu")
    assert chains(convfuse.fuse(model, cpu=True), False) == {"norm1": "batch_norm relu"}
    decided_by(monkeypatch, lambda chain: True)
    with torch.no_grad():
        expected = convfuse.unfuse(model)(x)
        convfuse.fuse(model, x, cpu=True)
        assert chains(model) == {"norm1": "batch_norm relu"}
        expect_same(model(x), expected)
        # Of one that is trained by itself the statistics are those of the input.
        model.norm1.train()
        trained = copy.deepcopy(model)
        expected = convfuse.unfuse(trained)(x)
        assert torch.equal(model(x), expected)
        model.norm1.eval()
        expect_same(model(x), trained.eval()(x))


def test_convolutions_alone_are_timed(monkeypatch):
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.conv = Inner(), nn.Conv2d(8, 4, 1)

        def forward(self, x):
            return torch.cat([self.conv(self.inner(x)), x], 1)

    model, x = made(Plain, "cpu")
    convfuse.fuse(model, cpu=True)
    assert chains(model) == {"inner.norm": "group_norm"} and chains(model, False) == {}
    decided_by(monkeypatch, lambda chain: chain == "conv2d")
    with torch.no_grad():
        expected = convfuse.unfuse(model)(x)
        convfuse.fuse(model, x, cpu=True)
        assert chains(model) == {"inner.conv": "conv2d", "conv": "conv2d"}
        assert chains(model, False) == {"inner.norm": "group_norm"}
        assert type(model.inner.norm) is nn.GroupNorm
        expect_same(model(x), expected)


def test_a_slower_chain_is_cut_at_its_norm(monkeypatch):
    class Block(nn.Sequential):
        def __init__(self):
            norm = nn.GroupNorm(2, 8)
            super().__init__(nn.Conv2d(8, 8, 3), nn.ReLU(), norm, nn.SiLU(), nn.MaxPool2d(2))

    tried = []

    def is_faster(chain):
        tried.append(chain)
        return chain.startswith("group_norm")

    model, x = made(Block, "cpu")
    decided_by(monkeypatch, is_faster)
    with torch.no_grad():
        expected = model(x)
        convfuse.fuse(model, x, cpu=True)
        expect_same(model(x), expected)
    before, behind = "conv2d relu", "group_norm silu max_pool2d"
    whole = f"{before} {behind}"
    assert tried[0] == whole and sorted(tried[1:]) == sorted([before, behind])
    assert [(one.chain, one.replaced) for one in convfuse.report(model).entries] == [
        (whole, False),
        (before, False),
        (behind, True),
    ]


def test_a_chain_that_is_freed_goes_into_a_longer_one(monkeypatch):
    class Branches(nn.Module):
        """The first branch takes the sum, unless it is slower."""

        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 1)

        def forward(self, x):
            return F.relu(self.conv1(x) + torch.tanh(self.conv2(x)))

    model, x = made(Branches, "cpu")
    decided_by(monkeypatch, lambda chain: chain != "conv2d add relu")
    with torch.no_grad():
        expected = model(x)
        convfuse.fuse(model, x, cpu=True)
        expect_same(model(x), expected)
    found = [(one.module, one.chain, one.replaced) for one in convfuse.report(model).entries]
    assert found == [
        ("conv1", "conv2d add relu", False),
        ("conv2", "conv2d tanh add relu", True),
    ]


class Conditioned(nn.Module):
    """A block that must be given an embedding, which may be none."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(8, 8, 1), nn.GroupNorm(2, 8)

    def forward(self, x, embedding):
        y = self.conv(x)
        if embedding is not None:
            y = y + embedding
        return F.silu(self.norm(y))


class Around(nn.Module):
    """Gives none."""

    def __init__(self):
        super().__init__()
        self.block, self.other = Conditioned(), nn.Conv2d(8, 8, 1)

    def forward(self, x, wanted=None):
        y = self.block(x, None)
        return y if wanted is None else F.relu(self.other(y))


@pytest.mark.parametrize("with_example", [False, True])
def test_reports_are_of_code_that_runs(with_example, monkeypatch):
    model, x = made(Around, "cpu")
    decided_by(monkeypatch, lambda chain: True)
    convfuse.fuse(model, x if with_example else None, cpu=True)
    found = convfuse.report(model).entries
    assert [(one.module, one.chain) for one in found] == [("block.conv", "conv2d group_norm silu")]
    # Called by itself the block is what it was, fused where nothing was timed.
    with torch.no_grad():
        y = model.block(x, torch.ones_like(x))
        assert ("_convfuse_state" in model.block.__dict__) is not with_example
        expect_same(y, convfuse.unfuse(model).block(x, torch.ones_like(x)))


def test_what_the_example_does_not_come_by_is_said(monkeypatch):
    class Either(nn.Module):
        def __init__(self):
            super().__init__()
            self.often, self.seldom = PreActivation(), PreActivation()

        def forward(self, x):
            return self.often(x) if x.sum() > -1e9 else self.seldom(x)

    model, x = made(Either, "cpu")
    decided_by(monkeypatch, lambda chain: True)
    convfuse.fuse(model, x, cpu=True)
    assert set(chains(model)) == {"often.norm1", "often.conv1", "often.conv2"}
    assert set(chains(model, False)) == {"seldom.norm1", "seldom.conv1", "seldom.conv2"}
    reasons = {one.reason for one in convfuse.report(model).entries if not one.replaced}
    assert reasons == {"the example does not come by"}
    assert convfuse.report(model).not_traced[0][0] == ""


def test_an_example_that_fails_leaves_the_model_as_it_was():
    model, _ = made(PreActivation, "cpu")
    with pytest.raises(RuntimeError):
        convfuse.fuse(model, torch.randn(2, 7, 4, 4), cpu=True)
    assert type(model) is PreActivation
    with pytest.raises(ValueError, match="was not given to fuse"):
        convfuse.report(model)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("norm", [nn.GroupNorm(2, 8), nn.InstanceNorm2d(8, affine=True)])
def test_autocast_keeps_types_of_norms(norm, given, device):
    model = nn.Sequential(copy.deepcopy(norm), nn.SiLU()).eval().to(device)
    redraw(model)
    x = torch.randn(2, 8, 9, 7, device=device).to(given)
    with torch.no_grad(), torch.autocast(device, torch.bfloat16):
        expected = model(x)
        y = convfuse.fuse(model, cpu=True)(x)
    assert y.dtype == expected.dtype
    unit = torch.finfo(y.dtype).eps
    assert (y - expected).abs().max() <= 16 * unit * expected.abs().max()
