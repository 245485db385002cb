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
    """Two convolutions of a U-Net, each with a norm and a rectifier."""
    conv = (nn.Conv2d, nn.Conv3d)[dimensions - 2]
    norm = (nn.BatchNorm2d, nn.BatchNorm3d)[dimensions - 2]
    return nn.Sequential(
        conv(channels, width, 3, padding=1, bias=False), norm(width), nn.ReLU(inplace=True),
        conv(width, width, 3, padding=1, bias=False), norm(width), nn.ReLU(inplace=True),
    )  # fmt: skip


class UNet(nn.Module):
    """An encoder and a decoder with concatenated skips, up by transposed convolutions, or by upsampling."""

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
    """Parts of channels, joined in several ways."""

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


class Pyramid(nn.Module):
    """A backbone with a pyramid of features, as detectors have it, which gives all of its levels."""

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
    """Squeeze and excitation, as EfficientNet and MobileNetV3 have it."""

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
