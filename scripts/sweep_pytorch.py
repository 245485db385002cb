#!/usr/bin/env python3
"""Compares convfuse with PyTorch on many problems, in minutes.

    python3 scripts/sweep_pytorch.py --convfuse target/release/convfuse --markdown sweep.md --json sweep.json

The problems are those of sweep_problems.json. Three stages, each guarded by a timeout for every problem:

1. `convfuse bench --problems` times its strategies and leaves parameters and outputs behind;
2. worker processes compile PyTorch's variants side by side, which fills the cache of torch.compile;
3. one process alone on the device times PyTorch, and compares all outputs with PyTorch in float64.

Inputs, parameters, timing and comparison are those of compare_pytorch.py. Results are printed and written as
they come.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import compare_pytorch as common
import stages
from compare_pytorch import Row

# PyTorch's ways: those of the comparison in its own memory format, by name.
EAGER = "eager f32"
COMPILED = {"accurate": "compile f32", "fast": "compile f32, tf32 on", "half": "compile f16"}
DTYPES = ("f32", "f16")


def chosen_variants(names):
    """PyTorch's variants of these names."""
    return [variant for variant in common.variants(False) if variant.name in names]


# Stage 1: convfuse -------------------------------------------------------------------------------


class Convfuse:
    """Runs of `convfuse bench`, and what they reported."""

    def __init__(self, arguments, folder, problems):
        self.arguments, self.folder, self.problems = arguments, folder, problems
        self.starts = 0
        self.log = open(folder / "convfuse.log", "w")

    def start(self, titles):
        """Starts a run of these problems."""
        self.starts += 1
        wanted = [problem for problem in self.problems if problem["title"] in titles]
        listed = self.folder / f"problems-{self.starts}.json"
        listed.write_text(json.dumps(wanted))
        command = [self.arguments.convfuse, "bench", "--device", "gpu", "--no-reference"]
        command += ["--problems", str(listed), "--dtype", ",".join(DTYPES)]
        command += ["--strategy", "fused,unfused-direct", "--repeats", str(self.arguments.repeats)]
        command += ["--json", str(self.path(self.starts))]
        command += ["--save", str(self.folder / f"outputs-{self.starts}")]
        command += ["--no-ceilings"] if self.starts > 1 else []
        return subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=self.log, start_new_session=True
        )

    def path(self, start):
        """The report of a run."""
        return self.folder / f"convfuse-{start}.json"

    def report(self, start):
        """A run's report, `None` while there is none that is whole."""
        try:
            return json.loads(self.path(start).read_text())
        except (OSError, ValueError):
            return None

    def finished(self):
        """The problems that are done in their last type."""
        return {problem["title"] for problem in self.done() if problem["dtype"] == DTYPES[-1]}

    def done(self):
        """The problems of all reports that have results; one that failed has an error in their place."""
        problems = (problem for report in self.reports() for problem in report["problems"])
        return [problem for problem in problems if problem["results"]]

    def reports(self):
        """All reports that there are."""
        every = (self.report(start) for start in range(1, self.starts + 1))
        return [report for report in every if report]


# Stage 2: compilation ----------------------------------------------------------------------------


def compile_all(arguments, folder, deadline):
    """Compiles every variant of every problem in `workers` processes, each of which takes every `workers`-th
    problem."""
    workers = [
        subprocess.Popen(
            stage_command(arguments, folder, "compile", f"{index}/{arguments.workers}"),
            start_new_session=True,
        )
        for index in range(arguments.workers)
    ]
    limit = min(deadline, time.monotonic() + arguments.compile_seconds)
    stages.wait_for_compilers(workers, limit, folder / "cache")


def compile_stage(folder, part):
    """One worker: runs its variants once."""
    import safetensors.torch
    import torch

    index, count = (int(number) for number in part.split("/"))
    jobs = []
    for problem in json.loads((folder / "to_time.json").read_text()):
        variants = chosen_variants(COMPILED.values())
        jobs += [(problem, variant) for variant in variants if variant.dtype == problem["dtype"]]
    for problem, variant in jobs[index::count]:
        parameters = safetensors.torch.load_file(problem["parameters"], device="cuda")
        parameters = {name: common.arrange(p, variant) for name, p in parameters.items()}
        x = common.arrange(torch.rand(problem["input"], device="cuda"), variant)
        torch._dynamo.reset()
        compiled = torch.compile(common.PIPELINES[problem["number"]], dynamic=False)
        try:
            with common.settings(variant), torch.no_grad():
                compiled(x, parameters, problem["attributes"])
        except Exception as error:  # the process that times will tell
            print(f"{problem['title']}, {variant.name}: {error}", file=sys.stderr)
        del x, parameters, compiled
        torch.cuda.empty_cache()


# Stage 3: timing ---------------------------------------------------------------------------------


def time_stage(folder, repeats, titles):
    """Times PyTorch on these problems, and writes a line of JSON for each when it is done."""
    import torch

    problems = json.loads((folder / "to_time.json").read_text())
    variants = chosen_variants([EAGER, *COMPILED.values()])
    with open(folder / "rows.jsonl", "a") as lines, torch.no_grad():
        for title in titles:
            wanted = [problem for problem in problems if problem["title"] == title]
            rows = common.compare_problems(wanted, repeats, variants)
            line = {"title": title, "rows": [dataclasses.asdict(row) for row in rows]}
            lines.write(json.dumps(line) + "\n")
            lines.flush()
            torch.cuda.empty_cache()


def timed_lines(folder):
    """The whole lines that the timing has written."""
    path = folder / "rows.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


# The table ---------------------------------------------------------------------------------------


def shown(value):
    """A number, or numbers joined by a cross, once if they are equal."""
    if not isinstance(value, list):
        return str(value)
    return str(value[0]) if len(set(value)) == 1 else "x".join(str(part) for part in value)


def description(problem):
    """A problem's attributes in a few words."""
    a = problem["attributes"]
    words = [f"k {a['out_channels']}", f"filter {shown(a['kernel_size'])}"]
    usual = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}
    words += [f"{name} {shown(a[name])}" for name, value in usual.items() if shown(a[name]) != str(value)]
    if "max_pool" in a:
        words += [f"norm {a['num_groups']}", f"pool {shown(a['max_pool'])}"]
    return ", ".join(words)


def find(rows, name, math_mode):
    """The row of a name and a math mode."""
    fitting = (row for row in rows if row.name == name and row.math_mode == math_mode)
    return next(fitting, None)


# Ours, PyTorch's, the math mode of both: each pair is a column of ratios.
PAIRS = [("convfuse fused", f"PyTorch {name}", math_mode) for math_mode, name in COMPILED.items()]
PAIRS.append(("convfuse fused", f"PyTorch {EAGER}", "accurate"))
COLUMNS = [
    ("eager f32", f"PyTorch {EAGER}", "accurate"),
    *((name, f"PyTorch {name}", math_mode) for math_mode, name in COMPILED.items()),
    ("unfused f32", "convfuse unfused-direct", "accurate"),
    *((f"fused {math_mode}", "convfuse fused", math_mode) for math_mode in COMPILED),
]
HEADER = (
    ["problem", "input", "attributes"]
    + [column for column, _, _ in COLUMNS]
    + [f"{math_mode} vs {theirs.removeprefix('PyTorch ')}" for _, theirs, math_mode in PAIRS]
    + ["launches", "largest error", "agrees"]
)


def cell(row):
    """A time in microseconds, or why there is none."""
    if row is None or row.seconds is None:
        return "-" if row is None or not row.complaint else row.complaint.replace("|", "/")[:60]
    return f"{row.seconds * 1e6:.1f}" + ("" if row.agrees else " **WRONG**")


def ratio(rows, pair):
    """How many times faster ours is, if both are right."""
    ours, theirs, math_mode = pair
    both = [find(rows, name, math_mode) for name in (ours, theirs)]
    if not all(row and row.seconds and row.agrees for row in both):
        return None
    return both[1].seconds / both[0].seconds


def agrees(rows):
    """Whether all outputs of convfuse are there and right."""
    ours = [row for row in rows if row.is_ours]
    return bool(ours) and all(row.agrees and not row.complaint for row in ours)


def table_line(problem, rows):
    """A problem's line of the table."""
    cells = [problem["title"], shown_shape(problem["input"]), description(problem)]
    cells += [cell(find(rows, name, math_mode)) for _, name, math_mode in COLUMNS]
    ratios = (ratio(rows, pair) for pair in PAIRS)
    cells += [f"{value:.2f}x" if value else "-" for value in ratios]
    accurate = find(rows, "convfuse fused", "accurate")
    error = accurate.largest_error if accurate else None
    cells += [str(launches(problem)), f"{error:.1e}" if error is not None else "-"]
    cells += ["yes" if agrees(rows) else "**NO**"]
    return "| " + " | ".join(cells) + " |"


def shown_shape(shape):
    """A shape as one word."""
    return "x".join(str(extent) for extent in shape)


def launches(problem):
    """Launches of the fused strategy: one where a kernel takes the whole problem."""
    fused = (result for result in problem["results"] if result["strategy"] == "fused")
    return next((result["launches"] for result in fused), "-")


def summary(every):
    """Medians and geometric means of the ratios, and how often ours was the slower one."""
    lines = []
    for pair in PAIRS:
        values = [value for _, rows in every if (value := ratio(rows, pair))]
        if not values:
            continue
        what = f"{pair[0]} {pair[2]} against {pair[1]}"
        lines.append(f"- {what}: {common.spread(values)}.")
    return "\n".join(lines)


class Record:
    """The files that the results go to, written anew after every problem."""

    def __init__(self, arguments, report, started):
        self.arguments, self.report, self.started = arguments, report, started
        self.every = []
        self.lost = []

    def add(self, problem, rows):
        """Prints a problem and writes all so far."""
        if not self.every:
            print("\n".join(table_head()), flush=True)
        self.every.append((problem, rows))
        print(table_line(problem, rows), flush=True)
        self.write()

    def write(self):
        """Writes the Markdown and the JSON, as far as they are wanted."""
        lines = table_head() + [table_line(problem, rows) for problem, rows in self.every]
        device = self.report["device"]
        text = "\n".join(
            [
                "# convfuse and PyTorch on many problems",
                "",
                f"{self.report['date']}, {device['name']}, convfuse {self.report['convfuse']}, {common.pytorch_versions()}. "
                f"Made in {time.monotonic() - self.started:.0f} s by",
                "",
                f"    {' '.join(sys.argv)}",
                "",
                f"Medians of {self.arguments.repeats} runs in microseconds by device events, the cache flushed before each; "
                "torch.compile in its default mode. Ratios are speeds: above 1 convfuse is the faster one. Errors are those of the "
                "accurate fused strategy against PyTorch in float64. An output agrees if torch.allclose says so with rtol = atol = "
                + ", ".join(f"{bound:g} ({name})" for name, bound in common.TOLERANCES.items())
                + ".",
                "",
                *lines,
                "",
                summary(self.every),
                *(f"- Not measured: {title}." for title in self.lost),
            ]
        )
        if self.arguments.markdown:
            pathlib.Path(self.arguments.markdown).write_text(text + "\n")
        if self.arguments.json:
            figures = [
                {**problem, "rows": [dataclasses.asdict(row) for row in rows]}
                for problem, rows in self.every
            ]
            whole = {"device": device, "problems": figures, "not_measured": self.lost}
            pathlib.Path(self.arguments.json).write_text(json.dumps(whole, indent=1) + "\n")


def table_head():
    """The table's first two lines."""
    return ["| " + " | ".join(HEADER) + " |", "|---" * len(HEADER) + "|"]


# The whole ---------------------------------------------------------------------------------------


def stage_command(arguments, folder, stage, part):
    """The command of a process for one stage of this script."""
    command = [sys.executable, __file__, "--stage", stage, "--folder", str(folder), "--part", part]
    return command + ["--convfuse", arguments.convfuse, "--repeats", str(arguments.repeats)]


def sweep(arguments, folder):
    """All three stages; returns whether everything was right."""
    started = time.monotonic()
    deadline = started + arguments.limit
    problems = json.loads(pathlib.Path(arguments.problems).read_text())
    problems = [p for p in problems if re.search(arguments.only, p["title"])]
    titles = [problem["title"] for problem in problems]
    convfuse = Convfuse(arguments, folder, problems)
    lost = stages.supervise(convfuse.start, titles, convfuse.finished, arguments.seconds, deadline)
    reports = convfuse.reports()
    if not reports:
        raise SystemExit(f"convfuse left no report: {(folder / 'convfuse.log').read_text()}")
    found = convfuse.done()
    # The results are read where the rows are made; each type's problem has those of its own.
    (folder / "to_time.json").write_text(json.dumps(found))
    print(f"convfuse: {time.monotonic() - started:.0f} s", file=sys.stderr)
    compile_all(arguments, folder, deadline)
    print(f"compiled: {time.monotonic() - started:.0f} s", file=sys.stderr)

    record = Record(arguments, reports[0], started)
    by_title = {problem["title"]: problem for problem in reversed(found) if problem["dtype"] == "f32"}

    def start(remaining):
        command = stage_command(arguments, folder, "time", "\n".join(remaining))
        return subprocess.Popen(command, start_new_session=True)

    def finished():
        lines = timed_lines(folder)
        for line in lines[len(record.every) :]:
            rows = [Row(**row) for row in line["rows"]]
            record.add(by_title[line["title"]], rows)
        return {line["title"] for line in lines}

    measured = [title for title in titles if title in by_title]
    lost += stages.supervise(start, measured, finished, arguments.seconds, deadline)
    record.lost = lost
    record.write()
    print(summary(record.every))
    print(f"took {time.monotonic() - started:.0f} s; not measured: {lost or 'none'}")
    return not lost and all(agrees(rows) for _, rows in record.every)


def parse(arguments=None):
    """The command line."""
    here = pathlib.Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--convfuse", required=True, help="the convfuse executable")
    parser.add_argument("--problems", default=here / "sweep_problems.json", help="as of `convfuse bench`")
    parser.add_argument("--only", default="", help="problems whose title this regular expression finds")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes that compile")
    parser.add_argument("--seconds", type=float, default=45, help="limit of a problem in a stage")
    parser.add_argument("--compile-seconds", type=float, default=240, help="limit of the compilation")
    parser.add_argument("--limit", type=float, default=540, help="limit of the whole, in seconds")
    parser.add_argument("--markdown", help="write the table to this file, too")
    parser.add_argument("--json", help="write all figures to this file")
    # For the processes that this script starts.
    parser.add_argument("--stage", choices=["compile", "time"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--part", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main():
    """Sweeps, or does one stage's part of it. Fails if anything is off."""
    arguments = parse()
    if arguments.stage == "compile":
        compile_stage(arguments.folder, arguments.part)
        return 0
    if arguments.stage == "time":
        time_stage(arguments.folder, arguments.repeats, arguments.part.split("\n"))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(pathlib.Path(folder) / "cache")
        # The workers are as many as there are processors: none needs helpers of its own.
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        return 0 if sweep(arguments, pathlib.Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
