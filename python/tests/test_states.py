"""What calls, compilation and timing leave behind: settings, generators, counters, and the order of memory."""

from __future__ import annotations

import contextlib
import copy

import pytest
import torch
from support import chains, exact_of, expect_close, fused
from test_export import Lambda, ran, stored
from torch import nn
from torch.nn import functional as F

import convfuse
from convfuse import _fuse, _inductor
from convfuse import nn as fused_nn
from convfuse._backend import Kernels, Options, left_to_pytorch

forward_ad = torch.autograd.forward_ad
dynamo = torch._dynamo.config


def block(channels=3):
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(channels, 8, 3), nn.GroupNorm(2, 8), nn.SiLU()).eval()


def image(channels=3):
    torch.manual_seed(2)
    return torch.randn(2, channels, 9, 10)


@pytest.mark.parametrize("before", [False, True])
def test_errors_are_suppressed_only_during_calls(before):
    with dynamo.patch(suppress_errors=before):
        for channels in (3, 5):
            model = fused(block())
            with torch.no_grad(), contextlib.nullcontext() if channels == 3 else pytest.raises(RuntimeError):
                model(image(channels))
            assert dynamo.suppress_errors is before
        with _fuse._errors_are_left_to_python():
            with _fuse._errors_are_left_to_python():
                assert dynamo.suppress_errors is True
            assert dynamo.suppress_errors is True
        assert dynamo.suppress_errors is before


def test_a_model_that_is_fused_again_and_left_is_called_as_it_is(monkeypatch):
    model = convfuse.fuse(block(), cpu=True, choice="all")
    assert _fuse._CALLED in model.__dict__
    monkeypatch.setattr(_fuse, "better_in_calls", lambda *_: False)
    convfuse.fuse(model, image(), cpu=True)
    assert convfuse.report(model).replaced == 0
    assert not {_fuse._CALLED, _fuse._REPLICATED} & set(model.__dict__)


def test_graphs_are_left_to_pytorch_in_transforms_and_beside_tangents():
    plain, x = block().requires_grad_(False), image()
    direction, words = torch.randn_like(x), []
    kernels = Kernels(Options(cpu=True, choice="all"))

    def compiled(one):
        words.append(left_to_pytorch([one]))
        return kernels(torch.fx.symbolic_trace(plain), [one])(one)

    assert left_to_pytorch([x]) is None
    with torch.no_grad(), forward_ad.dual_level():
        found, wanted = (forward_ad.unpack_dual(one(forward_ad.make_dual(x, direction))) for one in (compiled, plain))
    torch.testing.assert_close(found.tangent, wanted.tangent)
    found, wanted = (torch.func.jvp(one, (x,), (direction,)) for one in (compiled, plain))
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(torch.func.vmap(compiled)(x[:, None]), torch.func.vmap(plain)(x[:, None]))
    compiled(x.clone().requires_grad_())
    transform = "a transform of torch.func is at work"
    assert words == ["tangents are carried along", transform, transform, "gradients are recorded"]


def test_tangents_pass_through_the_operator():
    module = fused_nn.Chain(3, [{"conv2d": {"name": "conv", "out_channels": 4, "kernel_size": 3}}, {"silu": {}}])
    x = image()
    direction = torch.randn_like(x)
    with torch.no_grad(), forward_ad.dual_level():
        found = forward_ad.unpack_dual(module(forward_ad.make_dual(x, direction)))
    weight, bias = module.chain_parameters()
    primal, tangent = torch.func.jvp(lambda one: F.silu(F.conv2d(one, weight, bias)), (x,), (direction,))
    torch.testing.assert_close(found.primal, primal)
    torch.testing.assert_close(found.tangent, tangent)


def test_timing_while_compiling_draws_no_random_numbers():
    with torch.random.fork_rng():
        state = torch.get_rng_state()
        with _inductor._real(torch.device("cpu")):
            torch.rand(3)
        assert torch.equal(torch.get_rng_state(), state)


class Counting(nn.Module):
    """Counters that are increased by multiples, by fractions, of several elements, and by their own value."""

    def __init__(self):
        super().__init__()
        self.layers = block()
        for name, value in {
            "one": 1, "two": 2, "three": 3, "four": 4, "several": [1, 2], "more": [3, 4],
            "wide": 1.5, "wider": 2.5, "own": 3, "owner": 4,
        }.items():  # fmt: skip
            self.register_buffer(name, torch.tensor(value))

    def forward(self, x):
        y = self.layers(x)
        # Dynamo multiplies the method's step by its factor itself.
        torch.ops.aten.add_.Tensor(self.one, 2, alpha=3)
        torch.ops.aten.add_.Tensor(self.two, 2, alpha=3)
        self.three.add_(2)
        self.four.add_(2)
        self.several.add_(2)
        self.more.add_(2)
        self.wide.add_(2)
        self.wider.add_(2)
        self.own.add_(self.own)
        self.owner.add_(self.owner)
        return y


def test_counters_are_increased_as_they_are_written():
    plain = Counting()
    ours, x = fused(plain, choice="all"), image()
    with torch.no_grad():
        for _ in range(2):
            expect_close(ours(x), exact_of(plain, x))
            plain(x)
            for (name, one), other in zip(ours.named_buffers(), plain.buffers(), strict=True):
                assert torch.equal(one, other) and one.shape == other.shape, name
    assert chains(ours) == ["conv2d group_norm silu"]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("of", ["weights", "both", "none"])
@pytest.mark.parametrize("choice", ["all", "networks"])
def test_values_lie_as_in_pytorch(channels, of, choice):
    """Convolutions take the memory order of weights, those of one channel that of the others."""
    plain = nn.Sequential(nn.Conv2d(channels, 4, 3), nn.ReLU(), nn.Conv2d(4, 1, 3), nn.Conv2d(1, 4, 1)).eval()
    x = image(channels)
    if of in ("weights", "both"):
        plain = plain.to(memory_format=torch.channels_last)
    if of == "both":
        x = x.to(memory_format=torch.channels_last)
    with torch.no_grad():
        found, wanted = fused(plain, choice=choice)(x), plain(x)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    assert found.stride() == wanted.stride()


def test_parameters_of_any_memory_order_are_stored_densely(tmp_path):
    plain = nn.Sequential(nn.Conv2d(3, 4, (2, 3)), nn.ReLU(), nn.Conv2d(4, 2, 3)).eval()
    x = image()
    dense = convfuse.export(plain, x, tmp_path / "dense")
    last = convfuse.export(copy.deepcopy(plain).to(memory_format=torch.channels_last), x, tmp_path / "last")
    assert dense.parameters.read_bytes() == last.parameters.read_bytes()
    for name, value in plain.state_dict().items():
        assert (torch.from_numpy(stored(last.parameters)[name][0].copy()) == value).all()


SHAPES = [(), (1,), (8, 1, 1), (1, 8, 1, 1), (1, 1, 1, 1), (1, 1, 1)]


@pytest.mark.parametrize(
    ("text", "shape"),
    [(text, shape) for text in ("y + c", "c * y") for shape in SHAPES] + [("F.prelu(y, c)", one) for one in ((), (1,), (8,))],
)
def test_constants_of_any_shape_are_parameters(tmp_path, shape, text):
    constant = torch.randn(shape, generator=torch.Generator().manual_seed(4))
    function = eval(f"lambda own, x: (lambda y, c: {text})(own.conv(x), own.constant)", {"F": F})
    model = Lambda(function)
    model.register_buffer("constant", constant)
    x = torch.randn(2, 4, 9, 10)
    exported = convfuse.export(model, x, tmp_path / "net")
    with torch.no_grad():
        expect_close(ran(exported, x), exact_of(model, x))
