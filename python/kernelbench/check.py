#!/usr/bin/env python3
"""Holds the solutions against PyTorch's layers in float64, with parameters drawn anew and scaled inputs.

    python check.py [--device cuda] [--batch 128]

Exits with 1 if an element is off by more than 1e-4 (absolute and relative together, as `torch.allclose` has
it).
"""

import argparse
import importlib.util
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional as F

ARGUMENTS = {
    85: (8, 64, 3, 16, (64, 1, 1), 4, 0.0, 1.0),
    79: (3, 16, 3, (16, 1, 1, 1), -1.0, 1.0),
}
SHAPES = {85: (8, 128, 128), 79: (3, 16, 32, 32)}


def solution(number):
    """Loads the module of a solution file."""
    path = pathlib.Path(__file__).with_name(f"problem_{number}.py")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ModelNew(*ARGUMENTS[number])


def exact(number, model, x):
    """The problem's result in float64, a few samples at a time."""
    values = {name: value.detach().double() for name, value in model.state_dict().items()}
    outputs = []
    for part in x.double().split(8):
        if number == 85:
            y = F.conv2d(part, values["conv.weight"], values["conv.bias"])
            y = F.group_norm(y, 16, values["group_norm.weight"], values["group_norm.bias"])
            outputs.append(torch.clamp(F.max_pool2d(y * values["scale"], 4), 0.0, 1.0))
        else:
            y = F.conv3d(part, values["conv.weight"], values["conv.bias"])
            y = torch.clamp(F.instance_norm(y * values["multiplier"]), -1.0, 1.0)
            outputs.append((y * values["multiplier"]).amax(1))
    return torch.cat(outputs)


def main():
    """Checks both problems."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = "cuda" if torch.cuda.is_available() else "cpu"
    arguments.add_argument("--device", default=default)
    arguments.add_argument("--batch", type=int, default=128)
    options = arguments.parse_args()
    failed = False
    for number in (85, 79):
        torch.manual_seed(42)
        model = solution(number).to(options.device)
        for draw in range(3):
            if draw:
                for value in model.parameters():
                    nn.init.normal_(value, std=0.5)
            x = torch.rand(options.batch, *SHAPES[number], device=options.device)
            for scale in (1.0, 3.0, 0.01, -1.0):
                with torch.no_grad():
                    y = model(scale * x)
                expected = exact(number, model, scale * x)
                close = torch.allclose(y.double(), expected, rtol=1e-4, atol=1e-4)
                error = (y.double() - expected).abs().max().item()
                failed |= not close
                words = "right" if close else "WRONG"
                print(f"{number}, draw {draw}, inputs times {scale}: {words}, off by at most {error:.1e}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
