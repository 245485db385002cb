"""Batch norms with batch statistics: outputs and running statistics match PyTorch's."""

from __future__ import annotations

import copy

import pytest
import torch
from support import DEVICES, chains, expect_near, fused, reasons
from torch import nn
from torch.nn import functional as F

import convfuse
from convfuse import ops


def conv(**options):
    return nn.Conv2d(3, 8, 3, **options)


MODELS = {
    "plain": ([conv(bias=False), nn.BatchNorm2d(8), nn.ReLU()], "conv2d batch_norm relu"),
    "momentum": ([conv(), nn.BatchNorm2d(8, eps=1e-3, momentum=0.7)], "conv2d batch_norm"),
    "no affine": ([conv(), nn.BatchNorm2d(8, affine=False), nn.SiLU()], "conv2d batch_norm silu"),
    "untracked": (
        [conv(), nn.BatchNorm2d(8, track_running_stats=False), nn.Tanh(), nn.MaxPool2d(2)],
        "conv2d batch_norm tanh max_pool2d",
    ),
    "untracked, no affine": (
        [nn.BatchNorm2d(3, track_running_stats=False, affine=False), nn.Sigmoid()],
        "batch_norm sigmoid",
    ),
    "alone": ([nn.BatchNorm2d(3)], "batch_norm"),
    "transposed": (
        [nn.ConvTranspose2d(3, 8, 3, 2), nn.BatchNorm2d(8), nn.AvgPool2d(2)],
        "conv_transpose2d batch_norm avg_pool2d",
    ),
}


def buffers(model):
    return {name: one.clone() for name, one in model.named_buffers()}


def expect_same_buffers(ours, plain, tolerance=1e-5):
    known = buffers(plain)
    assert buffers(ours).keys() == known.keys()
    for name, one in buffers(ours).items():
        torch.testing.assert_close(one, known[name], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", MODELS)
def test_batches_renew_running_statistics_as_in_pytorch(name, device):
    torch.manual_seed(0)
    layers, chain = MODELS[name]
    plain = copy.deepcopy(nn.Sequential(*layers)).to(device)
    ours = fused(plain)
    for model in (plain, ours):
        model.train()
    with torch.no_grad():
        for _ in range(3):
            x = 2 * torch.randn(37, 3, 9, 10, device=device) + 1
            expect_near(ours(x), copy.deepcopy(plain).double()(x.double()), 4.0)
            plain(x)
            expect_same_buffers(ours, plain)
            x = x.to(memory_format=torch.channels_last)
            torch.testing.assert_close(ours(x), plain(x), rtol=1e-4, atol=1e-4)
        assert set(chains(ours)) == {chain}
        for model in (plain, ours):
            model.eval()
        torch.testing.assert_close(ours(x), plain(x), rtol=1e-4, atol=1e-4)
    expect_same_buffers(ours, plain)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_batches_renew_running_statistics_under_autocast(dtype):
    torch.manual_seed(1)
    plain = nn.Sequential(conv(), nn.BatchNorm2d(8), nn.ReLU())
    ours, x = fused(plain), torch.randn(5, 3, 9, 10)
    for model in (plain, ours):
        model.train()
    with torch.no_grad(), torch.autocast("cpu", dtype):
        y, z = ours(x), plain(x)
    assert y.dtype is z.dtype
    torch.testing.assert_close(y, z, rtol=5e-2, atol=5e-2)
    expect_same_buffers(ours, plain, 1e-2)
    assert chains(ours) == ["conv2d batch_norm relu"]


def test_what_is_not_the_same_is_left_to_pytorch():
    torch.manual_seed(2)
    x = torch.randn(4, 3, 9, 10)
    for norm in (nn.BatchNorm2d(3, momentum=None), nn.BatchNorm2d(3).bfloat16()):
        plain = nn.Sequential(norm)
        ours, of = fused(plain), x.to(norm.weight.dtype)
        for model in (plain, ours):
            model.train()
        with torch.no_grad():
            for _ in range(2):
                assert torch.equal(ours(of), plain(of))
        expect_same_buffers(ours, plain)
        assert chains(ours) == []
    assert any("running statistics are of torch.bfloat16" in one for one in reasons(ours).values())
    # With gradients, PyTorch computes everything.
    plain = nn.Sequential(conv(), nn.BatchNorm2d(8))
    ours = fused(plain)
    for model in (plain, ours):
        model.train()
        model(x).square().sum().backward()
    for one, other in zip(ours.parameters(), plain.parameters()):
        assert torch.equal(one.grad, other.grad)
    expect_same_buffers(ours, plain)
    # One value per channel.
    small = torch.randn(1, 3, 3, 3)
    with torch.no_grad(), pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        ours(small)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_norm_that_is_called_twice_renews_twice(mode):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)

        def forward(self, x):
            return torch.relu(self.norm(self.conv(torch.tanh(self.norm(x)))))

    torch.manual_seed(3)
    plain = Twice()
    ours, x = fused(plain), torch.randn(4, 3, 9, 10)
    for model in (plain, ours):
        model.train()
    with mode():
        torch.testing.assert_close(ours(x), plain(x), rtol=1e-4, atol=1e-4)
    expect_same_buffers(ours, plain)


class Read(nn.Module):
    """Reads running statistics at several places."""

    def __init__(self, *places):
        super().__init__()
        self.conv, self.norm, self.last, self.places = conv(), nn.BatchNorm2d(8), nn.Conv2d(8, 4, 1), places

    def forward(self, x):
        found = []

        def read(place):
            if place in self.places:
                found.extend((self.norm.running_mean * 2, self.norm.running_var + 1))

        read("before")
        y = self.norm(self.conv(x))
        read("within")
        y = F.relu(y)
        read("behind")
        return self.last(y), *found


@pytest.mark.parametrize("choice", ["all", "networks"])
@pytest.mark.parametrize("places", [("before",), ("within",), ("behind",), ("before", "within", "behind")])
def test_statistics_that_the_model_reads_are_those_of_their_place(places, choice):
    torch.manual_seed(5)
    plain = Read(*places)
    ours, x = fused(plain, choice=choice), torch.randn(4, 3, 9, 10)
    for model in (plain, ours):
        model.train()
    with torch.no_grad():
        for _ in range(2):
            for one, other in zip(ours(x), plain(x), strict=True):
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    expect_same_buffers(ours, plain)


class Counting(nn.Module):
    """Counters of several types and steps, some of which are read."""

    STEPS = {"a": 1, "b": 1, "c": 2, "d": 2, "short": 1, "wide": 1, "read": 1, "returned": 1, "twice": 1}

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(conv(), nn.BatchNorm2d(8), nn.ReLU())
        for name in self.STEPS:
            dtype = {"short": torch.int32, "wide": torch.float32}.get(name, torch.long)
            self.register_buffer(name, torch.zeros((), dtype=dtype))

    def forward(self, x):
        before = self.read * 3
        for name, step in self.STEPS.items():
            getattr(self, name).add_(step)
        y = self.layers(x)
        self.twice.add_(self.returned)
        return y, before, self.returned * 5, self.twice - 1


def test_counters_are_increased_by_their_own_steps():
    plain = Counting()
    ours, x = fused(plain), torch.randn(2, 3, 8, 8)
    for model in (plain, ours):
        model.train()
    with torch.no_grad():
        for _ in range(3):
            for one, other in zip(ours(x), plain(x), strict=True):
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
            expect_same_buffers(ours, plain)
    (program,) = ours.__dict__["_convfuse"].kernels.programs
    assert sorted(len(one) for one in program.counters) == [2, 3]


def test_inductor_compiles_what_is_around():
    torch.manual_seed(4)
    plain = nn.Sequential(conv(), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(448, 3))
    options = {"cpu": True, "choice": "all"}
    ours, x = copy.deepcopy(plain), torch.randn(5, 3, 9, 10)
    compiled = torch.compile(ours, backend="convfuse", options=options)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(x), plain(x), rtol=1e-4, atol=1e-4)
    expect_same_buffers(ours, plain)
    assert [one.chain for one in convfuse.report(compiled).entries if one.taken] == [
        "conv2d batch_norm relu"
    ]


def test_the_operator_writes_to_running_statistics_alone():
    chain = '{"in_channels": 3, "layers": [{"batch_norm": {"name": "n", "training": true}}, {"relu": {}}]}'
    x, weight, bias = torch.randn(4, 3, 5), torch.rand(3), torch.rand(3)
    mean, variance = torch.zeros(3), torch.ones(3)
    known = [one.clone() for one in (x, weight, bias, mean, variance)]
    with torch.no_grad():
        y = ops.run([x], [weight, bias, mean, variance], chain)
        z = F.relu(F.batch_norm(known[0], *known[3:], *known[1:3], training=True))
    for one, other in zip((y, x, weight, bias, mean, variance), (z, *known)):
        torch.testing.assert_close(one, other)
    with pytest.raises(RuntimeError, match="the chain renews running statistics"):
        ops.RUN([x], [weight, bias, mean, variance], chain, False)
    with pytest.raises(RuntimeError, match="n.running_var: a running statistic .* must be float32"):
        ops.RUN_RENEWING([x], [weight, bias, mean, variance.half()], chain, False)
