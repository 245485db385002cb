#!/usr/bin/env python3
"""Compares with PyTorch what a program waits for beside the kernels: the start, and the copies of its arrays.

    python3 scripts/host_pytorch.py --convfuse target/release/convfuse --markdown host.md

*Start*: from the start of a process to the first result of problem 85 or 79 at full size in host memory, in processes that
find nothing that an earlier one left: the driver keeps no machine code, convfuse and torch.compile have empty
folders. Then once more with what the first run left. *Arrays*: from an array of the host to an array of the
host, at full size in f32, beside the copies alone. Medians.

Needs PyTorch with CUDA, Triton for torch.compile; no Rust.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

SHAPES = {85: (128, 8, 128, 128), 79: (128, 3, 16, 32, 32)}


def modules():
    """Both problems as KernelBench states them: problem number to a function of a tensor, on the GPU."""
    import torch
    from torch import nn

    conv_85, norm = nn.Conv2d(8, 64, 3).cuda(), nn.GroupNorm(16, 64).cuda()
    scale = torch.ones(64, 1, 1, device="cuda")
    conv_79, multiplier = nn.Conv3d(3, 16, 3).cuda(), torch.randn(16, 1, 1, 1, device="cuda")

    def problem_85(x):
        return nn.functional.max_pool2d(norm(conv_85(x)) * scale, 4).clamp(0.0, 1.0)

    def problem_79(x):
        y = nn.functional.instance_norm(conv_79(x) * multiplier)
        return (y.clamp(-1.0, 1.0) * multiplier).max(dim=1).values

    return {85: problem_85, 79: problem_79}


def first_result(problem, compiled, started):
    """Prints the seconds from `started` (of `time.time()`) to PyTorch's first result."""
    import torch

    model = modules()[problem]
    model = torch.compile(model) if compiled else model
    with torch.no_grad():
        model(torch.zeros(SHAPES[problem], device="cuda")).cpu()
    print(time.time() - started)


def starts(arguments):
    """Rows of the start: name, nothing kept, something kept; seconds, for each problem."""
    rows = {}

    def note(name, problem, nothing, something):
        rows.setdefault(name, {})[problem] = (statistics.median(nothing), statistics.median(something))

    def repeated(run):
        nothing, something = [], []
        for _ in range(arguments.repeats):
            with tempfile.TemporaryDirectory() as folder:
                caches = {
                    "CUDA_CACHE_DISABLE": "1",
                    "CONVFUSE_CACHE": f"{folder}/convfuse",
                    "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
                    "TRITON_CACHE_DIR": f"{folder}/triton",
                }
                environment = dict(os.environ, **caches)
                nothing.append(run(environment))
                something.append(run(environment))
        return nothing, something

    def ours(environment):
        # What it says is from its own start; a process takes a millisecond to get there.
        command = [arguments.convfuse, "info", "--json"]
        output = subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout
        results = json.loads(output)["gpus"][0]["first_results"]
        return {int(result["problem"]): result["after"] for result in results}

    nothing, something = repeated(ours)
    for problem in SHAPES:
        note("convfuse", problem, [r[problem] for r in nothing], [r[problem] for r in something])
    for compiled in (False, True):
        for problem in SHAPES:

            def theirs(environment, problem=problem, compiled=compiled):
                stage = ["--first-result", str(problem)] + ["--compiled"] * compiled
                command = [sys.executable, __file__, *stage, "--started", str(time.time())]
                return float(subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout)

            note("torch.compile" if compiled else "PyTorch eager", problem, *repeated(theirs))
    return rows


def arrays(arguments):
    """Rows of arrays: problem to name to milliseconds."""
    import torch

    rows = {}
    for problem, shape in SHAPES.items():
        command = [arguments.convfuse, "arrays", "--shape", ",".join(map(str, shape))]
        output = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        copies = re.search(r"one after the other: ([\d.]+) ms", output).group(1)
        named = dict(re.findall(r"^ *1 +(forward_\w+) +([\d.]+)", output, re.MULTILINE))
        rows[problem] = {
            "copies alone, pinned, one after the other": float(copies),
            "convfuse, `forward_array_into`": float(named["forward_array_into"]),
            "convfuse, `forward_pinned`": float(named["forward_pinned"]),
        }
        model = modules()[problem]
        x = torch.rand(shape)
        with torch.no_grad():
            y = model(x.cuda()).cpu()
        for name, source, target in [
            ("PyTorch eager, `y.copy_(model(x.cuda()))`", x, y),
            ("PyTorch eager, the same with pinned tensors", x.pin_memory(), y.pin_memory()),
        ]:
            times = []
            for _ in range(arguments.array_repeats):
                start = time.perf_counter()
                with torch.no_grad():
                    target.copy_(model(source.to("cuda", non_blocking=True)), non_blocking=True)
                torch.cuda.synchronize()
                times.append(1e3 * (time.perf_counter() - start))
            rows[problem][name] = statistics.median(times)
    return rows


def report(started, copied):
    """Both tables."""
    import torch

    lines = [f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, f32, {time.strftime('%Y-%m-%d')}", ""]
    lines += [
        "| first result after the start of a process, s | 85 | 79 | 85, something kept | 79, something kept |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, problems in started.items():
        cells = [f"{problems[problem][kept]:.2f}" for kept in (0, 1) for problem in SHAPES]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", "| from array to array, ms | 85 | 79 |", "|---|---:|---:|"]
    for name in copied[85]:
        lines.append(f"| {name} | {copied[85][name]:.2f} | {copied[79][name]:.2f} |")
    return "\n".join(lines) + "\n"


def parse():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--convfuse", help="the convfuse executable")
    parser.add_argument("--repeats", type=int, default=3, help="processes of each kind")
    parser.add_argument("--array-repeats", type=int, default=30)
    parser.add_argument("--markdown", help="write the tables to this file, too")
    # For the processes that this script starts.
    parser.add_argument("--first-result", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--compiled", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--started", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.convfuse and not arguments.first_result:
        parser.error("--convfuse is needed")
    return arguments


def main():
    """Measures and prints, or is one of the processes that are measured."""
    arguments = parse()
    if arguments.first_result:
        first_result(arguments.first_result, arguments.compiled, arguments.started)
        return
    tables = report(starts(arguments), arrays(arguments))
    print(tables)
    if arguments.markdown:
        pathlib.Path(arguments.markdown).write_text(tables, encoding="utf-8")


if __name__ == "__main__":
    main()
