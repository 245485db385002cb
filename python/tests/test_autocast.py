"""Fused models under autocast: they give the types of PyTorch's layers, and round only where these do."""

from __future__ import annotations

import copy

import pytest
import torch
from support import DEVICES, ResidualBlock, chains, exact_of, expect_close, fused, reasons
from torch import nn
from torch.nn import functional as F

LOW = [torch.float16, torch.bfloat16]


def blocks():
    torch.manual_seed(0)
    return {
        "group norm": nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU()),
        "instance norm": nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8, affine=True), nn.LeakyReLU(0.1)
        ),
        "batch norm": nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()),
        "prelu": nn.Sequential(nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8), nn.PReLU(8)),
        "no norm": nn.Sequential(nn.Conv2d(3, 8, 3), nn.GELU(), nn.MaxPool2d(2)),
        "two": nn.Sequential(
            *(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 4, 3)),
            *(nn.GroupNorm(2, 4), nn.SiLU(), nn.Conv2d(4, 4, 1)),
        ),
    }


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", LOW)
@pytest.mark.parametrize("name", blocks())
def test_types_are_those_of_the_layers(name, dtype, device):
    plain = blocks()[name].eval().to(device)
    ours, x = fused(plain, choice="all"), torch.randn(2, 3, 12, 12, device=device)
    for one in (x, x.to(dtype)):
        with torch.no_grad(), torch.autocast(device, dtype):
            y, z = ours(one), plain(one)
        assert y.dtype is z.dtype
        expect_close(y, exact_of(plain.cpu(), one.cpu()), dtype)
        plain.to(device)
    assert chains(ours)


@pytest.mark.parametrize("dtype", LOW)
def test_one_model_runs_in_and_out_of_autocast(dtype):
    plain = ResidualBlock().eval()
    ours, x = fused(plain), torch.randn(2, 8, 10, 10)
    for enabled in (False, True, False, True):
        with torch.no_grad(), torch.autocast("cpu", dtype, enabled=enabled):
            y, z = ours(x), plain(x)
        assert y.dtype is z.dtype
        expect_close(y, exact_of(plain, x), dtype if enabled else torch.float32)


@pytest.mark.parametrize("variance", [4e4, 1e5, 1e6])
@pytest.mark.parametrize("dtype", LOW)
def test_statistics_beyond_16_bits_stay(dtype, variance):
    plain = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).eval()
    plain[1].running_var.fill_(variance)
    plain[1].weight.data.fill_(100.0)
    ours, x = fused(plain), 400 * torch.randn(2, 3, 8, 8)
    with torch.no_grad(), torch.autocast("cpu", dtype):
        y, z = ours(x).float(), plain(x).float()
    assert chains(ours) == ["conv2d batch_norm"]
    torch.testing.assert_close(y, z, rtol=2e-2, atol=2e-2 * z.abs().max().item())


@pytest.mark.parametrize("dtype", LOW)
def test_float32_that_is_read_is_not_rounded(dtype):
    """As on a GPU, where group norms are computed in float32: a value that ends in float32 is not part of a
    16-bit region."""

    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8)
            self.last = nn.Conv2d(8, 4, 3)

        def forward(self, x):
            with torch.autocast("cpu", enabled=False):
                y = torch.nn.functional.silu(self.norm(self.conv(x.to(dtype)).float()))
            return y if self.rounds is False else self.last(y.to(dtype))

    plain = Wide().eval()
    plain.conv.to(dtype), plain.last.to(dtype)
    x = torch.randn(2, 3, 9, 9)
    plain.rounds = False
    ours = fused(plain)
    with torch.no_grad():
        assert ours(x).dtype is torch.float32
    assert chains(ours) == ["conv2d", "group_norm silu"], reasons(ours)
    torch._dynamo.reset()
    plain.rounds = True
    ours = fused(plain)
    with torch.no_grad():
        y, z = ours(x), plain(x)
    assert y.dtype is z.dtype is dtype
    assert chains(ours)[0] == "conv2d group_norm silu"
    expect_close(y, z.double(), dtype)


@pytest.mark.parametrize("dtype", LOW)
@pytest.mark.parametrize(
    "function",
    [
        *(lambda y, w, r: y * w, lambda y, w, r: y + w, lambda y, w, r: w - y, lambda y, w, r: y / w[0, 0, 0]),
        *(lambda y, w, r: F.prelu(y, w.flatten()), lambda y, w, r: y + r, lambda y, w, r: r * y),
    ],
)
def test_operands_of_float32_are_not_rounded(function, dtype):
    """Between a norm in float32 and a conversion to 16 bits."""

    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm, self.w = nn.Conv2d(3, 8, 3).to(dtype), nn.GroupNorm(2, 8), torch.rand(8, 1, 1) + 0.5

        def forward(self, x, r):
            return function(self.norm(self.conv(x.to(dtype)).float()), self.w, r).to(dtype)

    plain = Wide().eval()
    ours, inputs = fused(plain), [torch.randn(2, 3, 9, 9), torch.randn(2, 8, 7, 7)]
    with torch.no_grad():
        y, z = ours(*inputs), plain(*inputs)
    assert y.dtype is z.dtype is dtype
    expect_close(y, z.double(), dtype)
    assert chains(ours)[0] == "conv2d"


def test_halves_run_in_their_type():
    for dtype in LOW:
        torch._dynamo.reset()
        for name, plain in blocks().items():
            plain = copy.deepcopy(plain).eval().to(dtype)
            ours, x = fused(plain), torch.randn(2, 3, 12, 12).to(dtype)
            with torch.no_grad():
                y = ours(x)
            assert y.dtype is dtype and chains(ours), name
            expect_close(y, exact_of(plain, x), dtype)
