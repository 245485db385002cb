"""Autocast: values of chains in it, code that switches it, and copies, exports and compiled forms of models under it."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from support import DEVICES, ResidualBlock, Runs, chains, decided_by, products_in_full, redraw  # noqa: F401
from torch import nn
from torch.nn import functional as F

import convfuse
from convfuse import _autocast
from convfuse import nn as fused_nn

pytestmark = pytest.mark.usefixtures("products_in_full")

LOWS = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("low", LOWS)
def test_what_is_rounded_before_is_what_would_be_rounded_behind(low, device):
    module = fused_nn.Chain(8, [{"group_norm": {"name": "norm", "num_groups": 2}}, {"silu": {}}]).to(
        device
    )
    redraw(module)
    with torch.no_grad():
        # Parameters that 16 bits hold; others are rounded once.
        for value in module.parameters():
            value.copy_(value.to(low))
        x = torch.randn(2, 8, 9, 11, device=device).to(low)
        rounded, behind = module(x), module(x.float()).to(low)
    # Sums of statistics may be taken in another order, which in float32 moves values of about 1 by some 1e-7.
    apart = (rounded.double() - behind.double()).abs()
    assert (apart <= torch.finfo(low).eps * behind.double().abs() + 1e-6).all()
    assert (apart == 0).float().mean() >= 0.99


class Switching(nn.Module):
    """Code that switches autocast, within code that does not."""

    def __init__(self, device, enabled):
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(2, 8), nn.Conv2d(8, 8, 1)
        self.device, self.enabled = device, enabled

    def forward(self, x):
        with torch.autocast(self.device, torch.bfloat16, enabled=self.enabled):
            return self.conv(F.relu(self.norm(x)))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("enabled", [False, True])
@pytest.mark.parametrize("outside", [False, True])
def test_code_that_switches_autocast_is_not_traced(outside, enabled, device):
    torch.manual_seed(3)

    class Switches(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.GroupNorm(2, 8), nn.Conv2d(8, 4, 3)
            self.inner = Switching(device, enabled)

        def forward(self, x):
            return self.last(self.inner(F.relu(self.first(x))).to(x.dtype))

    model = Switches().eval()
    redraw(model)
    model, x = model.to(device), torch.randn(2, 8, 6, 7, device=device)
    with torch.no_grad(), torch.autocast(device, torch.bfloat16, enabled=outside):
        expected = model(x)
        convfuse.fuse(model, cpu=True)
        y = model(x)
    assert y.dtype is expected.dtype
    units = 4 * torch.finfo(torch.bfloat16).eps if outside or enabled else 32 * torch.finfo(x.dtype).eps
    assert error(y, expected.double()) <= units
    found = convfuse.report(model)
    assert ("inner", "its code switches autocast or the recording of gradients") in found.not_traced
    # The norm by itself, and the chain before what is not looked into, whose value anybody may read.
    assert chains(model) == {"first": "group_norm relu", "inner.norm": "group_norm"}
    assert not any(one.rounds for one in found.entries)


def test_code_that_switches_the_recording_of_gradients_is_not_traced():
    class Frozen(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.conv = nn.GroupNorm(2, 8), nn.Conv2d(8, 4, 3)

        def forward(self, x):
            with torch.no_grad():
                y = F.relu(self.norm(x))
            return self.conv(y)

    model, x = Frozen().eval(), torch.randn(2, 8, 6, 7)
    with torch.no_grad():
        convfuse.fuse(model, cpu=True)
    assert chains(model) == {"norm": "group_norm"}
    model(x).sum().backward()
    assert model.norm.weight.grad is None and model.conv.weight.grad is not None


def low_block(device, low=torch.bfloat16):
    """A block whose input has 16 bits, with what its layers make of it in float64."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), ResidualBlock(), ResidualBlock()).eval()
    redraw(model)
    model, x = model.to(device), torch.randn(2, 3, 10, 12, device=device)
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(x.double())
    return model, x, exact


def error(y, exact):
    return ((y.double() - exact).abs().max() / exact.abs().max()).item()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("low", LOWS)
def test_residual_blocks_are_as_near_as_pytorch(low, device, monkeypatch):
    decided_by(monkeypatch, lambda chain: True)
    model, x, exact = low_block(device)
    with torch.no_grad(), torch.autocast(device, low):
        expected = model(x)
        convfuse.fuse(model, x, cpu=True)
        assert chains(model)["1.conv2"].startswith("conv2d add")
        with Runs() as seen:
            y = model(x)
        assert set(seen.types) == {low} and y.dtype is expected.dtype
    assert error(y, exact) <= 1.5 * error(expected, exact)


@pytest.mark.parametrize("low", LOWS)
def test_by_the_rules_of_gpus_blocks_are_as_near_as_pytorch(low, monkeypatch):
    normalise = F.group_norm

    def in_float32(x, groups, *values):
        weight, bias, eps = values
        return normalise(x.float(), groups, weight.float(), bias.float(), eps)

    decided_by(monkeypatch, lambda chain: True)
    monkeypatch.setitem(_autocast._WIDENED, "cpu", _autocast._WIDENED["cuda"])
    model, x, exact = low_block("cpu")
    with torch.no_grad(), torch.autocast("cpu", low):
        with monkeypatch.context() as patched:
            patched.setattr(F, "group_norm", in_float32)
            expected = model(x)
        convfuse.fuse(model, x, cpu=True)
        with Runs() as seen:
            y = model(x)
    assert set(seen.types) == {low} and y.dtype is expected.dtype is low
    ours, theirs = ((one.double() - exact).square().mean() for one in (y, expected))
    assert ours <= theirs


@pytest.mark.parametrize("device", DEVICES)
def test_an_example_is_timed_under_the_autocast_around_it(device):
    model, x, _ = low_block(device)
    with torch.no_grad(), torch.autocast(device, torch.bfloat16):
        dtype = model(x).dtype
        convfuse.fuse(model, x, cpu=True)
        assert model(x).dtype is dtype
    found = convfuse.report(model).entries
    assert len(found) >= 5 and all(one.layers_us and one.fused_us for one in found), found


@pytest.mark.parametrize("device", DEVICES)
def test_models_under_autocast_are_compiled_exported_and_copied(device, monkeypatch):
    torch._dynamo.reset()
    decided_by(monkeypatch, lambda chain: True)
    model, x, _ = low_block(device)
    before = [type(one) for one in model.modules()]
    with torch.no_grad(), torch.autocast(device, torch.bfloat16):
        convfuse.fuse(model, x, cpu=True)
        with Runs() as seen:
            y = model(x)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(x), y)
        exported = torch.export.export(model, (x,)).module()
        assert torch.equal(exported(x), y)
        for one in copy.deepcopy(model), pickle.loads(pickle.dumps(model)):
            with Runs() as again:
                assert torch.equal(one(x), y)
            assert again.types == seen.types
            found = convfuse.report(one).entries
            assert [a.rounds for a in found] == [a.rounds for a in convfuse.report(model).entries]
            assert [type(inner) for inner in convfuse.unfuse(one).modules()] == before
            with Runs() as none:
                one(x)
            assert none.types == []


@pytest.mark.parametrize("device", DEVICES)
def test_residuals_that_are_written_into_keep_the_type(device, monkeypatch):
    class Writes(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(8, 8, 1)
            self.scale = nn.Parameter(torch.randn(8, 1, 1))

        def forward(self, x):
            y = self.conv(x)
            y += x
            y *= self.scale
            return y

    decided_by(monkeypatch, lambda chain: True)
    model, x = Writes().eval().to(device), torch.randn(2, 8, 5, 6, device=device)
    with torch.no_grad(), torch.autocast(device, torch.bfloat16):
        expected = model(x)
        y = convfuse.fuse(model, x, cpu=True)(x)
    assert chains(model) == {"conv": "conv2d add scale"}
    assert y.dtype is expected.dtype is torch.bfloat16
    assert (y - expected).abs().max() <= 4 * torch.finfo(y.dtype).eps * expected.abs().max()
