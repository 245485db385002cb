#!/usr/bin/env python3
"""A U-Net for volumes, as clinics run them, before and after `fuse`.

    python segmentation.py [--size 96] [--device cuda]
"""

import argparse

import torch
from torch import nn

from common import compare


class Stage(nn.Sequential):
    """Convolution, instance norm and leaky ReLU, twice."""

    def __init__(self, channels, filters, stride=1):
        layers = []
        for step in (stride, 1):
            layers += [
                nn.Conv3d(channels, filters, 3, step, 1),
                nn.InstanceNorm3d(filters, affine=True),
                nn.LeakyReLU(0.01, inplace=True),
            ]
            channels = filters
        super().__init__(*layers)


class UNet(nn.Module):
    """An encoder, a decoder, and skips between them."""

    def __init__(self, channels=1, classes=3, filters=(32, 64, 128, 256)):
        super().__init__()
        before = (channels, *filters)
        self.down = nn.ModuleList(
            Stage(before[i], filters[i], 1 if i == 0 else 2) for i in range(len(filters))
        )
        pairs = list(zip(filters[:0:-1], filters[-2::-1]))
        self.up = nn.ModuleList(nn.ConvTranspose3d(a, b, 2, 2) for a, b in pairs)
        self.merge = nn.ModuleList(Stage(2 * b, b) for _, b in pairs)
        self.head = nn.Conv3d(filters[0], classes, 1)

    def forward(self, x):
        """Computes class scores for each voxel."""
        skips = []
        for stage in self.down:
            x = stage(x)
            skips.append(x)
        skips.pop()
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([up(x), skips.pop()], 1))
        return self.head(x)


def main():
    """Compares the network before and after `fuse`."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--size", type=int, default=96)
    default = "cuda" if torch.cuda.is_available() else "cpu"
    arguments.add_argument("--device", default=default)
    options = arguments.parse_args()
    torch.manual_seed(0)
    model = UNet().eval().to(options.device)
    x = torch.randn(2, 1, *[options.size] * 3, device=options.device)
    compare("U-Net for volumes", model, x, "segmentation.svg")


if __name__ == "__main__":
    main()
