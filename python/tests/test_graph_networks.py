"""Parts of PyTorch's graphs that run as one network."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from support import exact_of, expect_close, fused
from torch import nn
from torch.nn import functional as F

import convfuse
from convfuse.ops import OPERATORS, RUN, RUN_NETWORK, RUN_NETWORK_RENEWING, RUN_RENEWING


class Block(nn.Module):
    """Two convolutions with batch norms, and a shortcut."""

    def __init__(self, before, after, stride=1):
        super().__init__()
        self.one = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(after) for _ in range(2))
        self.short = nn.Conv2d(before, after, 1, stride)

    def forward(self, x):
        y = F.relu(self.norms[0](self.one(x)))
        return F.relu(self.norms[1](self.two(y)) + self.short(x))


def of_networks(model, *inputs, **options):
    """A fused model and its calls of the operator, after it was called and compared."""
    torch._dynamo.reset()
    ours = fused(model, choice="networks", **options)
    with torch.no_grad():
        found = ours(*inputs)
        wanted = exact_of(model, *inputs)
    for y, exact in zip(tuples(found), tuples(wanted), strict=True):
        expect_close(y, exact)
    return ours, calls(ours)


def tuples(value):
    return value if isinstance(value, tuple) else (value,)


def calls(ours):
    """The calls of the operator in the last graph."""
    graph = ours.__dict__["_convfuse"].kernels.programs[-1].run.__self__.graph
    return [one for one in graph.nodes if one.target in OPERATORS]


def layers(call):
    """The operators of a call's layers."""
    content = json.loads(call.args[2])
    if "version" not in content:
        return [next(iter(one)) for one in content["layers"]]
    return [next(iter(one["layer"])) for one in content["layers"]]


def image(*shape):
    torch.manual_seed(1)
    return torch.randn(*shape)


def test_a_model_is_one_call():
    model = nn.Sequential(Block(3, 8), Block(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5)).eval()
    ours, (call,) = of_networks(model, image(2, 3, 12, 12))
    assert call.target is RUN and layers(call)[-3:] == ["adaptive_avg_pool2d", "flatten", "linear"]
    report = convfuse.report(ours)
    assert report.replaced == len(report.entries) == 6
    assert all(one.reason == "part of a network of 19 layers" for one in report.entries)
    restored = copy.deepcopy(ours)
    x = image(3, 3, 12, 12)
    with torch.no_grad():
        expect_close(restored(x), exact_of(model, x))
    assert len(calls(restored)) == 1


def test_statistics_and_counters_are_renewed():
    model = nn.Sequential(Block(3, 8), Block(8, 8)).train()
    plain, ours = copy.deepcopy(model), fused(model, choice="networks")
    with torch.no_grad():
        for seed in range(3):
            x = image(2 + seed, 3, 9, 9)
            expect_close(ours(x), exact_of(plain, x))
            plain(x)
    for one, other in zip(ours.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    (call,) = calls(ours)
    assert call.target is RUN_RENEWING
    graph = call.graph
    assert sum(one.target is torch.ops.aten._foreach_add_.Scalar for one in graph.nodes) == 1
    assert not any(one.target is torch.ops.aten.copy_.default for one in graph.nodes)


class Between(nn.Module):
    """Blocks around an operator that the library lacks, and a way past it."""

    def __init__(self):
        super().__init__()
        self.first, self.past, self.last = Block(3, 8), Block(8, 8), Block(8, 8)

    def forward(self, x):
        y = self.first(x)
        z = torch.cumsum(y, 3)
        past = self.past(y)
        return self.last(z) + past, z.mean(), y


def test_what_is_no_layer_divides_networks():
    ours, found = of_networks(Between().eval(), image(2, 3, 8, 8))
    assert len(found) == 2
    assert {one.target for one in found} == {RUN, RUN_NETWORK}
    # The sum takes a value of the first network.
    assert layers(found[1])[-1] == "add" and len(found[1].args[0]) == 2
    assert convfuse.report(ours).replaced == 9


@pytest.mark.parametrize("door", ["fuse", "compile"])
def test_several_values_come_with_renewed_statistics(door):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = Block(3, 8), Block(8, 8)

        def forward(self, x):
            y = self.first(x)
            return y, self.last(y)

    model = Two()
    _, (call,) = of_networks(copy.deepcopy(model).eval(), image(2, 3, 8, 8))
    assert call.target is RUN_NETWORK
    plain, ours = copy.deepcopy(model), fused(model, choice="networks")
    if door == "compile":
        convfuse.unfuse(ours)
        ours = torch.compile(ours, backend="convfuse", options={"cpu": True, "choice": "networks"})
    with torch.no_grad():
        for seed in range(3):
            x = image(2 + seed, 3, 8, 8)
            for y, exact in zip(ours(x), exact_of(plain, x), strict=True):
                expect_close(y, exact)
            plain(x)
    for one, other in zip(ours.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    if door == "fuse":
        (call,) = calls(ours)
        assert call.target is RUN_NETWORK_RENEWING


class Enlarged(nn.Module):
    """Nearest upsampling, in both modes, and a shuffle of channels written by hand."""

    def __init__(self):
        super().__init__()
        self.first, self.last = Block(3, 8), Block(16, 8)

    def forward(self, x):
        y = self.first(x)
        n, c, h, w = y.shape
        y = y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)
        large = F.interpolate(y, scale_factor=2.0)
        # With whole factors both modes are the same.
        other = F.interpolate(y, size=(2 * h + 3, 2 * w + 1), mode="nearest-exact")
        return self.last(torch.cat([large, other[:, :, 3:, 1:]], 1))


def test_upsampling_and_shuffles_are_layers():
    _, (call,) = of_networks(Enlarged().eval(), image(2, 3, 6, 5))
    assert {"channel_shuffle", "upsample", "cat"} <= set(layers(call))
    content = json.loads(call.args[2])["layers"]
    modes = [one["layer"]["upsample"].get("mode", "nearest") for one in content if "upsample" in one["layer"]]
    assert modes == ["nearest", "nearest-exact"]


def test_indices_of_other_pixels_are_no_upsampling():
    class Rolled(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = Block(3, 8), Block(8, 8)

        def forward(self, x):
            y = self.first(x)
            rows = (torch.arange(y.shape[2]) + 1) % y.shape[2]
            return self.last(y[:, :, rows])

    _, found = of_networks(Rolled().eval(), image(2, 3, 6, 5))
    assert len(found) == 2


def test_the_batch_may_be_a_symbol():
    class Resized(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(Block(3, 8), Block(8, 8))

        def forward(self, x):
            y = self.body(x)
            return y.mean((2, 3)), torch.ones(y.shape[0])

    model = Resized().eval()
    ours, _ = of_networks(model, image(2, 3, 8, 8))
    with torch.no_grad():
        for batch in (3, 5, 4):
            x = image(batch, 3, 8, 8)
            y, ones = ours(x)
            expect_close(y, exact_of(model, x)[0])
            assert ones.shape == (batch,)
    (call,) = calls(ours)
    assert len(ours.__dict__["_convfuse"].kernels.programs) == 2 and layers(call)[-1] == "mean"


def test_values_of_networks_may_be_seen_in_another_shape():
    """PyTorch's layer norm gives dense values of channels-last ones, a network channels-last ones."""

    class Seen(nn.Module):
        def __init__(self):
            super().__init__()
            convs = (nn.Conv2d(8, 8, 3, padding=1) for _ in range(2))
            self.body = nn.Sequential(nn.LayerNorm([8, 6, 6]), *convs, nn.LayerNorm([8, 6, 6]))

        def forward(self, x):
            return self.body(x).view(-1, 18)

    _, (call,) = of_networks(Seen().eval(), image(2, 8, 6, 6).to(memory_format=torch.channels_last))
    assert layers(call) == ["layer_norm", "conv2d", "conv2d", "layer_norm"]


def test_further_inputs_that_are_joined_divide_networks():
    class Joined(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Sequential(Block(3, 8), Block(8, 8)), Block(10, 8)

        def forward(self, x, other):
            return self.last(torch.cat([self.first(x), other], 1))

    ours, found = of_networks(Joined().eval(), image(2, 3, 8, 8), image(2, 2, 8, 8))
    assert len(found) == 2 and convfuse.report(ours).replaced == 9


class OfRows(nn.Module):
    """A ConvNeXt block, with a norm and linear maps over the channels."""

    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        y = self.norm(self.conv(x).permute(0, 2, 3, 1))
        return x + self.narrow(F.gelu(self.wide(y))).permute(0, 3, 1, 2)


def test_linear_maps_of_rows_are_layers():
    model = nn.Sequential(nn.Conv2d(3, 8, 2, 2), OfRows(8), OfRows(8)).eval()
    _, (call,) = of_networks(model, image(2, 3, 12, 10), precision="accurate")
    assert layers(call)[1:6] == ["conv2d", "layer_norm", "linear", "gelu", "linear"]


def test_linear_maps_have_the_precision_of_matrix_products():
    model = nn.Sequential(Block(3, 8), Block(8, 8), nn.Flatten(), nn.Linear(8 * 36, 4)).eval()
    _, (call,) = of_networks(model, image(2, 3, 6, 6), precision="accurate")
    assert layers(call)[-1] == "linear"
    ours = fused(model, choice="networks", precision="fast")
    x = image(2, 3, 6, 6)
    with torch.no_grad():
        expect_close(ours(x), exact_of(model, x), factor=100)
    (call,) = calls(ours)
    assert layers(call)[-1] == "flatten"


def test_computed_weights_are_parameters():
    class Standardised(nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(3))

        def forward(self, x):
            for conv in self.convs:
                w = conv.weight
                w = (w - w.mean((1, 2, 3), keepdim=True)) / w.std((1, 2, 3), keepdim=True)
                x = F.silu(F.conv2d(x, w, conv.bias, padding=1)) + x
            return x

    _, (call,) = of_networks(Standardised().eval(), image(2, 8, 7, 7))
    assert layers(call).count("conv2d") == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("last", [False, True])
def test_backends_have_networks_too(dtype, last):
    torch._dynamo.reset()
    model = nn.Sequential(Block(3, 8), Block(8, 16, 2), nn.Conv2d(16, 4, 1)).eval().to(dtype)
    x = image(2, 3, 12, 10).to(dtype)
    if last:
        model = model.to(memory_format=torch.channels_last)
    options = {"cpu": True, "precision": "accurate", "choice": "networks"}
    compiled = torch.compile(model, backend="convfuse", options=options)
    with torch.no_grad():
        y, plain = compiled(x), model(x)
    expect_close(y, exact_of(model, x), factor=4)
    assert y.stride() == plain.stride()
    assert "part of a network of 17 layers" in str(convfuse.report(model))


def test_models_of_other_extents_do_not_make_extents_unknown():
    torch._dynamo.reset()
    for extent in (12, 16, 20):
        model = nn.Sequential(Block(3, 8), Block(8, 16, 2)).eval()
        ours = fused(model, choice="networks")
        x = image(2, 3, extent, extent)
        with torch.no_grad():
            expect_close(ours(x), exact_of(model, x))
        (call,) = calls(ours)
        assert len(layers(call)) == 16


class Dense(nn.Module):
    """Convolutions that read the results of all convolutions before them."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(3 + 4 * number, 4, 3, padding=1) for number in range(4))

    def forward(self, x):
        values = [x]
        for conv in self.convs:
            values.append(conv(torch.cat(values, 1)))
        return torch.cat(values, 1)


def test_concatenations_read_earlier_ones():
    model = Dense().eval()
    _, all_calls = of_networks(model, image(2, 3, 9, 11))
    call = all_calls[-1]
    joined = [layer["layer"]["cat"] for layer in json.loads(call.args[2])["layers"] if "cat" in layer["layer"]]
    assert [len(one["inputs"]) for one in joined] == [1] * 3


def test_concatenations_along_other_axes_are_not_read():
    class Joins(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 3, padding=1)

        def forward(self, x):
            y = F.silu(self.conv(x))
            return tuple(torch.cat(values, dim) for dim in (0, 2, 3, 1) for values in ([x, y], [x, y, x]))

    of_networks(Joins().eval(), image(3, 3, 3, 3))
