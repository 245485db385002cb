"""Regions of ATen graphs: each row of the table, and the conditions under which it does not apply."""

from __future__ import annotations

import pytest
import torch
from support import calls, chains, exact_of, expect_near, fused, reasons
from torch import nn
from torch.nn import functional as F

import convfuse


class Of(nn.Module):
    """A function with some layers."""

    def __init__(self, function, **layers):
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def conv(**options):
    return nn.Conv2d(3, 8, 3, **options)


def gated(*functions_and_value):
    """The value times a function of it, repeatedly."""
    *functions, y = functions_and_value
    for function in functions:
        y = y * function(y)
    return y


def again(y, b):
    """A value that is read again, with copies in between."""
    first = y.clone().detach()
    y = (y + b + first) * first
    return -(first.clone() - y) - first


def after(*layers):
    """Layers after a convolution and a norm."""
    return nn.Sequential(conv(), nn.GroupNorm(2, 8), *layers)


BEGIN = "conv2d group_norm"
IMAGE, VOLUME, SIGNAL = (2, 3, 11, 12), (2, 3, 7, 8, 9), (2, 3, 20)

# For each name: a model, its input's shape, and the chains of its regions.
TAKEN = {
    "silu": (after(nn.SiLU()), IMAGE, [f"{BEGIN} silu"]),
    "relu in place": (after(nn.ReLU(inplace=True)), IMAGE, [f"{BEGIN} relu"]),
    "relu6": (after(nn.ReLU6()), IMAGE, [f"{BEGIN} clamp"]),
    "hardtanh": (after(nn.Hardtanh(-0.75, 0.5)), IMAGE, [f"{BEGIN} clamp"]),
    "leaky_relu": (after(nn.LeakyReLU(0.2)), IMAGE, [f"{BEGIN} leaky_relu"]),
    "gelu": (after(nn.GELU("tanh")), IMAGE, [f"{BEGIN} gelu"]),
    "sigmoid, tanh": (after(nn.Sigmoid(), nn.Tanh()), IMAGE, [f"{BEGIN} sigmoid tanh"]),
    "hardswish, mish": (after(nn.Hardswish(), nn.Mish()), IMAGE, [f"{BEGIN} hardswish mish"]),
    "elu": (after(nn.ELU(0.7)), IMAGE, [f"{BEGIN} elu"]),
    "softplus": (after(nn.Softplus(2.0, 1.5)), IMAGE, [f"{BEGIN} softplus"]),
    "prelu": (after(nn.PReLU(), nn.PReLU(8)), IMAGE, [f"{BEGIN} prelu prelu"]),
    "dropout": (after(nn.Dropout(0.5), nn.ReLU()), IMAGE, [f"{BEGIN} relu"]),
    "clamp": (
        Of(lambda own, x: own.a(x).clamp(min=-0.5).clamp_(max=1), a=after()),
        IMAGE,
        [f"{BEGIN} clamp clamp"],
    ),
    "max_pool2d": (after(nn.MaxPool2d(3, 2, 1)), IMAGE, [f"{BEGIN} max_pool2d"]),
    "avg_pool2d": (after(nn.AvgPool2d(3, 2, 1, True, False)), IMAGE, [f"{BEGIN} avg_pool2d"]),
    "adaptive_avg_pool2d": (
        after(nn.AdaptiveAvgPool2d(1)),
        IMAGE,
        [f"{BEGIN} adaptive_avg_pool2d"],
    ),
    "instance_norm": (
        nn.Sequential(conv(), nn.InstanceNorm2d(8, affine=True), nn.ReLU(inplace=True)),
        IMAGE,
        ["conv2d instance_norm relu"],
    ),
    "instance_norm of one sample": (
        nn.Sequential(conv(), nn.InstanceNorm2d(8, affine=True)),
        (1, 3, 9, 9),
        ["conv2d instance_norm"],
    ),
    "instance_norm alone": (nn.InstanceNorm2d(3), IMAGE, ["instance_norm"]),
    "group_norm alone": (nn.GroupNorm(3, 3), SIGNAL, ["group_norm"]),
    "batch_norm": (
        nn.Sequential(conv(bias=False), nn.BatchNorm2d(8), nn.ReLU()),
        IMAGE,
        ["conv2d batch_norm relu"],
    ),
    "layer_norm": (
        nn.Sequential(conv(), nn.LayerNorm([8, 9, 10], bias=False)),
        IMAGE,
        ["conv2d layer_norm"],
    ),
    "softmax": (
        Of(
            lambda own, x: ((own.a(x).softmax(1) + own.b) * 2).sigmoid(),
            a=conv(),
            b=nn.Parameter(torch.rand(8, 1, 1)),
        ),
        IMAGE,
        ["conv2d softmax add mul sigmoid"],
    ),
    "softmax alone": (nn.LogSoftmax(-1), IMAGE, ["log_softmax"]),
    "softmax of flattened axes": (
        Of(lambda own, x: own.a(x).flatten(2).softmax(2).view(2, 8, 9, 10) * own.b, a=after(), b=nn.Parameter(torch.rand(1, 8, 1, 1))),
        IMAGE,
        [f"{BEGIN} softmax scale"],
    ),
    "avg_pool2d in front": (nn.Sequential(nn.AvgPool2d(2), conv()), IMAGE, ["avg_pool2d conv2d"]),
    "layer_norm of rows": (
        nn.Sequential(conv(), nn.LayerNorm(10), nn.GELU()),
        IMAGE,
        ["conv2d layer_norm gelu"],
    ),
    "layer_norm of planes": (nn.Sequential(nn.LayerNorm([11, 12]), nn.ReLU()), IMAGE, ["layer_norm relu"]),
    "conv1d": (
        nn.Sequential(nn.Conv1d(3, 8, 3, 2, 1, 2), nn.InstanceNorm1d(8)),
        SIGNAL,
        ["conv1d instance_norm"],
    ),
    "conv3d": (
        nn.Sequential(nn.Conv3d(3, 6, (1, 3, 2), groups=3), nn.InstanceNorm3d(6), nn.MaxPool3d(2)),
        VOLUME,
        ["conv3d instance_norm max_pool3d"],
    ),
    "transposed": (
        nn.Sequential(
            nn.ConvTranspose2d(3, 8, 3, 2, 1, output_padding=1, bias=False),
            nn.InstanceNorm2d(8),
            nn.ReLU(),
            nn.ConvTranspose2d(8, 6, (2, 3), (2, 1), groups=2, dilation=(1, 2)),
            nn.Sigmoid(),
        ),
        IMAGE,
        ["conv_transpose2d instance_norm relu", "conv_transpose2d sigmoid"],
    ),
    "padding": (
        nn.Sequential(conv(padding="same"), nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1), nn.ReLU()),
        IMAGE,
        ["conv2d relu", "conv2d relu"],
    ),
    "padding of all axes": (
        Of(lambda own, x: own.a(F.pad(x, [2, 2, 1, 1, 0, 0, 0, 0])), a=after()),
        IMAGE,
        [BEGIN],
    ),
    "reflect": (
        nn.Sequential(conv(padding=2, padding_mode="reflect"), nn.ReLU()),
        IMAGE,
        ["conv2d relu"],
    ),
    "replicate": (
        nn.Sequential(nn.Conv3d(3, 4, 3, padding=1, padding_mode="replicate"), nn.ReLU()),
        VOLUME,
        ["conv3d relu"],
    ),
    "a norm, then a convolution": (
        nn.Sequential(nn.GroupNorm(1, 3), nn.SiLU(), conv(padding=1, padding_mode="reflect")),
        IMAGE,
        ["group_norm silu conv2d"],
    ),
    "residual": (
        Of(lambda own, x: F.relu(x + own.a(x)), a=after(nn.Conv2d(8, 3, 3, padding=2))),
        IMAGE,
        [BEGIN, "conv2d add relu"],
    ),
    "factors": (
        Of(
            lambda own, x: own.norm(own.conv(x) * own.factor) * own.factor,
            conv=conv(),
            norm=nn.InstanceNorm2d(8),
            factor=nn.Parameter(torch.rand(1, 8, 1, 1)),
        ),
        IMAGE,
        ["conv2d scale instance_norm scale"],
    ),
    "max": (
        Of(lambda own, x: torch.max(own.a(x), dim=1)[0].relu(), a=after()),
        IMAGE,
        [f"{BEGIN} max relu"],
    ),
    "amax": (Of(lambda own, x: own.a(x).amax(1), a=after()), IMAGE, [f"{BEGIN} max"]),
    "min": (
        Of(lambda own, x: torch.min(own.a(x), dim=1, keepdim=True)[0].tanh(), a=after()),
        IMAGE,
        [f"{BEGIN} min tanh"],
    ),
    "sum": (Of(lambda own, x: own.a(x).sum(1), a=after()), IMAGE, [f"{BEGIN} sum"]),
    "mean": (Of(lambda own, x: own.a(x).mean((1,), True), a=after()), IMAGE, [f"{BEGIN} mean"]),
    "means of images": (
        Of(lambda own, x: own.a(x).mean((2, 3)).max(1, keepdim=True)[0].relu(), a=after()),
        IMAGE,
        [f"{BEGIN} mean max relu"],
    ),
    "sums of columns and channels": (
        Of(lambda own, x: own.a(x).sum(2).tanh().sum((-1, 1), keepdim=True), a=after()),
        IMAGE,
        [f"{BEGIN} sum tanh sum"],
    ),
    "logsumexp": (
        Of(lambda own, x: own.a(x).logsumexp(1, keepdim=True).relu(), a=after()),
        IMAGE,
        [f"{BEGIN} logsumexp relu"],
    ),
    "maxima apart": (Of(lambda own, x: own.a(x).amax((1, 3)), a=after()), IMAGE, [f"{BEGIN} max"]),
    "samples": (Of(lambda own, x: own.a(x).mean((1, 2, 3)), a=after()), IMAGE, [f"{BEGIN} mean"]),
    "a functional call": (
        Of(
            lambda own, x: F.group_norm(F.conv2d(x, own.weight), 2).relu(),
            weight=nn.Parameter(torch.randn(4, 3, 2, 2)),
        ),
        IMAGE,
        ["conv2d group_norm relu"],
    ),
    "numbers": (
        Of(lambda own, x: (2 - (own.a(x) + 1) * 0.5).sub_(0.25, alpha=3) / 3, a=after()),
        IMAGE,
        [f"{BEGIN} add mul mul add sub div"],
    ),
    "numbers by other names": (
        Of(
            lambda own, x: torch.rsub(torch.add(own.a(x), 1, alpha=0.5).neg(), 2, alpha=3),
            a=after(),
        ),
        IMAGE,
        [f"{BEGIN} add mul mul add"],
    ),
    "one value": (
        Of(
            lambda own, x: own.one - (own.a(x) * own.none + own.none) / own.one,
            a=after(),
            none=nn.Parameter(torch.tensor(0.75)),
            one=nn.Parameter(torch.tensor([[[1.5]]])),
        ),
        IMAGE,
        [f"{BEGIN} mul add div mul add"],
    ),
    "a value a channel": (
        Of(
            lambda own, x: torch.rsub((own.b + own.a(x) / own.c - own.c), own.b, alpha=2) * own.b,
            a=after(),
            b=nn.Parameter(torch.rand(8, 1, 1) + 0.5),
            c=nn.Parameter(torch.rand(1, 8, 1, 1) + 0.5),
        ),
        IMAGE,
        [f"{BEGIN} div add sub mul add scale"],
    ),
    "a value a channel of volumes": (
        Of(
            lambda own, x: own.a(x).sub(own.b).div(own.c),
            a=nn.ConvTranspose3d(3, 5, 2, 2),
            b=nn.Parameter(torch.rand(5, 1, 1, 1)),
            c=nn.Parameter(torch.rand(1, 5, 1, 1, 1) + 0.5),
        ),
        VOLUME,
        ["conv_transpose3d sub div"],
    ),
    "a value a channel that is computed": (
        Of(
            lambda own, x: own.a(x) * own.b(x.mean((0, 2, 3))).sigmoid().reshape(8, 1, 1),
            a=after(),
            b=nn.Linear(3, 8),
        ),
        IMAGE,
        [f"{BEGIN} scale"],
    ),
    "a value a channel of each sample": (
        Of(
            lambda own, x: own.a(x) * own.b(x.mean((2, 3))).sigmoid()[..., None, None],
            a=after(),
            b=nn.Linear(3, 8),
        ),
        IMAGE,
        [BEGIN],
    ),
    "limits": (
        Of(
            lambda own, x: torch.max(
                torch.tensor(-0.5), torch.min(own.a(x), torch.tensor(0.75)).clamp_min(-0.6)
            ),
            a=after(),
        ),
        IMAGE,
        [f"{BEGIN} minimum clamp maximum"],
    ),
    "limits that are tensors": (
        Of(
            lambda own, x: torch.clamp(own.a(x), torch.tensor(-0.5), torch.full((), 0.75)),
            a=after(),
        ),
        IMAGE,
        [f"{BEGIN} clamp"],
    ),
    "hardsigmoid": (after(nn.Hardsigmoid()), IMAGE, [f"{BEGIN} hardsigmoid"]),
    "silu in parts": (
        Of(lambda own, x: gated(torch.sigmoid, torch.sigmoid, own.a(x)), a=after()),
        IMAGE,
        [f"{BEGIN} silu silu"],
    ),
    "hardswish in parts": (
        Of(
            lambda own, x: gated(
                F.hardsigmoid,
                lambda y: F.relu6(y + 3) / 6,
                lambda y: (3 + y).clamp(0, 6) * (1 / 6),
                lambda y: torch.clamp((y + 3) / 6, 0, 1),
                own.a(x),
            ),
            a=after(),
        ),
        IMAGE,
        [f"{BEGIN} hardswish hardswish hardswish hardswish"],
    ),
    "hardswish in other parts": (
        Of(lambda own, x: gated(lambda y: torch.clamp(y + 3, 0, 6), own.a(x)) / 6, a=after()),
        IMAGE,
        [f"{BEGIN} hardswish"],
    ),
    "mish in parts": (
        Of(lambda own, x: gated(lambda y: torch.tanh(F.softplus(y)), own.a(x)).relu(), a=after()),
        IMAGE,
        [f"{BEGIN} mish relu"],
    ),
    "arithmetic behind reductions": (
        Of(
            lambda own, x: torch.logsumexp(own.a(x).mean([-1, -2], keepdim=True) + own.b, 1) * 10,
            a=after(),
            b=nn.Parameter(torch.rand(8, 1, 1)),
        ),
        IMAGE,
        [f"{BEGIN} adaptive_avg_pool2d add logsumexp mul"],
    ),
    "arithmetic with channels that are left": (
        Of(
            lambda own, x: own.a(x).amin((2, -1)).sub(own.b) * own.c / own.d + 1,
            a=after(),
            b=nn.Parameter(torch.rand(8)),
            c=nn.Parameter(torch.rand(1, 8)),
            d=nn.Parameter(torch.rand(1) + 0.5),
        ),
        IMAGE,
        [f"{BEGIN} min sub mul div add"],
    ),
    "arithmetic without channels": (
        Of(
            lambda own, x: (own.a(x).max(-3)[0] * own.b - 0.25) / own.b,
            a=after(),
            b=nn.Parameter(torch.rand(1, 1) + 0.5),
        ),
        IMAGE,
        [f"{BEGIN} max mul sub div"],
    ),
    "products with functions of a value": (
        Of(
            lambda own, x: gated(
                torch.tanh,
                lambda y: F.softplus(y, 2.0).tanh(),
                lambda y: torch.clamp(y + 3, 0, 6) / 7,
                lambda y: y,
                own.a(x),
            ),
            a=after(),
        ),
        IMAGE,
        [f"{BEGIN} tanh mul softplus tanh mul add clamp div mul mul"],
    ),
    "a value that is read again and again": (
        Of(lambda own, x: again(own.a(x), own.b), a=conv(), b=nn.Parameter(torch.rand(8, 1, 1))),
        IMAGE,
        ["conv2d add add mul mul add mul sub"],
    ),
    "a value divided by another": (
        Of(lambda own, x: own.a(x) / (x[:, :1, :9, :10].expand(2, 8, 9, 10) + 9), a=after()),
        IMAGE,
        [f"{BEGIN} div"],
    ),
    "sums with a value of another kind": (
        Of(lambda own, x: (y := own.a(x)) * y.sigmoid() + y - torch.ones(2, 8, 9, 10), a=after()),
        IMAGE,
        [f"{BEGIN} sigmoid mul add sub"],
    ),
    "products with what is computed before": (
        Of(
            lambda own, x: own.a(x) * own.b(x) - own.b(x),
            a=after(nn.ReLU()),
            b=nn.Sequential(conv(), nn.Sigmoid()),
        ),
        IMAGE,
        [f"{BEGIN} relu mul sub", "conv2d sigmoid", "conv2d sigmoid"],
    ),
    "a convolution alone": (nn.Sequential(conv()), IMAGE, ["conv2d"]),
    "a pool alone": (nn.Sequential(nn.MaxPool2d(2)), IMAGE, ["max_pool2d"]),
    "a sample without a batch": (nn.Sequential(conv(), nn.ReLU()), IMAGE[1:], ["conv2d"]),
}


def test_a_factor_that_is_taken_twice_is_one_parameter():
    model, shape, _ = TAKEN["factors"]
    ours = fused(model.eval())
    with torch.no_grad():
        ours(torch.randn(shape))
    ((call,),) = calls(ours)
    assert len(call.args[1]) == 3 and call.args[2].count('"scale":{"name":"p1"}') == 2


class Wider(nn.GroupNorm):
    """A group norm under another name."""


@pytest.mark.parametrize("name", TAKEN)
def test_rows_mean_the_same(name):
    model, shape, expected = TAKEN[name]
    model = model.eval()
    torch.manual_seed(2)
    x = torch.randn(shape)
    ours = fused(model)
    with torch.no_grad():
        y = ours(x)
        assert chains(ours) == expected, convfuse.report(ours)
        assert y.dtype == torch.float32
        expect_near(y, exact_of(model, x))
    (graph,) = calls(ours) or [[]]
    assert [len(one.args) for one in graph] == [5] * len(expected)


def test_subclasses_of_layers_are_what_they_compute():
    model = nn.Sequential(conv(), Wider(2, 8), nn.SiLU()).eval()
    ours, x = fused(model), torch.randn(IMAGE)
    with torch.no_grad():
        expect_near(ours(x), exact_of(model, x))
    assert chains(ours) == [f"{BEGIN} silu"]


READERS = {
    "a norm's weight alone": (
        Of(
            lambda own, x: F.group_norm(x, 3, own.weight),
            weight=nn.Parameter(torch.ones(3)),
        ),
        "a weight or a bias alone",
    ),
    "a batch norm alone": (nn.BatchNorm2d(3), "a batch norm by itself"),
    "a softmax over the batch": (
        Of(lambda own, x: torch.softmax(own.weight * x, 0), weight=nn.Parameter(torch.ones(1))),
        "dim is 0",
    ),
    "a layer norm over the batch": (nn.LayerNorm(IMAGE), "over the batch"),
    "a layer norm of features": (nn.Sequential(nn.Flatten(), nn.LayerNorm(396)), "of features"),
    "a layer norm of rows": (nn.Sequential(nn.Flatten(2), nn.LayerNorm(132)), "of rows"),
    "float64": (after().double(), "no kernels for torch.float64"),
}


@pytest.mark.parametrize("name", READERS)
def test_what_is_not_taken_has_a_reason(name):
    model, words = READERS[name]
    dtype = next(model.parameters()).dtype
    ours, x = fused(model.eval()), torch.randn(IMAGE, dtype=dtype)
    with torch.no_grad():
        assert torch.equal(ours(x), model(x))
    assert chains(ours) == []
    assert words in f"{reasons(ours)}"


def test_paths_end_where_the_table_does():
    """Broadcast sums, values with other readers, pools with indices, reductions over the batch."""
    other, each = torch.rand(9, 10), torch.rand(8, 1, 1)
    ends = [
        lambda y: y * y.mean((2, 3), keepdim=True),
        lambda y: y * other,
        lambda y: y - torch.ones(2, 8, 9, 10).double(),
        lambda y: torch.stack([y, y * y.tanh()]),
        lambda y: y * y.cumsum(1),
        lambda y: (y.tanh() + y) * y.tanh().sum(),
        lambda y: (2 / y).clamp(max=1),
        lambda y: (each / y).clamp(max=0.25),
        lambda y: y + y[:1, :, :1, :1],
        lambda y: torch.add(y, torch.ones_like(y), alpha=2),
        lambda y: torch.sub(y, each, alpha=2),
        lambda y: torch.add(y, each.double()),
        lambda y: torch.mul(y, torch.tensor(2, dtype=torch.float64) * other.sum().double()),
        lambda y: torch.mul(y, torch.arange(8).reshape(8, 1, 1)),
        lambda y: torch.mul(y, torch.arange(3).sum()),
        lambda y: torch.minimum(y, other.sum()),
        lambda y: torch.maximum(y, each),
        lambda y: torch.div(y, 0.5, rounding_mode="floor"),
        lambda y: torch.stack([y * y.sigmoid(), y.sigmoid()]),
        lambda y: F.max_pool2d(y, 2, return_indices=True)[1],
        lambda y: y.mean((0, 2)),
        lambda y: y.amax(0),
        lambda y: y.amax(),
        lambda y: y.sum((2, 3), dtype=torch.float64),
        lambda y: F.selu(y),
        lambda y: torch.ops.aten.elu(y, 1.0, 1.0, 0.5),
        lambda y: F.pad(y, (1, 0, 1, 1)),
        lambda y: F.pad(y, (1, 1, 1, 1), value=1.0),
        lambda y: y.flatten(1),
        lambda y: y.clamp(min=each),
        lambda y: torch.clamp(torch.tensor(0.5), y, y + 1),
    ]
    x = torch.randn(IMAGE)
    for index, end in enumerate(ends):
        model = Of(lambda own, x, end=end: end(own.a(x)), a=after(nn.ReLU())).eval()
        ours = fused(model)
        with torch.no_grad():
            y, z = ours(x), model(x)
        assert chains(ours) == [f"{BEGIN} relu"], index
        torch.testing.assert_close(y, z, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("order", ["channels-last", "strided"])
def test_other_layouts_are_views_of_the_same_values(order):
    model = Of(
        lambda own, x: own.a(x).permute(0, 2, 3, 1).view(x.shape[0], -1, 8).transpose(1, 2),
        a=after(nn.SiLU()),
    ).eval()
    x = torch.randn(IMAGE).to(memory_format=torch.channels_last)
    if order == "strided":
        model = Of(lambda own, x: own.a(x).flatten(2), a=after(nn.SiLU())).eval()
        x = torch.randn(2, 3, 11, 24)[..., ::2]
    ours = fused(model)
    with torch.no_grad():
        expect_near(ours(x), exact_of(model, x))
    assert chains(ours) == [f"{BEGIN} silu"]


def test_what_has_no_values_is_left():
    ours = fused(after().eval())
    with torch.no_grad():
        assert ours(torch.randn(0, 3, 9, 9)).shape == (0, 8, 7, 7)
    assert "empty" in reasons(ours)["conv2d group_norm"]


def test_a_value_that_is_written_to_counts_as_it_then_is():

    def function(own, x):
        y = own.a(x)
        y.mul_(2)
        x.add_(1)
        y[:, :1].relu_()
        return y + own.b(x)

    model = Of(function, a=after(), b=nn.Sequential(conv(), nn.ReLU())).eval()
    ours, x = fused(model), torch.randn(IMAGE)
    mine, theirs = x.clone(), x.clone()
    with torch.no_grad():
        torch.testing.assert_close(ours(mine), model(theirs), rtol=1e-4, atol=1e-4)
    assert torch.equal(mine, theirs)


def test_values_may_be_seen_in_another_shape_whatever_their_layout():
    """For a channels-last input, PyTorch's layer norm gives a dense output, and the operator a channels-last
    one."""
    layers = nn.LayerNorm([8, 6, 6]), nn.ReLU(), nn.Flatten(), nn.Linear(288, 3)
    plain = nn.Sequential(*layers).eval()
    ours, x = fused(plain), torch.randn(2, 8, 6, 6)
    with torch.no_grad():
        for order in (torch.contiguous_format, torch.channels_last):
            expect_near(ours(x.to(memory_format=order)), exact_of(plain, x))
    assert chains(ours) == ["layer_norm relu"] * 2


def test_copies_in_another_shape_are_of_any_layout():
    layers = nn.Sequential(nn.BatchNorm2d(3), nn.Tanh())
    plain = Of(lambda own, x: own.a(x).flatten(1).view(x.shape), a=layers).eval()
    ours, x = fused(plain), torch.randn(IMAGE).to(memory_format=torch.channels_last)
    with torch.no_grad():
        expect_near(ours(x), exact_of(plain, x))
    assert chains(ours) == ["batch_norm tanh"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_arithmetic_keeps_16_bits(dtype):
    """Numbers do not widen the type; parameters of other types are refused."""
    torch.manual_seed(4)
    each = nn.Parameter(torch.rand(8, 1, 1) + 0.5)
    model = Of(
        lambda own, x: (0.3 - own.a(x) * 1.7) / own.b + own.b.mean() + torch.tensor(0.1),
        a=after(),
        b=each,
    )
    model, x = model.eval().to(dtype), torch.randn(IMAGE, dtype=dtype)
    ours = fused(model)
    with torch.no_grad():
        y = ours(x)
        assert y.dtype is dtype
        expect_near(y, exact_of(model, x))
    assert chains(ours) == [f"{BEGIN} mul mul add div add add"]


@pytest.mark.parametrize(
    "end",
    [lambda y, b: y + b[0, 0, 0], lambda y, b: (y / b[:1]).half(), lambda y, b: y.float() - b],
)
def test_parameters_of_float32_between_16_bits_are_refused(end):
    model = Of(lambda own, x: end(own.a(x), x.new_ones(8, 1, 1).float() * 2), a=after())
    model, x = model.eval().half(), torch.randn(IMAGE).half()
    ours = fused(model)
    with torch.no_grad():
        y, z = ours(x), model(x)
    assert y.dtype is z.dtype
    torch.testing.assert_close(y, z, rtol=2e-2, atol=2e-2)
    assert chains(ours) == [BEGIN]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "end",
    [
        *(lambda y, wide: y.sum((2, 3), dtype=wide), lambda y, wide: y.mean(1, True, dtype=wide)),
        *(lambda y, wide: y.mean((2, 3), True, dtype=wide), lambda y, wide: y.softmax(1, dtype=wide)),
    ],
)
def test_results_of_float32_between_16_bits_are_not_rounded(end, dtype):
    """A sum in float32 may be beyond float16, and its multiple within."""
    model = Of(lambda own, x: (end(own.a(x) * 4096, torch.float32) / 4096).to(dtype), a=after())
    model, x = model.eval().to(dtype), torch.randn(IMAGE, dtype=dtype)
    ours = fused(model)
    with torch.no_grad():
        y, z = ours(x), model(x)
    assert y.dtype is z.dtype is dtype
    torch.testing.assert_close(y, z, rtol=2e-2, atol=2e-2)
    assert chains(ours)[0] == f"{BEGIN} mul"


class Sums(nn.Module):
    """A transposed convolution, whose output is added, multiplied and added again (KernelBench, level 2,
    20)."""

    def __init__(self):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(3, 8, 3, 2, 1, output_padding=1)
        self.bias = nn.Parameter(torch.randn(8, 1, 1, 1))

    def forward(self, x):
        y = self.conv_transpose(x)
        first = y.clone().detach()
        return (y + self.bias + first) * first + first


class SumTimesHardswish(nn.Module):
    """A transposed convolution plus another input, times a function of the sum (KernelBench, level 2, 26)."""

    def __init__(self):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(3, 8, 3, 2, 1, output_padding=1)

    def forward(self, x, other):
        y = self.conv_transpose(x) + other
        return y * F.hardswish(y)


@pytest.mark.parametrize(
    ("model", "shapes", "chain"),
    [
        (Sums(), [VOLUME], "conv_transpose3d add add mul add"),
        (SumTimesHardswish(), [VOLUME, (2, 8, 14, 16, 18)], "conv_transpose3d add hardswish mul"),
    ],
)
def test_arithmetic_of_values_is_one_region(model, shapes, chain):
    torch.manual_seed(3)
    inputs = [torch.randn(shape) for shape in shapes]
    ours = fused(model.eval())
    with torch.no_grad():
        expect_near(ours(*inputs), exact_of(model, *inputs))
    assert chains(ours) == [chain]
    (graph,) = calls(ours)
    assert len(graph) == 1 and len(graph[0].args[0]) == len(inputs)
