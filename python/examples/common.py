"""Shared code of the examples: times before and after `fuse`, as a table and a chart."""

from __future__ import annotations

import statistics
import time

import torch

import convfuse


def milliseconds(model, x, rounds=20):
    """The median time of a call, on the device or the CPU."""
    with torch.inference_mode():
        for _ in range(3):
            model(x)
        times = []
        for _ in range(rounds):
            if x.is_cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
            model(x)
            if x.is_cuda:
                torch.cuda.synchronize()
            times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def compare(name, model, x, picture):
    """Prints a table of times and errors of a model before and after `fuse`, and draws the times if
    matplotlib is installed."""
    with torch.inference_mode():
        few = x[:1]
        exact = model.double()(few.double())
        model.float()
        kinds = {"f32": (model, x), "f16": (None, x.half())}
        rows = []
        for kind, (_, inputs) in kinds.items():
            model.to(inputs.dtype)
            for fused in (False, True):
                if fused:
                    convfuse.fuse(model, inputs, cpu=not x.is_cuda)
                error = (model(inputs[:1]).double() - exact).abs().max().item()
                took = milliseconds(model, inputs)
                way = "fused" if fused else "PyTorch"
                rows.append((kind, way, took, error))
                print(f"| {name}, {kind} | {way} | {took:.2f} ms | {error:.1e} |", flush=True)
            if kind == "f32":
                print(convfuse.report(model))
            convfuse.unfuse(model)
    draw(name, rows, picture)


def draw(name, rows, picture):
    """Draws the times as bars."""
    try:
        from matplotlib import pyplot
    except ImportError:
        print("install matplotlib for the picture")
        return
    figure, axes = pyplot.subplots(figsize=(6, 2.5))
    labels = [f"{kind}, {way}" for kind, way, _, _ in rows]
    colours = ["tab:grey" if way == "PyTorch" else "tab:green" for _, way, _, _ in rows]
    axes.barh(labels, [took for _, _, took, _ in rows], color=colours)
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds")
    axes.set_title(name)
    figure.tight_layout()
    figure.savefig(picture)
    print(f"written: {picture}")
