"""Whole networks with skips, parts of channels and upsampling, exported and run."""

from __future__ import annotations

import json

import pytest
import torch
from test_export import Lambda, close, operators, ran, trained
from torch import nn
from torch.nn import functional as F

import convfuse


def double(channels, width, dimensions=2):
    """Two convolutions of a U-Net, each with a norm and a ReLU."""
    conv = (nn.Conv2d, nn.Conv3d)[dimensions - 2]
    norm = (nn.BatchNorm2d, nn.BatchNorm3d)[dimensions - 2]
    return nn.Sequential(
        conv(channels, width, 3, padding=1, bias=False), norm(width), nn.ReLU(inplace=True),
        conv(width, width, 3, padding=1, bias=False), norm(width), nn.ReLU(inplace=True),
    )  # fmt: skip


class UNet(nn.Module):
    """An encoder and a decoder with concatenated skips, upsampled by transposed convolutions or by
    interpolation."""

    def __init__(self, channels=1, classes=2, widths=(8, 12, 16), up=None, dimensions=2):
        super().__init__()
        self.pool = (nn.MaxPool2d, nn.MaxPool3d)[dimensions - 2](2)
        transposed = (nn.ConvTranspose2d, nn.ConvTranspose3d)[dimensions - 2]
        self.down = nn.ModuleList()
        for width in widths:
            self.down.append(double(channels, width, dimensions))
            channels = width
        self.larger, self.up = nn.ModuleList(), nn.ModuleList()
        for width in reversed(widths[:-1]):
            if up is None:
                self.larger.append(transposed(channels, width, 2, 2))
                channels = width
            else:
                self.larger.append(nn.Upsample(scale_factor=2, **up))
            self.up.append(double(channels + width, width, dimensions))
            channels = width
        self.head = (nn.Conv2d, nn.Conv3d)[dimensions - 2](channels, classes, 1)

    def forward(self, x):
        skips = []
        for number, block in enumerate(self.down):
            x = block(x if number == 0 else self.pool(x))
            skips.append(x)
        for larger, block, skip in zip(self.larger, self.up, skips[-2::-1]):
            x = block(torch.cat([skip, larger(x)], dim=1))
        return self.head(x).softmax(1)


UPS = {
    "transposed": None,
    "nearest": {"mode": "nearest"},
    "bilinear": {"mode": "bilinear", "align_corners": True},
}


@pytest.mark.parametrize("up", UPS)
def test_a_unet_is_a_network_of_any_extents(tmp_path, up):
    model = trained(UNet(up=UPS[up]))
    exported = convfuse.export(model, torch.randn(2, 1, 16, 24), tmp_path / "unet")
    assert exported.error < 1e-5
    found = operators(exported)
    assert found.count("cat") == 2
    assert found.count("conv_transpose2d" if up == "transposed" else "upsample") == 2
    x = torch.randn(1, 1, 8, 20)
    with torch.no_grad():
        close(ran(exported, x), model.eval()(x))


def test_a_unet_of_volumes_is_a_network(tmp_path):
    up = {"mode": "trilinear", "align_corners": False}
    model = trained(UNet(widths=(4, 8), up=up, dimensions=3))
    exported = convfuse.export(model, torch.randn(1, 1, 4, 6, 8), tmp_path / "unet")
    assert exported.error < 1e-5 and "upsample" in operators(exported)


def parts():
    """Models that split channels and join the parts in several ways."""

    def shuffled(self, x):
        a, b = self.conv(x).chunk(2, dim=1)
        return torch.cat([F.relu(b), a, x], dim=1)

    def split(self, x):
        a, b, c = self.conv(x).split([1, 3, 4], dim=1)
        return torch.cat([c, b * 2, a, c], dim=1)

    def sliced(self, x):
        y = self.conv(x)
        return torch.cat([y[:, -3:, 1:], y.narrow(1, 2, 2)[:, :, :-1]], dim=1)

    def rows(self, x):
        return torch.cat([self.conv(x), self.conv(x * 2)], dim=-1)

    def dense(self, x):
        for weight in (self.conv.weight, self.conv.weight[:3, :, :1, :1]):
            x = torch.cat([x, F.conv2d(x[:, :4], weight, padding="same")], 1)
        return x

    return {one.__name__: one for one in (shuffled, split, sliced, rows, dense)}


@pytest.mark.parametrize("name", parts())
def test_parts_of_values_are_joined(tmp_path, name):
    model = Lambda(parts()[name])
    exported = convfuse.export(model, torch.randn(2, 4, 6, 8), tmp_path / "net")
    assert exported.error < 1e-6 and "cat" in operators(exported)
    x = torch.randn(3, 4, 6, 8)
    with torch.no_grad():
        close(ran(exported, x), model(x), 1e-6)


RESIZES = [
    {"scale_factor": 2.0}, {"scale_factor": (1.7, 0.6)}, {"scale_factor": 1.7, "mode": "nearest-exact"},
    {"size": (9, 11)}, {"size": (9, 11), "mode": "bilinear"},
    {"scale_factor": 1.5, "mode": "bilinear", "align_corners": True},
    {"scale_factor": 1.5, "mode": "bilinear", "recompute_scale_factor": True},
]  # fmt: skip


@pytest.mark.parametrize("attributes", RESIZES, ids=str)
def test_interpolation_is_a_layer(tmp_path, attributes):
    model = Lambda(lambda self, x: F.interpolate(self.conv(x), **attributes))
    exported = convfuse.export(model, torch.randn(2, 4, 6, 7), tmp_path / "net")
    assert exported.error < 1e-6 and operators(exported) == ["conv2d", "upsample"]
    layer = json.loads(exported.network.read_text())["layers"][1]["layer"]["upsample"]
    recomputed = "size" in attributes or "recompute_scale_factor" in attributes
    assert ("size" in layer) == recomputed and ("scale_factor" in layer) != recomputed


class ShuffleBlock(nn.Module):
    """The block of ShuffleNetV2, with torchvision's shuffle."""

    def __init__(self, channels, stride=1):
        super().__init__()
        half = channels // 2
        self.stride = stride

        def depthwise(width):
            return nn.Conv2d(width, width, 3, stride, 1, groups=width, bias=False), nn.BatchNorm2d(width)

        def pointwise(width):
            return nn.Conv2d(width, half, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU(inplace=True)

        self.branch1 = nn.Sequential(*depthwise(channels), *pointwise(channels)) if stride > 1 else nn.Sequential()
        width = channels if stride > 1 else half
        self.branch2 = nn.Sequential(*pointwise(width), *depthwise(half), *pointwise(half))

    def forward(self, x):
        if self.stride == 1:
            x1, x2 = x.chunk(2, dim=1)
            out = torch.cat((x1, self.branch2(x2)), dim=1)
        else:
            out = torch.cat((self.branch1(x), self.branch2(x)), dim=1)
        batchsize, num_channels, height, width = out.size()
        out = out.view(batchsize, 2, num_channels // 2, height, width)
        out = torch.transpose(out, 1, 2).contiguous()
        return out.view(batchsize, num_channels, height, width)


def test_a_shuffle_net_is_a_network(tmp_path):
    stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
    model = trained(nn.Sequential(stem, ShuffleBlock(8, 2), ShuffleBlock(8), ShuffleBlock(8)))
    exported = convfuse.export(model, torch.randn(2, 3, 16, 24), tmp_path / "net")
    assert exported.error < 1e-5
    found = operators(exported)
    assert [found.count(one) for one in ("channel_shuffle", "cat", "narrow")] == [3, 3, 4]
    x = torch.randn(1, 3, 20, 12)
    with torch.no_grad():
        close(ran(exported, x), model.eval()(x))


def test_a_network_of_super_resolution(tmp_path):
    espcn = nn.Sequential(
        nn.Conv2d(1, 8, 5, padding=2), nn.Tanh(), nn.Conv2d(8, 4, 3, padding=1), nn.Tanh(),
        nn.Conv2d(4, 9, 3, padding=1), nn.PixelShuffle(3),
    )  # fmt: skip
    exported = convfuse.export(espcn, torch.randn(2, 1, 6, 8), tmp_path / "net")
    assert exported.error < 1e-5 and operators(exported)[-1] == "pixel_shuffle"
    x = torch.randn(1, 1, 5, 7)
    with torch.no_grad():
        close(ran(exported, x), espcn(x))


def shuffles():
    """Shuffles written as PyTorch's functions, and as views."""

    def pixels(self, x):
        n, c, h, w = x.shape
        return x.reshape(n, 1, 2, 2, h, w).permute(0, 1, 4, 2, 5, 3).reshape(n, 1, 2 * h, 2 * w).relu()

    def blocks(self, x):
        n, c, h, w = x.shape
        y = x.view(n, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4)
        return F.relu(y.reshape(n, c * 4, h // 2, w // 2))

    def side_by_side(self, x):
        n, c, h, w = x.shape
        y = x.view(n, c, h // 2, 2, w // 2, 2).permute(0, 3, 5, 1, 2, 4)
        return F.relu(y.reshape(n, c * 4, h // 2, w // 2))

    return {
        "focus": (lambda self, x: F.silu(F.conv2d(F.pixel_unshuffle(x, 2), self.conv.weight.view(18, 16, 1, 1))), ["pixel_unshuffle", "conv2d", "silu"]),
        "pixels": (pixels, ["pixel_shuffle", "relu"]),
        "blocks": (blocks, ["pixel_unshuffle", "relu"]),
        "channels": (lambda self, x: F.channel_shuffle(self.conv(x), 4), ["conv2d", "channel_shuffle"]),
        "joined": (lambda self, x: self.conv(x).unflatten(1, (4, 2)).transpose(2, 1).flatten(1, 2) * 2, ["conv2d", "channel_shuffle", "mul"]),
        "of_volumes": (lambda self, x: F.channel_shuffle(x.tanh(), 2), ["tanh", "channel_shuffle"]),
        "side_by_side": (side_by_side, ["pixel_unshuffle", "channel_shuffle", "relu"]),
        "greatest": (lambda self, x: F.adaptive_max_pool2d(self.conv(x), 1), ["conv2d", "max"]),
        "maxima": (lambda self, x: self.conv(x).amax((2, 3), keepdim=True), ["conv2d", "max"]),
    }


@pytest.mark.parametrize("name", shuffles())
def test_channels_and_pixels_are_shuffled(tmp_path, name):
    forward, wanted = shuffles()[name]
    model, extents = Lambda(forward), (4, 6, 2) if name == "of_volumes" else (4, 6)
    exported = convfuse.export(model, torch.randn(2, 4, *extents), tmp_path / "net")
    assert exported.error < 1e-6 and operators(exported) == wanted
    x = torch.randn(3, 4, *(2 * one for one in extents))
    with torch.no_grad():
        close(ran(exported, x), model(x), 1e-6)


@pytest.mark.parametrize("order", [(0, 1, 4, 3, 5, 2), (0, 1, 4, 2, 3, 5)])
def test_other_permutations_are_no_shuffles(tmp_path, order):
    def turned(self, x):
        n, c, h, w = x.shape
        return self.conv(x.reshape(n, c, 2, h // 2, 2, w // 2).permute(order).reshape(x.shape))

    def read_twice(self, x):
        y = x.reshape(len(x), 2, 2, *x.shape[2:])
        return self.conv(y.transpose(1, 2).reshape(x.shape)) + y.sum((1, 2)).unsqueeze(1)

    for forward, words in ((turned, "that is no shuffle of channels or pixels"), (read_twice, "a permutation of axes of several elements")):
        with pytest.raises(convfuse.ExportError, match=words):
            convfuse.export(Lambda(forward), torch.randn(2, 4, 4, 4), tmp_path / "net")


class Block(nn.Module):
    """The block of ConvNeXt, whose norm and linear layers act on the last axis."""

    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(channels, 2 * channels), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * channels, channels))
        self.scale = nn.Parameter(torch.full((channels, 1, 1), 0.3))

    def forward(self, x):
        y = self.mlp(self.norm(self.conv(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)
        return x + self.scale * y


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def test_a_conv_next_is_a_network(tmp_path):
    head = nn.AdaptiveAvgPool2d(1), LayerNorm2d(16), nn.Flatten(), nn.Linear(16, 5)
    model = trained(nn.Sequential(nn.Conv2d(3, 8, 2, 2), LayerNorm2d(8), Block(8), nn.Conv2d(8, 16, 2, 2), Block(16), *head))
    exported = convfuse.export(model, torch.randn(2, 3, 16, 24), tmp_path / "net")
    assert exported.error < 1e-5
    block = ["conv2d", "layer_norm", "linear", "gelu", "linear", "mul", "add"]
    assert operators(exported)[1:9] == ["layer_norm", *block]
    x = torch.randn(1, 3, 20, 12)
    with torch.no_grad():
        close(ran(exported, x), model.eval()(x))
    # The names and shapes are the model's, so its later checkpoints can be loaded.
    found = {one["name"] for one in (next(iter(layer["layer"].values())) for layer in layers(exported)) if "name" in one}
    assert {"2.mlp.0", "2.mlp.3", "2.norm", "2.scale"} <= found


def layers(exported):
    return json.loads(exported.network.read_text())["layers"]


@pytest.mark.parametrize(
    "forward, words",
    [
        (lambda self, x: self.conv(x).permute(0, 3, 1, 2).relu().permute(0, 2, 3, 1), "a permutation other than of the channels to the end"),
        (lambda self, x: self.conv(x).permute(0, 2, 3, 1).cumsum(1).permute(0, 3, 1, 2), "aten.cumsum.default of a value with its channels at the end"),
        (lambda self, x: self.conv(x).permute(0, 2, 3, 1).relu(), "a value with its channels at the end that has|aten|output"),
        (lambda self, x: (lambda y: y * y.mean((1, 2), keepdim=True))(self.conv(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2), "that has 2 readers"),
    ],
)  # fmt: skip
def test_other_uses_of_channels_at_the_end_are_refused(tmp_path, forward, words):
    with pytest.raises(convfuse.ExportError, match=words):
        convfuse.export(Lambda(forward), torch.randn(2, 4, 6, 8), tmp_path / "net")


class EfficientAttention(nn.Module):
    """Channel weights computed by a convolution along the channels."""

    def __init__(self):
        super().__init__()
        self.along = nn.Conv1d(1, 1, 3, padding=1, bias=False)

    def forward(self, x):
        y = x.mean((2, 3)).view(x.shape[0], 1, -1)
        y = self.along(y).sigmoid().squeeze(1).unsqueeze(-1).unsqueeze(-1)
        return x * y.expand_as(x)


class Decoder(nn.Module):
    """Decodes features to images."""

    def __init__(self):
        super().__init__()
        self.seed, self.up = nn.Linear(6, 8 * 2 * 3), nn.ConvTranspose2d(8, 4, 4, 2, 1)

    def forward(self, x):
        return self.up(self.seed(x).relu().view(-1, 8, 2, 3)).tanh()


def test_features_become_images_and_sequences(tmp_path):
    exported = convfuse.export(Decoder(), torch.randn(2, 6), tmp_path / "decoder")
    assert operators(exported) == ["linear", "relu", "reshape", "conv_transpose2d", "tanh"] and exported.error < 1e-5
    model = nn.Sequential(nn.Conv2d(4, 8, 3), EfficientAttention(), nn.ReLU()).eval()
    exported = convfuse.export(model, torch.randn(2, 4, 9, 8), tmp_path / "attention")
    assert operators(exported) == ["conv2d", "mean", "reshape", "conv1d", "sigmoid", "reshape", "reshape", "reshape", "gate", "relu"]
    x = torch.randn(3, 4, 7, 12)
    with torch.no_grad():
        close(ran(exported, x), model(x))
    summed = Lambda(lambda self, x: self.conv(x) + x.mean((2, 3), keepdim=True)[:, :1].expand(-1, 8, 6, 8))
    with pytest.raises(convfuse.ExportError, match="expanded otherwise than for a product"):
        convfuse.export(summed, torch.randn(2, 4, 6, 8), tmp_path / "net")


class Attention(nn.Module):
    """Spatial factors, as in attention gates and CBAM."""

    def __init__(self):
        super().__init__()
        self.map = nn.Conv2d(4, 1, 3, padding=1)

    def forward(self, x):
        return x * self.map(x).sigmoid()


def test_factors_of_places_are_a_gate(tmp_path):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), Attention(), nn.ReLU()).eval()
    exported = convfuse.export(model, torch.randn(2, 3, 9, 8), tmp_path / "net")
    assert operators(exported) == ["conv2d", "conv2d", "sigmoid", "gate", "relu"] and exported.error < 1e-5
    x = torch.randn(3, 3, 7, 12)
    with torch.no_grad():
        close(ran(exported, x), model(x))


STACKED = {
    "sum": (lambda self, x: torch.stack([self.conv(x), x.repeat(1, 2, 1, 1), self.conv(x.tanh())]).sum(0), 2),
    "mean": (lambda self, x: torch.mean(torch.stack([self.conv(x), self.conv(x.tanh())], dim=0), dim=0).relu(), 1),
    "one": (lambda self, x: torch.stack([self.conv(x)]).mean(0).relu() + torch.stack([self.conv(x)]).sum(0), 1),
}


@pytest.mark.parametrize("name", STACKED)
def test_values_are_stacked_for_their_sum(tmp_path, name):
    forward, sums = STACKED[name]
    model = Lambda(forward)
    exported = convfuse.export(model, torch.randn(2, 4, 6, 8), tmp_path / "net")
    assert operators(exported).count("add") == sums and exported.error < 1e-5
    x = torch.randn(3, 4, 5, 7)
    with torch.no_grad():
        close(ran(exported, x), model(x))


def test_channels_of_nothing_are_joined(tmp_path):
    model = Lambda(lambda self, x: torch.cat([self.conv(x), torch.zeros(x.shape[0], 0, *x.shape[2:]), x], 1))
    exported = convfuse.export(model, torch.randn(2, 4, 6, 8), tmp_path / "net")
    assert operators(exported) == ["conv2d", "cat"] and exported.error < 1e-6


def around(*widths, mode="constant", value=None):
    return lambda self, x: self.conv(F.pad(x, widths, mode, value)).relu()


PADDED = {
    "to_one_side": (around(0, 1, 0, 1), ["pad", "conv2d", "relu"]),
    "alike": (around(2, 2, 1, 1), ["conv2d", "relu"]),
    "mirrored": (around(2, 1, 0, 1, mode="reflect"), ["pad", "conv2d", "relu"]),
    "repeated": (around(2, 1, 0, 1, mode="replicate"), ["pad", "conv2d", "relu"]),
    "around": (around(2, 1, 0, 1, mode="circular"), ["pad", "conv2d", "relu"]),
    "around_alike": (lambda self, x: F.conv2d(F.pad(x, (1, 1, 1, 1), "circular"), self.conv.weight).relu(), ["conv2d", "relu"]),
    "behind": (lambda self, x: F.pad(self.conv(x), (1, 1, 1, 1)).relu(), ["conv2d", "pad", "relu"]),
    "in_front_of_a_pool": (lambda self, x: F.avg_pool2d(F.pad(self.conv(x), (1, 0, 1, 0)), 2), ["conv2d", "pad", "avg_pool2d"]),
    "twice": (lambda self, x: self.conv(F.pad(F.pad(x, (1, 1, 1, 1)), (0, 2, 0, 0), "reflect")), ["pad", "pad", "conv2d"]),
    "of_a_maximum": (lambda self, x: F.max_pool2d(F.pad(self.conv(x), (0, 1, 0, 1), value=-torch.inf), 3, 2), ["conv2d", "max_pool2d"]),
    "of_a_maximum_alike": (lambda self, x: F.max_pool2d(F.pad(self.conv(x), (1, 1, 1, 1), value=-torch.inf), 3, 2), ["conv2d", "max_pool2d"]),
    "bins": (lambda self, x: F.adaptive_avg_pool2d(self.conv(x), (3, 2)), ["conv2d", "adaptive_avg_pool2d"]),
}  # fmt: skip


@pytest.mark.parametrize("name", PADDED)
def test_inputs_are_padded(tmp_path, name):
    forward, wanted = PADDED[name]
    model = Lambda(forward)
    exported = convfuse.export(model, torch.randn(2, 4, 6, 8), tmp_path / "net")
    assert exported.error < 1e-6 and operators(exported) == wanted
    x = torch.randn(3, 4, 12, 16)
    with torch.no_grad():
        close(ran(exported, x), model(x), 1e-6)


@pytest.mark.parametrize(
    "forward, words",
    [
        (around(1, 1, value=2.0), "padding with other values than 0"),
        (around(1, -1), "padding of negative widths"),
        (lambda self, x: self.conv(F.pad(x, (0, 0, 0, 1, 1, 0))[:, :4]), "padding of the channels and other axes"),
        (around(1, 1, value=-torch.inf), "no maximum of windows behind it"),
        (lambda self, x: F.max_pool2d(F.pad(self.conv(x), (2, 0, 0, 0), value=-torch.inf), 3), "differs from what a maximum of windows has"),
        (lambda self, x: F.max_pool2d(F.pad(self.conv(x), (0, 1, 0, 1), value=-torch.inf), 3, 3), "differs from what a maximum of windows has"),
        (lambda self, x: F.max_pool2d(F.pad(self.conv(x), (1, 2, 1, 2), value=-torch.inf), 2, 2), "differs from what a maximum of windows has"),
        (lambda self, x: F.adaptive_avg_pool2d(self.conv(x), 5), "which does not divide"),
    ],
)  # fmt: skip
def test_other_padding_is_refused(tmp_path, forward, words):
    with pytest.raises(convfuse.ExportError, match=words):
        convfuse.export(Lambda(forward), torch.randn(2, 4, 6, 8), tmp_path / "net")


class Pyramid(nn.Module):
    """A backbone with a feature pyramid, as in detectors, which returns all levels."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU())
        self.body = nn.ModuleList(nn.Sequential(nn.Conv2d(8, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU()) for _ in range(2))
        self.lateral = nn.ModuleList(nn.Conv2d(8, 4, 1) for _ in range(3))
        self.smooth = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(3))

    def forward(self, x):
        levels = [self.stem(x)]
        for block in self.body:
            levels.append(block(levels[-1]))
        merged = [self.lateral[2](levels[2])]
        for level, lateral in zip(levels[1::-1], self.lateral[1::-1]):
            merged.insert(0, lateral(level) + F.interpolate(merged[0], scale_factor=2, mode="nearest"))
        names = [f"p{number}" for number in range(3)]
        return dict(zip(names, (smooth(one) for smooth, one in zip(self.smooth, merged))))


def test_a_pyramid_gives_all_of_its_levels(tmp_path):
    model = trained(Pyramid())
    exported = convfuse.export(model, torch.randn(2, 3, 16, 32), tmp_path / "pyramid")
    assert exported.error < 1e-5
    content = json.loads(exported.network.read_text())
    assert [content["output"], *content["outputs"]] == ["smooth.0", "smooth.1", "smooth.2"]
    x = torch.randn(1, 3, 24, 16)
    with torch.no_grad():
        wanted = model.eval()(x)
    found = ran(exported, x)
    assert len(found) == 3
    for got, want in zip(found, wanted.values()):
        close(got, want)


class Excite(nn.Module):
    """Squeeze and excitation, as in EfficientNet and MobileNetV3."""

    def __init__(self, channels, function):
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)
        self.function = function

    def forward(self, x):
        weights = self.function(self.expand(F.relu(self.reduce(x.mean((2, 3), keepdim=True)))))
        return weights * x if isinstance(self.function, nn.Hardsigmoid) else x * weights


@pytest.mark.parametrize("function", [nn.Sigmoid(), nn.Hardsigmoid()])
def test_channels_are_excited(tmp_path, function):
    block = nn.Sequential(
        nn.Conv2d(3, 12, 1), nn.SiLU(), nn.Conv2d(12, 12, 3, padding=1, groups=12), nn.SiLU(),
        Excite(12, function), nn.Conv2d(12, 6, 1),
    )  # fmt: skip
    exported = convfuse.export(block, torch.randn(2, 3, 8, 8), tmp_path / "net")
    assert exported.error < 1e-5 and "gate" in operators(exported)
    x = torch.randn(3, 3, 5, 6)
    with torch.no_grad():
        close(ran(exported, x), block(x))
