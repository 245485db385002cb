#!/usr/bin/env python3
"""Times whole networks in f16 or bf16: PyTorch eager, torch.compile, and convfuse through both of its doors.

    python bench/networks.py [NAMES] [--dtype f16] [--json F] [--markdown F]
    python bench/networks.py --warm --part 0/8      # fills torch.compile's cache; several processes side by side

The networks are from timm, torchvision, segmentation_models_pytorch, MONAI and diffusers (install the
requested ones with `pip`; networks of missing packages are reported as skipped). Weights are random, and
models are in `eval()` under `torch.inference_mode()`. Each way of running a network is measured in both
memory formats, as calls and as replays of a CUDA graph, and the better format counts. Times are medians of
device events in milliseconds; caches are not flushed. The error is the largest difference from the same
network in f32 without TF32, relative to its largest value.

The exit status is 1 if a network failed, or if an error of convfuse is more than twice that of PyTorch eager.
"""

import argparse
import copy
import gc
import json
import math
import pathlib
import statistics
import sys
import time
import traceback

import torch
from timing import WARM_UPS, milliseconds
from torch import nn

import convfuse

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
WAYS = ("eager", "compile", "fuse", "backend")


def timm(name, size=224, batch=32):
    """A classifier of timm."""

    def make():
        import timm

        return timm.create_model(name, pretrained=False), torch.randn(batch, 3, size, size)

    return make


def torchvision(name, size=224, batch=32):
    """A classifier of torchvision."""

    def make():
        from torchvision import models

        return models.get_model(name, weights=None), torch.randn(batch, 3, size, size)

    return make


def unet_resnet34():
    """segmentation_models_pytorch's U-Net of ResNet-34."""
    import segmentation_models_pytorch as smp

    return smp.Unet("resnet34", encoder_weights=None), torch.randn(8, 3, 256, 256)


def basic_unet():
    """MONAI's BasicUNet for volumes."""
    from monai.networks.nets import BasicUNet

    return BasicUNet(3, 1, 4), torch.randn(1, 1, 96, 96, 96)


class Encoded(nn.Module):
    """The encoder of an autoencoder."""

    def __init__(self, autoencoder):
        super().__init__()
        self.encoder, self.inner = autoencoder.encoder, autoencoder.quant_conv

    def forward(self, images):
        """Encodes images to moments of latents."""
        return self.inner(self.encoder(images))


def vae_encoder():
    """The encoder of Stable Diffusion's autoencoder."""
    from diffusers import AutoencoderKL

    blocks = ["DownEncoderBlock2D"] * 4, ["UpDecoderBlock2D"] * 4
    model = AutoencoderKL(3, 3, *blocks, (128, 256, 512, 512), layers_per_block=2)
    return Encoded(model), torch.randn(1, 3, 512, 512)


NETWORKS = {
    "resnet50": timm("resnet50"),
    "efficientnet_b0": timm("efficientnet_b0"),
    "mobilenetv3_large": timm("mobilenetv3_large_100", batch=64),
    "darknet53": timm("darknet53", size=256, batch=16),
    "vgg16_bn": torchvision("vgg16_bn", batch=16),
    "resnext50": torchvision("resnext50_32x4d"),
    "unet_resnet34": unet_resnet34,
    "basic_unet": basic_unet,
    "vae_encoder": vae_encoder,
}


def channels_last(value):
    """A model or a tensor in channels-last order."""
    if isinstance(value, nn.Module):
        for parameter in value.parameters():
            parameter.data = channels_last(parameter.data)
        return value
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    order = formats.get(value.dim())
    return value if order is None else value.to(memory_format=order)


def captured(call):
    """A CUDA graph of a call, after warm-up on a side stream."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def prepared(way, model, x):
    """The callable that runs a model in one way."""
    torch._dynamo.reset()
    if way == "compile":
        return torch.compile(model)
    if way == "backend":
        return torch.compile(model, backend="convfuse")
    if way == "fuse":
        return convfuse.fuse(copy.deepcopy(model), (x,))
    return model


def measure(way, model, x, exact, seconds):
    """Time of a call and of a graph's replay, error, and seconds until the first result."""
    begun = time.perf_counter()
    run = prepared(way, model, x)
    y = run(x)
    torch.cuda.synchronize()
    row = {"first": time.perf_counter() - begun}
    row["error"] = ((y.double() - exact).abs().max() / exact.abs().max()).item()
    row["call"] = milliseconds(lambda: run(x), seconds)
    graph = captured(lambda: run(x))
    row["graph"] = milliseconds(graph.replay, seconds)
    if way in ("fuse", "backend"):
        row["report"] = str(convfuse.report(run))
    return row


def rows_of(name, options):
    """All measurements of a network, by way and memory format."""
    torch.manual_seed(0)
    model, x = NETWORKS[name]()
    model, x = model.eval().cuda(), x.cuda()
    torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = False
    exact = model(x).double()
    torch.backends.cudnn.benchmark = not options.warm
    dtype = DTYPES[options.dtype]
    model, x = model.to(dtype), x.to(dtype)
    rows = {}
    for order in ("contiguous", "channels_last"):
        if order == "channels_last":
            model, x = channels_last(model), channels_last(x)
        if options.warm:
            torch._dynamo.reset()
            torch.compile(model)(x)
            continue
        for way in options.ways:
            try:
                rows[f"{way} {order}"] = measure(way, model, x, exact, options.seconds)
            except Exception as error:  # noqa: BLE001 - a way that fails is a result
                traceback.print_exc()
                rows[f"{way} {order}"] = {"failure": f"{type(error).__name__}: {error}"[:300]}
            gc.collect()
            torch.cuda.empty_cache()
    return rows


def best(rows, way, figure):
    """The figure of a way in the better of both formats; NaN if it has none."""
    found = [row[figure] for key, row in rows.items() if key.startswith(way + " ") and figure in row]
    return min(found, default=math.nan)


def ours(rows, figure):
    """The better figure of both entry points."""
    return min((best(rows, way, figure) for way in ("fuse", "backend")), key=lambda one: (one != one, one))


def line(name, rows):
    """A network's line of the table."""
    calls = [f"{best(rows, way, 'call'):.2f}" for way in WAYS]
    graphs = [f"{best(rows, way, 'graph'):.2f}" for way in WAYS]
    ratio = best(rows, "compile", "graph") / ours(rows, "graph")
    errors = best(rows, "eager", "error"), best(rows, "fuse", "error")
    cells = [name, *calls, *graphs, f"{ratio:.2f}", *(f"{one:.1e}" for one in errors)]
    return "| " + " | ".join(cells) + " |"


def document(options, table):
    """The record in Markdown."""
    columns = ["network", *WAYS, *(f"{way}, graph" for way in WAYS), "graphs: compile / ours", "error: eager", "error: fuse"]
    ratios = [best(rows, "compile", "graph") / ours(rows, "graph") for rows in table.values()]
    ratios = [one for one in ratios if one == one]
    head = [
        f"# Networks in {options.dtype}",
        "",
        f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, convfuse {convfuse.__version__};",
        f"`python/bench/networks.py {' '.join(table)} --dtype {options.dtype}`. Milliseconds, the better memory format.",
        "",
        "| " + " | ".join(columns) + " |",
        "|---" + "|---:" * (len(columns) - 1) + "|",
    ]
    lines = [line(name, rows) for name, rows in table.items()]
    if ratios:
        slower = sum(one < 1 for one in ratios)
        lines += ["", f"torch.compile's graph beside ours: median {statistics.median(ratios):.2f}, slower on {slower}."]
    return "\n".join(head + lines) + "\n"


def is_wrong(rows):
    """Whether convfuse failed, or is less exact than PyTorch by more than a factor of two."""
    failed = any("failure" in row for row in rows.values())
    return failed or best(rows, "fuse", "error") > 2 * best(rows, "eager", "error")


def parse():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks, of " + ", ".join(NETWORKS))
    parser.add_argument("--dtype", choices=DTYPES, default="f16")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--seconds", type=float, default=0.25, help="for each time that is measured")
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds after which no network is begun")
    parser.add_argument("--warm", action="store_true", help="only fill torch.compile's cache")
    parser.add_argument("--part", default="0/1", help="networks of this process: 2/8 is the third of eight parts")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    options = parser.parse_args()
    for name in options.names:
        if name not in NETWORKS:
            parser.error(f"there is no network {name}; there are {', '.join(NETWORKS)}")
    return options


def main():
    """Measures, prints and writes."""
    options = parse()
    begun, table, is_bad = time.perf_counter(), {}, False
    index, count = map(int, options.part.split("/"))
    for name in (options.names or list(NETWORKS))[index::count]:
        if time.perf_counter() - begun > options.limit:
            print(f"{name}: not begun, the limit of time has passed")
            continue
        try:
            with torch.inference_mode():
                rows = rows_of(name, options)
        except ModuleNotFoundError as error:
            print(f"{name}: skipped, {error.name} is not installed")
            continue
        if options.warm:
            continue
        table[name] = rows
        is_bad |= is_wrong(rows)
        print(line(name, rows), flush=True)
        for key, row in rows.items():
            if "failure" in row:
                print(f"  {key}: {row['failure']}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(table, indent=1))
        if options.markdown:
            options.markdown.write_text(document(options, table))
    if table:
        print(document(options, table))
    sys.exit(is_bad)


if __name__ == "__main__":
    main()
