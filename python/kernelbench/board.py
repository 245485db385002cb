#!/usr/bin/env python3
"""Runs KernelBench's problems with a convolution, a norm or a pool through convfuse, beside PyTorch.

    python kernelbench/board.py FOLDER [--levels 2] [--only 85 79] [--json F] [--markdown F]
    python kernelbench/board.py FOLDER --warm --part 0/8     # fills torch.compile's cache; several side by side

FOLDER is a clone of <https://github.com/ScalingIntelligence/KernelBench>. A problem is loaded as KernelBench loads it: its
file is executed, and inputs and weights are drawn from seed 42. Models stay in training mode unless `--eval`
is given. A time is the median of device events in milliseconds, with 256 MB written before each call. Outputs
are compared with the model in float64; the error is relative to the largest value there.

The *limit* is the least time that the device needs: the maximum of moving inputs, parameters and outputs
through memory once, the floating-point operations at the tensor cores' rate, and 5 us. The fraction is limit
/ time; the ratio is the better of PyTorch's two times / ours.

The exit status is 1 if a problem failed, or if convfuse's error is above 1e-4 and above four times that of
the less exact of PyTorch's two ways.
"""

import argparse
import copy
import gc
import json
import math
import pathlib
import re
import statistics
import sys
import time
import traceback

import torch
from torch.utils.flop_counter import FlopCounterMode

import convfuse

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "bench"))
from timing import milliseconds  # noqa: E402

SEED = 42
FLUSH_WORDS = 64 << 20
LEAST_SECONDS = 5e-6
# Bytes per second of a copy, and floating-point operations per second in f16, by device.
RATES = {"H200": (4.1e12, 700e12), "H100": (3.0e12, 700e12)}
WANTED = {1: r"nn\.(Conv|BatchNorm|InstanceNorm|GroupNorm|LayerNorm|\w*Pool)", 2: r"nn\.Conv", 3: r"nn\.Conv"}


def problems(options):
    """Level, number, name and text of each requested problem."""
    for level in options.levels:
        folder = options.folder / "KernelBench" / f"level{level}"
        files = {int(path.name.split("_")[0]): path for path in folder.glob("[0-9]*_*.py")}
        if not files:
            sys.exit(f"board: {folder} has no problems")
        for number, path in sorted(files.items()):
            text = path.read_text()
            if re.search(WANTED[level], text) and (not options.only or number in options.only):
                yield level, number, path.stem, text


def load(name, text):
    """Loads a problem's model and inputs on the default device."""
    space = {}
    exec(compile(text, name, "exec"), space)
    torch.manual_seed(SEED)
    inputs = space["get_inputs"]()
    torch.manual_seed(SEED)
    arguments = space["get_init_inputs"]()
    torch.manual_seed(SEED)
    with torch.no_grad():
        model = space["Model"](**arguments) if isinstance(arguments, dict) else space["Model"](*arguments)
    return model, inputs


def tensors(values):
    """The tensors among a model's inputs or outputs."""
    values = values if isinstance(values, (tuple, list)) else [values]
    return [one for one in values if isinstance(one, torch.Tensor)]


def moved(values, *how):
    """Applies `tensor.to(*how)` to all floating-point inputs."""
    return [one.to(*how) if isinstance(one, torch.Tensor) and one.is_floating_point() else one for one in values]


def limit(model, inputs, outputs):
    """The least milliseconds of a problem on this device."""
    name = torch.cuda.get_device_name()
    rates = next((rates for device, rates in RATES.items() if device in name), None)
    if rates is None:
        return math.nan
    meta = copy.deepcopy(model).to("meta")
    with FlopCounterMode(display=False) as counter:
        meta(*[one.to("meta") if isinstance(one, torch.Tensor) else one for one in inputs])
    touched = [*tensors(inputs), *model.parameters(), *outputs]
    size = sum(one.numel() * one.element_size() for one in touched)
    return 1e3 * max(size / rates[0], counter.get_total_flops() / rates[1], LEAST_SECONDS)


class Timer:
    """Measures calls with cold caches."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.flush = torch.empty(FLUSH_WORDS, dtype=torch.int32, device="cuda")

    def milliseconds(self, call):
        """The median time of a call."""
        return milliseconds(call, self.seconds, lambda: self.flush.fill_(1))


def error(outputs, exact):
    """The largest difference from float64, relative to the largest value there."""
    worst = 0.0
    for y, wanted in zip(outputs, exact, strict=True):
        difference = (y.double() - wanted).abs()
        difference[(y == wanted) | (y.isnan() & wanted.isnan())] = 0
        worst = max(worst, (difference.max() / wanted.abs().max().clamp_min(1e-30)).item())
    return worst


def run(way, model, inputs):
    """A callable that runs a copy of a model in one way."""
    torch._dynamo.reset()
    model = copy.deepcopy(model)
    if way == "compile":
        return torch.compile(model)
    if way == "fuse":
        return convfuse.fuse(model, tuple(inputs))
    return model


def row_of(name, text, timer, options):
    """A problem's measurements."""
    model, inputs = load(name, text)
    model, inputs = model.cuda(), moved(inputs, "cuda")
    if options.eval:
        model.eval()
    if options.warm:
        torch.compile(model)(*inputs)
        return {}
    exact = tensors(copy.deepcopy(model).double()(*moved(inputs, torch.float64)))
    torch.cuda.empty_cache()
    row = {"limit": limit(model, inputs, tensors(copy.deepcopy(model)(*inputs)))}
    for way in ("eager", "compile", "fuse"):
        begun = time.perf_counter()
        call = run(way, model, inputs)
        # In each way, batch norms in training mode have the state after one call.
        row[f"{way} error"] = error(tensors(call(*inputs)), exact)
        row[f"{way} first"] = time.perf_counter() - begun
        row[way] = timer.milliseconds(lambda call=call: call(*inputs))
        if way == "fuse":
            row["report"] = str(convfuse.report(call))
        del call
        gc.collect()
        torch.cuda.empty_cache()
    return row


def peer(row):
    """The better of PyTorch's two times."""
    return min(row["eager"], row["compile"])


def is_wrong(row):
    """Whether the error of convfuse exceeds its limit."""
    allowed = max(1e-4, 4 * max(row["eager error"], row["compile error"]))
    return not row["fuse error"] <= allowed


def line(number, name, row):
    """A problem's line of the table."""
    title = name.split("_", 1)[1].replace("_", " ")
    if "failure" in row:
        return f"| {number} | {title} | {row['failure']} |" + " |" * 8
    times = [row["limit"], row["eager"], row["compile"], row["fuse"]]
    ratios = [peer(row) / row["fuse"], row["limit"] / row["fuse"], row["limit"] / peer(row)]
    errors = [max(row["eager error"], row["compile error"]), row["fuse error"]]
    cells = [f"{one:.3f}" for one in times] + [f"{one:.2f}" for one in ratios] + [f"{one:.1e}" for one in errors]
    return f"| {number} | {title} | " + " | ".join(cells) + " |"


def document(options, rows):
    """The record in Markdown."""
    text = [
        "# KernelBench's convolutions",
        "",
        f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, convfuse {convfuse.__version__}; f32, "
        + ("`ieee` products" if options.ieee else "TF32 allowed on both sides")
        + "; `python/kernelbench/board.py`. Milliseconds.",
    ]
    columns = ["", "problem", "limit", "eager", "compile", "fuse", "peer / fuse", "fraction", "peer's", "error: PyTorch", "fuse"]
    for level in options.levels:
        mine = {key: row for key, row in rows.items() if key[0] == level}
        good = [row for row in mine.values() if "failure" not in row]
        if not good:
            continue
        ratios = [peer(row) / row["fuse"] for row in good]
        fractions = [row["limit"] / row["fuse"] for row in good], [row["limit"] / peer(row) for row in good]
        ours, theirs = (statistics.median(one) for one in fractions)
        slower = sum(one < 0.98 for one in ratios)
        text += [
            "",
            f"Level {level}: {len(good)} of {len(mine)} problems ran. The better of eager and torch.compile beside ours: median "
            f"{statistics.median(ratios):.2f}, slower by more than 2 % on {slower}. Fraction of the limit in the median: "
            f"ours {ours:.2f}, the peers' {theirs:.2f}.",
            "",
            "| " + " | ".join(columns) + " |",
            "|---:|---" + "|---:" * (len(columns) - 2) + "|",
        ]
        text += [line(number, name, row) for (_, number, name), row in mine.items()]
    return "\n".join(text) + "\n"


def parse():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--levels", type=int, nargs="+", choices=WANTED, default=[2])
    parser.add_argument("--only", type=int, nargs="*", help="numbers of problems")
    parser.add_argument("--eval", action="store_true", help="models in eval()")
    parser.add_argument("--ieee", action="store_true", help="f32 without TF32 on both sides")
    parser.add_argument("--seconds", type=float, default=0.15, help="for each time that is measured")
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds after which no problem is begun")
    parser.add_argument("--warm", action="store_true", help="only fill torch.compile's cache")
    parser.add_argument("--part", default="0/1", help="problems of this process: 2/8 is the third of eight parts")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    return parser.parse_args()


def main():
    """Measures, prints and writes."""
    options = parse()
    if options.ieee:
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    timer, rows, begun = Timer(options.seconds), {}, time.perf_counter()
    index, count = map(int, options.part.split("/"))
    for level, number, name, text in list(problems(options))[index::count]:
        if time.perf_counter() - begun > options.limit:
            print(f"{name}: not begun, the limit of time has passed")
            continue
        try:
            with torch.no_grad():
                row = row_of(name, text, timer, options)
        except Exception as failure:  # noqa: BLE001 - a problem that fails is a result
            traceback.print_exc()
            row = {"failure": f"{type(failure).__name__}: {str(failure).splitlines()[0]}"[:200]}
        gc.collect()
        torch.cuda.empty_cache()
        if options.warm:
            continue
        rows[level, number, name] = row
        print(line(number, name, row), flush=True)
        if options.json:
            options.json.write_text(json.dumps([{"problem": key, **row} for key, row in rows.items()], indent=1))
        if options.markdown:
            options.markdown.write_text(document(options, rows))
    if options.warm:
        return
    print(document(options, rows))
    sys.exit(any("failure" in row or is_wrong(row) for row in rows.values()))


if __name__ == "__main__":
    main()
