#!/usr/bin/env python3
"""The decoder of a latent diffusion model, before and after `fuse`.

    python decoder.py [--size 64] [--device cuda]
"""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

from common import compare


class Block(nn.Module):
    """Norm, activation and convolution, twice, with the input added to the result."""

    def __init__(self, channels, filters):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(32, channels), nn.Conv2d(channels, filters, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(32, filters), nn.Conv2d(filters, filters, 3, padding=1)
        self.shortcut = nn.Identity() if channels == filters else nn.Conv2d(channels, filters, 1)

    def forward(self, x):
        """Computes the block's output."""
        y = self.conv1(F.silu(self.norm1(x)))
        return self.shortcut(x) + self.conv2(F.silu(self.norm2(y)))


class Decoder(nn.Module):
    """Decodes latents of four channels to images of eight times the size."""

    def __init__(self, filters=(512, 512, 256, 128)):
        super().__init__()
        self.first = nn.Conv2d(4, filters[0], 3, padding=1)
        before = (filters[0], *filters)
        self.levels = nn.ModuleList(
            nn.Sequential(Block(before[i], filters[i]), Block(filters[i], filters[i]))
            for i in range(len(filters))
        )
        self.grown = nn.ModuleList(nn.Conv2d(f, f, 3, padding=1) for f in filters[:-1])
        self.norm, self.last = nn.GroupNorm(32, filters[-1]), nn.Conv2d(filters[-1], 3, 3, padding=1)

    def forward(self, latents):
        """Decodes latents to images."""
        x = self.first(latents)
        for index, level in enumerate(self.levels):
            x = level(x)
            if index < len(self.grown):
                x = self.grown[index](F.interpolate(x, scale_factor=2.0))
        return self.last(F.silu(self.norm(x)))


def main():
    """Compares the decoder before and after `fuse`."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--size", type=int, default=64)
    default = "cuda" if torch.cuda.is_available() else "cpu"
    arguments.add_argument("--device", default=default)
    options = arguments.parse_args()
    torch.manual_seed(0)
    model = Decoder().eval().to(options.device)
    x = torch.randn(2, 4, options.size, options.size, device=options.device)
    compare("decoder of a diffusion model", model, x, "decoder.svg")


if __name__ == "__main__":
    main()
