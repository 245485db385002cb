#!/usr/bin/env python3
"""Networks that others wrote, before and after `fuse`: times, and errors beside float64.

    python bench/models.py unet segresnet dynunet decoder head [--compile] [--channels-last] [--precision auto
    accurate] [--size 96] [--device cuda]

`unet`, `segresnet` and `dynunet` (nnU-Net) are MONAI's, for volumes of four channels; `decoder` is that of
diffusers' `AutoencoderKL`; `head` is torchvision's FCOS head on five levels of features. All weights are
random. Requires `pip install monai diffusers torchvision`, or only the packages of the requested models.

Each way of running a model gives one row: the median milliseconds of calls, and the largest error relative to
the largest value of the model in float64. In `fuse`, PyTorch's own kernels run the rest of a model; in
`torch.compile by convfuse`, inductor compiles it. In f32 both use the math mode of PyTorch's convolutions
(precision "auto"): the fast (tf32-class) mode unless TF32 is disabled. The rows after the times compare the
fused f32 model with its eager mode: in a CUDA graph, on a side stream, from threads, under `torch.compile`
and on a second GPU.
"""

import argparse
import statistics
import threading
import time

import torch
from torch import nn

import convfuse

WIDTHS = (32, 64, 128, 256, 320)


class Decoded(nn.Module):
    """The decoder of an autoencoder."""

    def __init__(self, autoencoder):
        super().__init__()
        self.inner, self.decoder = autoencoder.post_quant_conv, autoencoder.decoder

    def forward(self, latents):
        """Decodes latents to images."""
        return self.decoder(self.inner(latents))


def unet(size):
    """MONAI's residual U-Net, with instance norms and PReLU."""
    from monai.networks.nets import UNet

    model = UNet(3, 4, 3, WIDTHS, (2, 2, 2, 2), num_res_units=2)
    return model, torch.randn(1, 4, size, size, size)


def segresnet(size):
    """MONAI's SegResNet, with group norms."""
    from monai.networks.nets import SegResNet

    return SegResNet(3, 32, 4, 3), torch.randn(1, 4, size, size, size)


def dynunet(size):
    """MONAI's DynUNet, which is nnU-Net's network."""
    from monai.networks.nets import DynUNet

    strides = [1, 2, 2, 2, 2]
    model = DynUNet(3, 4, 3, [3] * 5, strides, strides[1:], WIDTHS)
    return model, torch.randn(1, 4, size, size, size)


def decoder(size):
    """The decoder of Stable Diffusion's autoencoder."""
    from diffusers import AutoencoderKL

    blocks = ["DownEncoderBlock2D"] * 4, ["UpDecoderBlock2D"] * 4
    model = AutoencoderKL(3, 3, *blocks, (128, 256, 512, 512), layers_per_block=2)
    return Decoded(model), torch.randn(1, 4, size // 2, size // 2)


def head(size):
    """torchvision's FCOS head, with group norms."""
    from torchvision.models.detection.fcos import FCOSHead

    levels = [torch.randn(1, 256, size >> k, size >> k) for k in range(5)]
    return FCOSHead(256, 1, 91), levels


MODELS = {make.__name__: make for make in (unet, segresnet, dynunet, decoder, head)}


def each(function, value):
    """Applies a function to a tensor, or to each element of a list or dictionary."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        return {key: each(function, one) for key, one in value.items()}
    return type(value)(each(function, one) for one in value)


def flat(value):
    """The tensors of an output."""
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    return [tensor for part in parts for tensor in flat(part)]


def error(output, exact):
    """The largest error relative to the largest value."""
    pairs = list(zip(flat(output), flat(exact), strict=True))
    worst = max((a.double() - b).abs().max().item() for a, b in pairs)
    # NaN would pass the comparison.
    assert all(a.isfinite().all() for a, _ in pairs), "an output is not finite"
    return worst / max(b.abs().max().item() for _, b in pairs)


class Bench:
    """One model on one device."""

    def __init__(self, name, options):
        self.name, self.options = name, options
        self.cuda = options.device.startswith("cuda")
        self.low = torch.float16 if self.cuda else torch.bfloat16
        torch.manual_seed(0)
        model, x = MODELS[name](options.size)
        self.model = model.eval().to(options.device)
        self.x = each(lambda one: one.to(options.device), x)
        self.exact = each(torch.clone, self.model.double()(each(torch.Tensor.double, self.x)))
        self.model.float()

    def synchronize(self):
        """Waits for the device."""
        if self.cuda:
            torch.cuda.synchronize()

    def milliseconds(self, call):
        """The median time of calls."""
        for _ in range(3):
            call()
        times = []
        until = time.perf_counter() + self.options.seconds
        while len(times) < 5 or (time.perf_counter() < until and len(times) < 50):
            self.synchronize()
            start = time.perf_counter()
            call()
            self.synchronize()
            times.append((time.perf_counter() - start) * 1e3)
        return statistics.median(times)

    def row(self, way, call):
        """Measures one way of running the model, and returns its output."""
        y = call()
        took = self.milliseconds(call)
        print(f"| {self.name} | {way} | {took:.2f} | {error(y, self.exact):.1e} |", flush=True)
        return y

    def same(self, way, y, expected):
        """Prints the difference between a way of running the fused model and its eager mode."""
        print(f"| {self.name} | fused, {way} | | {error(y, self.exact):.1e}, {error(y, expected):.1e} off |", flush=True)

    def fuse(self, x, precision="auto"):
        """Fuses the model for an input of this type."""
        convfuse.fuse(self.model, (x,), precision=precision, cpu=not self.cuda)

    def compiled(self, way, call, backend="inductor"):
        """A row for a call under torch.compile, if requested."""
        if self.options.compile:
            self.row(way, torch.compile(call, backend=backend))
            torch._dynamo.reset()

    def channels_last(self):
        """Rows of PyTorch in channels-last order."""
        model, axes = self.model, flat(self.x)[0].dim() - 2
        order = torch.channels_last if axes == 2 else torch.channels_last_3d
        x = each(lambda one: one.to(memory_format=order), self.x)
        model.to(memory_format=order)
        self.row("f32, channels-last, PyTorch", lambda: model(x))
        self.compiled("f32, channels-last, torch.compile", lambda: model(x))
        model.to(memory_format=torch.contiguous_format)

    def kinds(self):
        """Times: f32, autocast and f16, by PyTorch and fused."""
        kind, model, x = self.options.device.partition(":")[0], self.model, self.x

        def autocast():
            with torch.autocast(kind, self.low):
                return model(x)

        self.row("f32, PyTorch", lambda: model(x))
        self.compiled("f32, torch.compile", lambda: model(x))
        if self.options.channels_last:
            self.channels_last()
        self.row("autocast, PyTorch", autocast)
        self.compiled("autocast, torch.compile", autocast)
        first, *others = self.options.precision
        for precision in others:
            self.fuse(x, precision)
            self.row(f"f32, fused, {precision}", lambda: model(x))
        self.fuse(x, first)
        print("\n".join("    " + line for line in str(convfuse.report(model)).splitlines()), flush=True)
        self.row("f32, fused" if first == "auto" else f"f32, fused, {first}", lambda: model(x))
        self.row("autocast, fused", autocast)
        self.ways()
        with torch.autocast(kind, self.low):
            self.fuse(x, first)
        print("\n".join("    " + line for line in str(convfuse.report(model)).splitlines()), flush=True)
        self.row("autocast, fused under it", autocast)
        self.compiled("autocast, torch.compile by convfuse", autocast, "convfuse")
        convfuse.unfuse(model)
        if not self.cuda:
            return
        model.half()
        half = each(torch.Tensor.half, x)
        self.row("f16, PyTorch", lambda: model(half))
        self.compiled("f16, torch.compile", lambda: model(half))
        self.fuse(half)
        self.row("f16, fused", lambda: model(half))

    def ways(self):
        """Compares further ways of running the fused model with eager mode."""
        model, x = self.model, self.x
        expected = each(lambda one: one.double().clone(), model(x))
        if self.options.compile:
            compiled = torch.compile(model, backend="convfuse")
            y = self.row("f32, torch.compile by convfuse", lambda: compiled(x))
            self.same("torch.compile", y, expected)
            torch._dynamo.reset()
        outputs = [None] * 4

        def work(index):
            with torch.inference_mode():
                if not self.cuda:
                    outputs[index] = model(x)
                    return
                with torch.cuda.stream(torch.cuda.Stream()) as _:
                    outputs[index] = model(x)
                    torch.cuda.current_stream().synchronize()

        self.synchronize()
        threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for y in outputs:
            self.same("threads", y, expected)
        if not self.cuda:
            return
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = model(x)
        stream.synchronize()
        self.same("a side stream", y, expected)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = model(x)
        for one in flat(y):
            one.zero_()
        self.row("f32, fused, in a CUDA graph", lambda: graph.replay() or y)
        self.same("a CUDA graph", y, expected)
        del graph
        if torch.cuda.device_count() > 1:
            model.to("cuda:1")
            y = model(each(lambda one: one.to("cuda:1"), x))
            self.same("a second GPU", each(lambda one: one.to(self.options.device), y), expected)
            model.to(self.options.device)


def main():
    """Runs the requested benchmarks."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("models", nargs="+", choices=sorted(MODELS))
    arguments.add_argument("--size", type=int, default=96)
    default = "cuda" if torch.cuda.is_available() else "cpu"
    arguments.add_argument("--device", default=default)
    arguments.add_argument("--seconds", type=float, default=0.5, help="time for each row")
    arguments.add_argument("--compile", action="store_true", help="run torch.compile, too")
    arguments.add_argument("--channels-last", action="store_true", help="run PyTorch so, too")
    arguments.add_argument(
        "--precision",
        nargs="+",
        choices=["auto", "accurate", "fast"],
        default=["auto"],
        help="of fused models in f32; reports and the rows behind the times are of the first [auto]",
    )
    options = arguments.parse_args()
    where = torch.cuda.get_device_name() if options.device.startswith("cuda") else "CPU"
    print(f"{where}, PyTorch {torch.__version__}\n\n| model | | ms | error |\n|---|---|---:|---:|")
    for name in options.models:
        with torch.inference_mode():
            Bench(name, options).kinds()


if __name__ == "__main__":
    main()
