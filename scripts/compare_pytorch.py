#!/usr/bin/env python3
"""Compares convfuse with PyTorch on one GPU, in one go.

    python3 scripts/compare_pytorch.py --convfuse target/release/convfuse --markdown comparison.md

`convfuse bench` runs first and leaves its figures, parameters and outputs behind. PyTorch, eager and
compiled, then gets the same parameters and the same inputs (made by the same generator), is timed by the same
rules (device events, 256 MiB written before each run, the median), and everything, convfuse's outputs too, is
compared with PyTorch in float64.

Needs PyTorch with CUDA, Triton for torch.compile, safetensors; no Rust.
"""

import argparse
import contextlib
import dataclasses
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import plot_bench

FLUSH_BYTES = 256 << 20
WARM_UPS = 5
# Elements of an input that are made at a time.
FILL_ELEMENTS = 1 << 26
# Samples that the float64 reference computes at a time.
REFERENCE_SAMPLES = 8
# `rtol` and `atol` of torch.allclose against float64, by the math mode of the convolution.
TOLERANCES = {"accurate": 1e-4, "fast": 5e-3, "half": 1e-2}
# A bf16 has three bits less than an f16.
BF16_ROUNDING = 8


# Inputs ------------------------------------------------------------------------------------------


def shifted(z, bits):
    """A right shift of an int64 tensor that brings in zeros, as of unsigned numbers."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def signed(number):
    """The int64 with the low 64 bits of `number`."""
    number &= 2**64 - 1
    return number - 2**64 if number >= 2**63 else number


def fill(seed, shape, device="cuda"):
    """The f32 tensor that `convfuse::data::fill` makes: uniform in [0, 1), 24 bits each.

    Element `i` is SplitMix64's output (Steele, Lea and Flood, 2014) for state `i` plus the seed in the upper
    half, for seeds of 32 bits. Records have no others; of those in older ones the lower 32 counted.
    """
    import torch

    values = torch.empty(math.prod(shape), dtype=torch.float32, device=device)
    for start in range(0, values.numel(), FILL_ELEMENTS):
        part = values[start : start + FILL_ELEMENTS]
        z = torch.arange(start, start + part.numel(), dtype=torch.int64, device=device)
        z += signed((seed << 32) + 0x9E3779B97F4A7C15)
        z = (z ^ shifted(z, 30)) * signed(0xBF58476D1CE4E5B9)
        z = (z ^ shifted(z, 27)) * signed(0x94D049BB133111EB)
        part.copy_(shifted(z ^ shifted(z, 31), 40)).div_(1 << 24)
    return values.reshape(shape)


# The pipelines -----------------------------------------------------------------------------------


def convolution(attributes):
    """The keyword arguments of a convolution."""
    return {name: attributes[name] for name in ("stride", "padding", "dilation", "groups")}


def pipeline_85(x, p, attributes):
    """Conv2d, GroupNorm, scale, MaxPool2d, clamp."""
    from torch.nn import functional as F

    y = F.conv2d(x, p["conv.weight"], p.get("conv.bias"), **convolution(attributes))
    norm = (p.get("group_norm.weight"), p.get("group_norm.bias"))
    y = F.group_norm(y, attributes["num_groups"], *norm, attributes["eps"])
    window = ("max_pool", "max_pool_stride", "max_pool_padding", "max_pool_dilation", "ceil_mode")
    y = F.max_pool2d(y * p["scale"], *(attributes[name] for name in window))
    return y.clamp(*attributes["clamp"])


def pipeline_79(x, p, attributes):
    """Conv3d, multiply, InstanceNorm3d, clamp, multiply, maximum over channels."""
    from torch.nn import functional as F

    y = F.conv3d(x, p["conv.weight"], p.get("conv.bias"), **convolution(attributes)) * p["multiplier"]
    norm = (p.get("instance_norm.weight"), p.get("instance_norm.bias"))
    y = F.instance_norm(y, weight=norm[0], bias=norm[1], eps=attributes["eps"])
    return (y.clamp(*attributes["clamp"]) * p["multiplier"]).max(dim=1).values


PIPELINES = {85: pipeline_85, 79: pipeline_79}


# Ways to run PyTorch -----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Variant:
    """A way to run PyTorch."""

    name: str
    math_mode: str
    dtype: str = "f32"
    tf32: bool = False
    channels_last: bool = False
    cudnn_benchmark: bool = False
    compile_mode: str | None = None


def variants(max_autotune):
    """PyTorch's usual settings; `tf32` allows the factors of f32 products to be rounded."""
    compiled = {"compile_mode": "default"}
    chosen = [
        Variant("eager f32", "accurate"),
        Variant("eager f32, cudnn.benchmark", "accurate", cudnn_benchmark=True),
        Variant("eager f32, tf32 on", "fast", tf32=True),
        Variant("eager f32, tf32 on, channels-last", "fast", tf32=True, channels_last=True),
        Variant("eager f16", "half", dtype="f16"),
        Variant("compile f32", "accurate", **compiled),
        Variant("compile f32, channels-last", "accurate", channels_last=True, **compiled),
        Variant("compile f32, tf32 on", "fast", tf32=True, **compiled),
        Variant("compile f32, tf32 on, channels-last", "fast", tf32=True, channels_last=True, **compiled),
        Variant("compile f16", "half", dtype="f16", **compiled),
    ]
    if max_autotune:
        tuned = {"compile_mode": "max-autotune"}
        chosen += [
            Variant("compile f32, max-autotune", "accurate", **tuned),
            Variant("compile f32, tf32 on, max-autotune", "fast", tf32=True, **tuned),
            Variant("compile f16, max-autotune", "half", dtype="f16", **tuned),
        ]
    return chosen


@contextlib.contextmanager
def settings(variant):
    """PyTorch's global switches as the variant wants them."""
    import torch

    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    before = (cudnn.allow_tf32, matmul.allow_tf32, cudnn.benchmark)
    cudnn.allow_tf32 = matmul.allow_tf32 = variant.tf32
    cudnn.benchmark = variant.cudnn_benchmark
    try:
        yield
    finally:
        cudnn.allow_tf32, matmul.allow_tf32, cudnn.benchmark = before


def arrange(tensor, variant):
    """The tensor in the variant's element type and memory format."""
    import torch

    tensor = tensor.to(element_type(variant.dtype))
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if variant.channels_last and tensor.dim() in formats:
        tensor = tensor.contiguous(memory_format=formats[tensor.dim()])
    return tensor


def element_type(name):
    """PyTorch's element type of convfuse's name."""
    import torch

    return {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[name]


# Measuring ---------------------------------------------------------------------------------------


@dataclasses.dataclass
class Row:
    """A line of the table."""

    name: str
    math_mode: str
    seconds: float | None = None
    quartiles: tuple[float, float] | None = None
    extra_bytes: int | None = None
    largest_error: float | None = None
    agrees: bool | None = False
    """Whether the output is right; `None` where there was nothing to compare it with."""
    first_seconds: float | None = None
    """What the first run took, with compilation and the choice of kernels."""
    complaint: str | None = None
    is_ours: bool = False


def quartiles(times):
    """Lower and upper quartile, on straight lines between neighbours."""
    if len(times) < 2:
        return (times[0], times[0])
    lower, _, upper = statistics.quantiles(times, n=4, method="inclusive")
    return (lower, upper)


def time_runs(run, repeats):
    """Seconds of each run, by device events, the cache flushed before each."""
    import torch

    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    for _ in range(WARM_UPS):
        flush.zero_()
        run()
    events = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush.zero_()
        start.record()
        run()
        end.record()
        events.append((start, end))
    torch.cuda.synchronize()
    return [start.elapsed_time(end) * 1e-3 for start, end in events]


def float64_reference(pipeline, x, parameters, attributes):
    """PyTorch's output in float64, a few samples at a time."""
    import torch

    wide = {name: tensor.double() for name, tensor in parameters.items()}
    chunks = x.split(REFERENCE_SAMPLES)
    return torch.cat([pipeline(chunk.double(), wide, attributes) for chunk in chunks])


def compare(row, output, expected, dtype="f32"):
    """Notes in `row` how well an output agrees with the float64 reference of its inputs, if there is one."""
    if expected is None:
        row.agrees = None
        return
    output = output.double()
    tolerance = TOLERANCES[row.math_mode] * (BF16_ROUNDING if dtype == "bf16" else 1)
    row.largest_error = (output - expected).abs().max().item()
    row.agrees = bool(
        ((output - expected).abs() <= tolerance + tolerance * expected.abs()).all().item()
    )


def measure(variant, problem, x, parameters, expected, repeats):
    """Runs, checks and times one variant."""
    import torch

    row = Row(f"PyTorch {variant.name}", variant.math_mode)
    x = arrange(x, variant)
    parameters = {name: arrange(tensor, variant) for name, tensor in parameters.items()}
    attributes = problem["attributes"]
    pipeline = PIPELINES[problem["number"]]
    with settings(variant):
        if variant.compile_mode is not None:
            torch._dynamo.reset()
            mode = None if variant.compile_mode == "default" else variant.compile_mode
            pipeline = torch.compile(pipeline, mode=mode, dynamic=False)
        check_and_time(row, lambda: pipeline(x, parameters, attributes), expected, variant.dtype, repeats)
    return row


def check_and_time(row, run, expected, dtype, repeats):
    """Notes in `row` how right a run is, how much memory it takes and how long; or what it fails with."""
    import torch

    try:
        start = time.monotonic()
        output = run()
        torch.cuda.synchronize()
        row.first_seconds = time.monotonic() - start
        output_bytes = output.numel() * output.element_size()
        compare(row, output, expected, dtype)
        del output
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        torch.cuda.synchronize()
        row.extra_bytes = max(0, torch.cuda.max_memory_allocated() - before - output_bytes)
        times = time_runs(run, repeats)
    except Exception as error:  # one variant that fails must not lose the others
        row.complaint = complaint(error)
        return
    row.seconds, row.quartiles = statistics.median(times), quartiles(times)


def complaint(error):
    """An exception in a line."""
    text = f"{type(error).__name__}: {error}"
    return text.splitlines()[0]


def our_rows(problem, expected):
    """convfuse's own results, its outputs compared like all others."""
    import safetensors.torch

    rows = []
    for result in problem["results"]:
        row = Row(f"convfuse {result['strategy']}", result["math_mode"], is_ours=True)
        row.extra_bytes, row.complaint = result["extra_bytes"], result["complaint"]
        if result["time"] is not None:
            row.seconds = result["time"]["median"]
            row.quartiles = (result["time"]["lower_quartile"], result["time"]["upper_quartile"])
        if result["output"] is not None:
            output = safetensors.torch.load_file(result["output"], device="cuda")["output"]
            compare(row, output, expected, problem["dtype"])
        rows.append(row)
    return rows


# The table ---------------------------------------------------------------------------------------


def best(rows, math_mode=None):
    """The shortest time among rows that agree, of a math mode if given."""
    fitting = (row for row in rows if row.agrees and math_mode in (None, row.math_mode))
    return min((row.seconds for row in fitting if row.seconds), default=None)


def spread(values):
    """Ratios in a few words."""
    mean = math.exp(sum(math.log(value) for value in values) / len(values))
    slower = sum(value < 1 for value in values)
    return (
        f"median {statistics.median(values):.2f}x, geometric mean {mean:.2f}x, from {min(values):.2f}x to {max(values):.2f}x; "
        f"slower on {slower} of {len(values)}"
    )


def ratio(time, of):
    """How many times faster `of` is than `time`."""
    return f"{time / of:.2f}x" if time and of else "-"


def table(rows):
    """Markdown. Ratios are speeds: above 1 means faster than PyTorch."""
    others = [row for row in rows if not row.is_ours]
    eager = next((row.seconds for row in others if row.name == "PyTorch eager f32"), None)
    compiled = {p: best([r for r in others if "compile" in r.name], p) for p in TOLERANCES}
    lines = [
        "| | math mode | median | quartiles | vs eager f32 | vs best compile in this math mode | extra memory | largest error |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        if row.seconds is None:
            reason = (row.complaint or "no time").replace("|", "\\|")
            lines.append(f"| {row.name} | {row.math_mode} | {reason} | | | | | |")
            continue
        error = "-" if row.largest_error is None else f"{row.largest_error:.1e}"
        error += "" if row.agrees else " **WRONG**"
        name = f"**{row.name}**" if row.is_ours else row.name
        low, high = (f"{bound * 1e6:.1f}" for bound in row.quartiles)
        lines.append(
            f"| {name} | {row.math_mode} | {row.seconds * 1e6:.1f} us | {low} to {high} "
            f"| {ratio(eager, row.seconds)} | {ratio(compiled[row.math_mode], row.seconds)} "
            f"| {row.extra_bytes / 1e6:.1f} MB | {error} |"
        )
    return "\n".join(lines)


def pytorch_versions():
    """PyTorch's version, and those of what it is built on."""
    import torch

    return f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"


def document(report, tables, took):
    """The whole comparison as Markdown."""
    device, ceilings = report["device"], report["ceilings"]
    lines = [
        "# convfuse and PyTorch",
        "",
        f"{report['date']}, {device['name']}, convfuse {report['convfuse']} (PTX: {device['ptx_origin']}), "
        f"{pytorch_versions()}. "
        f"Made in {took:.0f} s by",
        "",
        f"    {' '.join(sys.argv)}",
        "",
        f"Medians by {report['clock']} with {report['flush_bytes'] >> 20} MiB (PyTorch: {FLUSH_BYTES >> 20} MiB) written before each run. "
        "Same parameters, same inputs. Ratios are speeds; extra memory is that beyond input, output and parameters; errors are "
        "against PyTorch in float64 on the same rounded inputs.",
    ]
    if ceilings is not None:
        wgmma = ceilings["wgmma_f16_flop_per_s"]
        wgmma = "" if wgmma is None else f", wgmma f16 {wgmma * 1e-12:.0f}"
        lines += [
            "",
            f"Ceilings of the device, measured: copy {ceilings['copy_bytes_per_s'] * 1e-12:.2f} TB/s; "
            f"f32 FMA {ceilings['fma_flop_per_s'] * 1e-12:.1f}, "
            f"mma.sync tf32 {ceilings['mma_tf32_flop_per_s'] * 1e-12:.0f}, "
            f"f16 {ceilings['mma_f16_flop_per_s'] * 1e-12:.0f}{wgmma} TFLOP/s.",
        ]
    for title, text in tables:
        lines += ["", f"## {title}", "", text]
    return "\n".join(lines) + "\n"


# The whole ---------------------------------------------------------------------------------------


def bench(arguments, folder):
    """Runs `convfuse bench` and returns its report."""
    path = pathlib.Path(folder) / "convfuse.json"
    command = [arguments.convfuse, "bench", "--device", "gpu", "--model", arguments.model]
    command += ["--dtype", "f32,f16", "--json", str(path), "--save", str(folder)]
    command += ["--repeats", str(arguments.repeats), "--seed", str(arguments.seed)]
    for shape in arguments.shape:
        command += ["--shape", shape]
    # Its exit status says whether all was right; the report says what was not.
    status = subprocess.run(command, check=False).returncode
    if not path.exists():
        raise SystemExit(f"{' '.join(command)} failed with status {status} and left no report")
    return json.loads(path.read_text())


def compare_problems(problems, repeats, chosen):
    """The rows for one input shape, which `problems` take in several element types."""
    import safetensors.torch
    import torch

    rows = []
    for problem in sorted(problems, key=lambda problem: problem["dtype"] != "f32"):
        dtype = problem["dtype"]
        x = fill(problem["input_seed"], problem["input"])
        x = x.to(element_type(dtype)).float()
        parameters = safetensors.torch.load_file(problem["parameters"], device="cuda")
        pipeline = PIPELINES[problem["number"]]
        expected = float64_reference(pipeline, x, parameters, problem["attributes"])
        rows += our_rows(problem, expected)
        for variant in chosen:
            if variant.dtype == dtype:
                print(f"  {variant.name}", file=sys.stderr)
                rows.append(measure(variant, problem, x, parameters, expected, repeats))
    return sorted(rows, key=lambda row: (not row.is_ours, "compile" in row.name))


def parse(arguments=None):
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--convfuse", required=True, help="the convfuse executable")
    parser.add_argument("--model", choices=["85", "79", "both"], default="both")
    parser.add_argument("--shape", action="append", default=[], help="see `convfuse bench --help`")
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-autotune", action="store_true", help="its variants too; minutes more")
    parser.add_argument("--variants", default="", help="only those of PyTorch whose name this regular expression finds")
    parser.add_argument("--markdown", help="write the comparison to this file, too")
    parser.add_argument("--json", help="write convfuse's figures and all rows to this file")
    parser.add_argument("--svg", help="draw the chart of convfuse's times to this file (needs matplotlib)")
    return parser.parse_args(arguments)


def main():
    """Compares, prints, and fails if any output of convfuse is off."""
    arguments = parse()
    started = time.monotonic()
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("PyTorch sees no GPU")
    chosen = [
        variant
        for variant in variants(arguments.max_autotune)
        if re.search(arguments.variants, variant.name)
    ]
    tables, everything = [], []
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        report = bench(arguments, folder)
        inputs = {}
        # One that failed has an error in place of results.
        failed = [problem for problem in report["problems"] if not problem["results"]]
        for problem in failed:
            print(f"{problem['name']} {problem['dtype']}: {problem['error']}", file=sys.stderr)
        for problem in (problem for problem in report["problems"] if problem["results"]):
            inputs.setdefault((problem["number"], tuple(problem["input"])), []).append(problem)
        for (number, shape), problems in inputs.items():
            title = f"Problem {number}, input {list(shape)}"
            print(title, file=sys.stderr)
            rows = compare_problems(problems, arguments.repeats, chosen)
            tables.append((title, table(rows)))
            everything.append({"title": title, "rows": [dataclasses.asdict(row) for row in rows]})
    text = document(report, tables, time.monotonic() - started)
    print(text)
    if arguments.markdown:
        pathlib.Path(arguments.markdown).write_text(text)
    if arguments.svg:
        plot_bench.plot(report, arguments.svg)
    if arguments.json:
        both = {"convfuse": report, "comparison": everything}
        pathlib.Path(arguments.json).write_text(json.dumps(both, indent=2) + "\n")
    ours = [row for part in everything for row in part["rows"] if row["is_ours"]]
    return 0 if ours and not failed and all(row["agrees"] and not row["complaint"] for row in ours) else 1


if __name__ == "__main__":
    sys.exit(main())
