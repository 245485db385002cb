#!/usr/bin/env python3
"""Compares convfuse with PyTorch on the blocks of real networks: chains of any layers.

    python3 scripts/blocks_pytorch.py --convfuse target/release/convfuse --markdown blocks.md --json
    blocks.json

The problems are those of block_problems.json, each a chain and an input's shape. PyTorch's modules run
eagerly and compiled, in both memory formats, with cuDNN's search for the fastest algorithm and in inference
mode; each in the types of --dtypes, of which tf32 is f32 with rounded factors. Two stages:

1. worker processes compile all variants side by side, which fills the cache of torch.compile (with --workers 0, none does,
   and each variant is compiled where it is timed);
2. one process alone on the device runs `convfuse bench` on a problem, then PyTorch, and compares all outputs with PyTorch in
   float64. A problem that is stuck is given up, and another process does the rest.

Inputs, parameters, timing and comparison are those of compare_pytorch.py: device events, 256 MiB written
before each run, the median. Without --convfuse, or where convfuse fails, PyTorch makes the parameters.
Results are printed and written as they come; standard error tells what each variant's first run took, with
its compilation and cuDNN's search. The exit status is 1 if a problem was given up, or if convfuse has a
result that is wrong or absent.

Needs PyTorch with CUDA, Triton for torch.compile, safetensors; no Rust.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import compare_pytorch as common
import stages
from compare_pytorch import Row, Variant


@dataclasses.dataclass(frozen=True)
class Kind:
    """An element type together with the math mode of f32."""

    dtype: str
    math_mode: str
    ours: str
    tf32: bool = False


KINDS = {
    "f32": Kind("f32", "accurate", "accurate"),
    "tf32": Kind("f32", "fast", "fast", tf32=True),
    "f16": Kind("f16", "half", "f16"),
    "bf16": Kind("bf16", "half", "bf16"),
}
CHANNELS_LAST = ", channels-last"
# Words of a message behind which nothing works any more in the process.
FATAL = "CUDA error"


def variants(kind_name, compiled, rank):
    """PyTorch's variants of a kind for inputs of this rank, in both memory formats if there are two."""
    kind, way = KINDS[kind_name], "compile" if compiled else "eager"
    return [
        Variant(
            f"{way} {kind_name}" + CHANNELS_LAST * channels_last,
            kind.math_mode,
            dtype=kind.dtype,
            tf32=kind.tf32,
            channels_last=channels_last,
            cudnn_benchmark=True,
            compile_mode="default" if compiled else None,
        )
        for channels_last in (False, True)
        if not channels_last or rank in (4, 5)
    ]


def model_of(chain, rank, parameters, variant):
    """The chain's modules on the device as the variant wants them, compiled if it says so."""
    import torch
    from chain_modules import Chain

    model = Chain(chain, rank).to("cuda").load(parameters).to(common.element_type(variant.dtype))
    for parameter in model.parameters():
        parameter.data = common.arrange(parameter.data, variant)
    torch._dynamo.reset()
    return torch.compile(model, dynamic=False) if variant.compile_mode else model


def own_parameters(chain, rank):
    """Parameters as PyTorch makes them."""
    import torch
    from chain_modules import Chain

    torch.manual_seed(0)
    return {name: tensor.detach().cuda() for name, tensor in Chain(chain, rank).entries().items()}


# Stage 1: compilation ----------------------------------------------------------------------------


def compile_stage(folder, part, dtypes):
    """One worker: runs its variants once."""
    import torch

    index, count = (int(number) for number in part.split("/"))
    problems = json.loads((folder / "problems.json").read_text())
    jobs = [
        (problem, variant)
        for problem in problems
        for kind in dtypes
        for variant in variants(kind, compiled=True, rank=len(problem["input"]))
    ]
    for problem, variant in jobs[index::count]:
        chain, rank = problem["chain"], len(problem["input"])
        # The search would disturb the other workers, and nothing is timed here.
        variant = dataclasses.replace(variant, cudnn_benchmark=False)
        try:
            x = common.arrange(torch.rand(problem["input"], device="cuda"), variant)
            model = model_of(chain, rank, own_parameters(chain, rank), variant)
            with common.settings(variant), torch.inference_mode():
                model(x)
            torch.cuda.synchronize()
        except Exception as error:  # the process that times will tell
            print(f"{problem['title']}, {variant.name}: {common.complaint(error)}", file=sys.stderr)
            if FATAL in str(error):
                return
        x = model = None
        torch.cuda.empty_cache()


# Stage 2: timing ---------------------------------------------------------------------------------


def bench(arguments, folder, problem, dtypes, channels_last=False):
    """Runs `convfuse bench` on a problem; returns its report's problems by element type, and what it
    complained of."""
    listed, written = folder / "problem.json", folder / "report.json"
    listed.write_text(json.dumps([problem]))
    command = [arguments.convfuse, "bench", "--device", "gpu", "--problems", str(listed)]
    command += ["--dtype", ",".join(dtypes), "--strategy", "fused", "--repeats", str(arguments.repeats)]
    command += ["--no-reference", "--no-ceilings", "--json", str(written), "--save", str(folder)]
    if channels_last:
        # From such inputs the accurate math mode is never faster.
        command += ["--channels-last", "--precision", "fast"]
    try:
        run = subprocess.run(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=arguments.seconds / 2,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {}, common.complaint(error)
    said = run.stderr.strip().splitlines()
    try:
        found = json.loads(written.read_text())["problems"]
    except (OSError, ValueError, KeyError):
        found = []
    complaint = said[-1] if said else f"ended with status {run.returncode}"
    return {problem["dtype"]: problem for problem in found}, complaint


def our_rows(kinds, report, complaint, expected, suffix=""):
    """convfuse's rows of an element type, named by kind and suffix; a kind without a result has a row that
    says why."""
    by_math_mode = {}
    if report is not None:
        complaint = report.get("error") or complaint
        try:
            by_math_mode = {row.math_mode: row for row in common.our_rows(report, expected)}
        except Exception as error:  # PyTorch is to be timed all the same
            complaint = common.complaint(error)
    rows = []
    for kind in kinds:
        math_mode = KINDS[kind].math_mode
        row = by_math_mode.get(math_mode) or Row("", math_mode, complaint=complaint, is_ours=True)
        row.name = f"convfuse {kind}{suffix}"
        rows.append(row)
    return rows


def measure(variant, problem, x, parameters, expected, repeats):
    """Runs, checks and times one variant."""
    import torch

    row = Row(f"PyTorch {variant.name}", variant.math_mode)
    try:
        model = model_of(problem["chain"], x.dim(), parameters, variant)
        x = common.arrange(x, variant)
        with common.settings(variant), torch.inference_mode():
            common.check_and_time(row, lambda: model(x), expected, variant.dtype, repeats)
    except Exception as error:  # one variant that fails must not lose the others
        row.complaint = common.complaint(error)
    return row


def reference(problem, x, parameters):
    """PyTorch's output in float64, `None` if there is no computing it."""
    import torch
    from chain_modules import Chain

    try:
        model = Chain(problem["chain"], x.dim()).to("cuda").double().load(parameters)
        with torch.no_grad():
            return common.float64_reference(lambda chunk, _p, _a: model(chunk), x, {}, None)
    except Exception as error:  # times are worth something without it
        print(f"  no reference: {common.complaint(error)}", file=sys.stderr)
        return None


def rows_of(arguments, folder, problem):
    """The rows of a problem, one after the other as they come."""
    import safetensors.torch
    import torch

    until = time.monotonic() + arguments.seconds
    found, complaint, last_kinds = {}, "not run", []
    if arguments.convfuse:
        # An element type that fails ends the run: what is surest comes first.
        dtypes = dict.fromkeys(KINDS[kind].dtype for kind in arguments.dtypes)
        found, complaint = bench(arguments, folder, problem, dtypes)
        if arguments.channels_last and len(problem["input"]) in (4, 5):
            last_kinds = [kind for kind in arguments.dtypes if KINDS[kind].math_mode != "accurate"]
        if last_kinds:
            last = folder / "channels-last"
            last.mkdir(exist_ok=True)
            last_dtypes = dict.fromkeys(KINDS[kind].dtype for kind in last_kinds)
            found_last, complaint_last = bench(arguments, last, problem, last_dtypes, channels_last=True)
    for dtype in ("f32", "f16", "bf16"):
        kinds = [kind for kind in arguments.dtypes if KINDS[kind].dtype == dtype]
        if not kinds:
            continue
        report, element = found.get(dtype), common.element_type(dtype)
        if report is None:
            seed, parameters = 1, own_parameters(problem["chain"], len(problem["input"]))
        else:
            seed = report["input_seed"]
            parameters = safetensors.torch.load_file(report["parameters"], device="cuda")
        # Everyone gets the rounded numbers.
        parameters = {name: tensor.to(element).float() for name, tensor in parameters.items()}
        x = common.fill(seed, problem["input"]).to(element).float()
        expected = None if arguments.unchecked else reference(problem, x, parameters)
        if arguments.convfuse:
            yield from our_rows(kinds, report, complaint, expected)
            kinds_last = [kind for kind in kinds if kind in last_kinds]
            if kinds_last:
                yield from our_rows(kinds_last, found_last.get(dtype), complaint_last, expected, CHANNELS_LAST)
        ways = (True,) if arguments.no_eager else (True, False)
        for variant in (v for way in ways for kind in kinds for v in variants(kind, way, x.dim())):
            torch.cuda.empty_cache()
            if time.monotonic() > until:
                yield Row(f"PyTorch {variant.name}", variant.math_mode, complaint="no time left")
            else:
                yield measure(variant, problem, x, parameters, expected, arguments.repeats)


def time_stage(arguments, titles):
    """Times these problems; writes a line of JSON for each row, and one for each problem that is done."""
    import torch

    problems = {p["title"]: p for p in json.loads((arguments.folder / "problems.json").read_text())}
    with open(arguments.folder / "lines.jsonl", "a") as lines:

        def write(line):
            lines.write(json.dumps(line) + "\n")
            lines.flush()

        def note(title, row):
            write({"title": title, "row": dataclasses.asdict(row)})
            took = row.complaint if row.seconds is None else f"{row.seconds * 1e6:.1f} us"
            first = "" if row.first_seconds is None else f", first run {row.first_seconds:.1f} s"
            print(f"  {row.name}: {took}{first}", file=sys.stderr, flush=True)
            if not row.is_ours and row.complaint and FATAL in row.complaint:
                # The supervisor starts another process for the problems behind this one.
                os._exit(1)

        write({"device": torch.cuda.get_device_name(), "pytorch": common.pytorch_versions()})
        for title in titles:
            print(title, file=sys.stderr, flush=True)
            folder = arguments.folder / "convfuse"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(exist_ok=True)
            try:
                for row in rows_of(arguments, folder, problems[title]):
                    note(title, row)
            except Exception as error:  # one problem that fails must not lose the others
                note(title, Row("problem", "-", complaint=common.complaint(error)))
            torch.cuda.empty_cache()
            write({"title": title, "done": True})
        shutil.rmtree(arguments.folder / "convfuse", ignore_errors=True)


# The table ---------------------------------------------------------------------------------------


def usable(row):
    """Whether a time of convfuse counts."""
    return bool(row and row.seconds and not row.complaint and row.agrees is not False)


def faster(rows, name):
    """The faster of the rows of both memory formats; one without a time if none has one."""
    both = [row for row in rows if row.name in (name, name + CHANNELS_LAST)]
    return min(both, key=lambda row: row.seconds or float("inf"), default=None)


def ours(rows, kind):
    """convfuse's row of a kind; a wrong one rather than the faster of two."""
    name = f"convfuse {kind}"
    wrong = (row for row in rows if row.name in (name, name + CHANNELS_LAST) and row.agrees is False)
    return next(wrong, None) or faster(rows, name)


def best_compiled(rows, kind):
    """The faster of the two memory formats of torch.compile."""
    return faster(rows, f"PyTorch compile {kind}")


def cell(row):
    """A time in microseconds, or why there is none."""
    if row is None:
        return "-"
    if row.seconds is None:
        return (row.complaint or "-").replace("|", "/")[:60]
    last = " cl" if row.name.endswith(CHANNELS_LAST) else ""
    wrong = "" if row.agrees is not False else (" **WRONG**" if row.is_ours else " (off)")
    return f"{row.seconds * 1e6:.1f}{last}{wrong}"


def ratio(rows, kind):
    """How many times faster ours is than the better of PyTorch's memory formats, compiled."""
    mine, theirs = ours(rows, kind), best_compiled(rows, kind)
    if not usable(mine) or theirs is None or not theirs.seconds:
        return None
    return theirs.seconds / mine.seconds


def versus(kind):
    """What a column of ratios is called."""
    return f"{KINDS[kind].ours} vs compile {kind}"


def table_head(kinds):
    """The table's first two lines."""
    columns = ["block", "input"] + [f"compile {kind}" for kind in kinds]
    columns += [KINDS[kind].ours for kind in kinds] + [versus(kind) for kind in kinds]
    return ["| " + " | ".join(columns) + " |", "|---|---|" + "---:|" * (len(columns) - 2)]


def table_line(kinds, problem, rows):
    """A problem's line of the table."""
    cells = [problem["title"].replace("|", "/"), "x".join(map(str, problem["input"]))]
    cells += [cell(best_compiled(rows, kind)) for kind in kinds]
    cells += [cell(ours(rows, kind)) for kind in kinds]
    values = (ratio(rows, kind) for kind in kinds)
    cells += [f"{value:.2f}x" if value else "-" for value in values]
    return "| " + " | ".join(cells) + " |"


def ratios(kinds, every):
    """All ratios by kind, without kinds that have none."""
    found = {}
    for kind in kinds:
        values = [value for _, rows in every if (value := ratio(rows, kind))]
        if values:
            found[kind] = values
    return found


class Record:
    """What was measured so far, and the files that it goes to, written anew after every problem."""

    def __init__(self, arguments, problems):
        self.arguments, self.problems = arguments, {p["title"]: p for p in problems}
        self.started, self.date = time.monotonic(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.machine = {"device": "unknown device", "pytorch": "PyTorch"}
        self.rows, self.done, self.lost = {}, [], []
        self.read = 0
        print("\n".join(table_head(arguments.dtypes)), flush=True)

    def finished(self):
        """Reads the lines that are new; returns the titles of problems that are done."""
        path = self.arguments.folder / "lines.jsonl"
        text = path.read_text() if path.exists() else ""
        whole = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
        new, self.read = whole[self.read :], len(whole)
        for line in map(json.loads, new):
            if "device" in line:
                self.machine = line
            elif "row" in line:
                self.rows.setdefault(line["title"], []).append(Row(**line["row"]))
            else:
                self.finish(line["title"])
        return set(self.done)

    def finish(self, title):
        """Prints a problem that is done, and writes the files."""
        self.done.append(title)
        line = table_line(self.arguments.dtypes, self.problems[title], self.rows.get(title, []))
        print(line, flush=True)
        self.write()

    def every(self):
        """Problems with rows, even those that were given up in between."""
        return [(p, self.rows[title]) for title, p in self.problems.items() if title in self.rows]

    def summary(self):
        """The ratios' medians, and what is missing."""
        found = ratios(self.arguments.dtypes, self.every())
        lines = [f"- {versus(kind)}: {common.spread(values)}." for kind, values in found.items()]
        return lines + [f"- Not measured to the end: {title}." for title in self.lost]

    def write(self):
        """Writes the Markdown and the JSON, as far as they are wanted."""
        kinds, took = self.arguments.dtypes, time.monotonic() - self.started
        if self.arguments.markdown:
            lines = [
                "# convfuse and PyTorch on blocks of networks",
                "",
                f"{self.date}, {self.machine['device']}, {self.machine['pytorch']}. Made in {took:.0f} s by",
                "",
                f"    {' '.join(sys.argv)}",
                "",
                f"Medians of {self.arguments.repeats} runs in microseconds by device events, the cache flushed before each. Of "
                "torch.compile (default mode, cudnn.benchmark, inference mode) the better memory format counts"
                + ", and of convfuse but in accurate f32; its output is contiguous" * self.arguments.channels_last
                + ": `cl` is channels-last. Ratios are speeds: above 1 convfuse is the faster one. A result of convfuse that "
                "PyTorch in float64 "
                "does not confirm is WRONG and has no ratio; one of PyTorch's is marked as off, and counts.",
                "",
                *table_head(kinds),
                *(table_line(kinds, problem, rows) for problem, rows in self.every()),
                "",
                *self.summary(),
            ]
            pathlib.Path(self.arguments.markdown).write_text("\n".join(lines) + "\n")
        if self.arguments.json:
            figures = [
                {**problem, "rows": [dataclasses.asdict(row) for row in rows]}
                for problem, rows in self.every()
            ]
            found = ratios(kinds, self.every())
            whole = {
                "date": self.date,
                **self.machine,
                "command": sys.argv,
                "repeats": self.arguments.repeats,
                "seconds": took,
                "median_ratios": {versus(kind): statistics.median(v) for kind, v in found.items()},
                "problems": figures,
                "not_measured": self.lost,
            }
            pathlib.Path(self.arguments.json).write_text(json.dumps(whole, indent=1) + "\n")


# The whole ---------------------------------------------------------------------------------------


def stage_command(arguments, stage, part):
    """The command of a process for one stage of this script."""
    command = [sys.executable, __file__, "--stage", stage, "--folder", str(arguments.folder)]
    command += [f"--part={part}", "--dtypes", ",".join(arguments.dtypes)]
    command += ["--repeats", str(arguments.repeats), "--seconds", str(arguments.seconds)]
    command += ["--convfuse", arguments.convfuse] if arguments.convfuse else []
    command += ["--no-eager"] * arguments.no_eager
    command += ["--channels-last"] * arguments.channels_last
    return command + ["--unchecked"] * arguments.unchecked


def compare(arguments, problems):
    """Both stages; returns whether everything was right."""
    deadline = time.monotonic() + arguments.limit
    (arguments.folder / "problems.json").write_text(json.dumps(problems))

    def start(stage, part):
        # What a worker prints belongs to no table.
        return subprocess.Popen(
            stage_command(arguments, stage, part), stdout=sys.stderr, start_new_session=True
        )

    record = Record(arguments, problems)
    if arguments.workers > 0:
        workers = [start("compile", f"{i}/{arguments.workers}") for i in range(arguments.workers)]
        limit = min(deadline, time.monotonic() + arguments.compile_seconds)
        stages.wait_for_compilers(workers, limit, arguments.folder / "cache")
        print(f"compiled: {time.monotonic() - record.started:.0f} s", file=sys.stderr, flush=True)
    titles = [problem["title"] for problem in problems]
    # A problem starts nothing new after its time; what is stuck is given up at twice that.
    record.lost = stages.supervise(
        lambda remaining: start("time", "\n".join(remaining)),
        titles,
        record.finished,
        2 * arguments.seconds,
        deadline,
    )
    for title in record.lost:
        if title in record.rows:
            print(table_line(arguments.dtypes, record.problems[title], record.rows[title]))
    record.write()
    print("\n".join(["", *record.summary()]))
    print(f"took {time.monotonic() - record.started:.0f} s", flush=True)
    wanted = arguments.dtypes if arguments.convfuse else []
    right = [usable(ours(rows, kind)) for _, rows in record.every() for kind in wanted]
    right += [usable(row) for _, rows in record.every() for row in rows if row.is_ours]
    return not record.lost and all(right)


def read_problems(arguments):
    """The problems that are asked for; titles are made unique, since results go by them."""
    problems, titles = [], set()
    for index, problem in enumerate(json.loads(pathlib.Path(arguments.problems).read_text())):
        title = problem.get("title") or f"problem {index}"
        if title in titles:
            title = f"{title}, problem {index}"
        titles.add(title)
        if "chain" not in problem:
            print(f"{title}: has no chain; see sweep_pytorch.py", file=sys.stderr)
        elif arguments.only.search(title):
            problems.append({**problem, "title": title})
    return problems


def kinds(text):
    """The value of --dtypes."""
    names = text.split(",")
    if unknown := [name for name in names if name not in KINDS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]}: must be of {', '.join(KINDS)}")
    return [kind for kind in KINDS if kind in names]


def parse(arguments=None):
    """The command line."""
    here = pathlib.Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--convfuse", help="the convfuse executable; without it PyTorch runs alone")
    parser.add_argument("--problems", default=here / "block_problems.json", help="as of `convfuse bench`")
    parser.add_argument(
        "--only", type=re.compile, default=re.compile(""), help="problems whose title this regular expression finds"
    )
    parser.add_argument(
        "--dtypes", type=kinds, default="f32,tf32,f16", help=f"of {', '.join(KINDS)} [default: f32,tf32,f16]"
    )
    parser.add_argument("--repeats", type=int, default=30)
    workers = min(12, os.cpu_count() or 1)
    parser.add_argument("--workers", type=int, default=workers, help="processes that compile; each takes device memory")
    parser.add_argument("--seconds", type=float, default=90, help="limit of a problem; compiling takes more with --workers 0")
    parser.add_argument("--compile-seconds", type=float, default=240, help="limit of the compilation")
    parser.add_argument("--limit", type=float, default=540, help="limit of the whole, in seconds")
    parser.add_argument("--no-eager", action="store_true", help="leave out what is not compiled")
    parser.add_argument(
        "--channels-last", action="store_true", help="time convfuse with channels-last inputs, too, but for accurate f32"
    )
    parser.add_argument("--unchecked", action="store_true", help="leave out the comparison with float64")
    parser.add_argument("--markdown", help="write the table to this file, too")
    parser.add_argument("--json", help="write all figures to this file")
    # For the processes that this script starts.
    parser.add_argument("--stage", choices=["compile", "time"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--part", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main():
    """Compares, or does one stage's part of it. Fails if anything is off."""
    arguments = parse()
    if arguments.stage == "compile":
        compile_stage(arguments.folder, arguments.part, arguments.dtypes)
        return 0
    if arguments.stage == "time":
        time_stage(arguments, arguments.part.split("\n"))
        return 0
    problems = read_problems(arguments)
    if not problems:
        raise SystemExit(f"{arguments.problems}: has no chain whose title --only finds")
    for path in filter(None, (arguments.markdown, arguments.json)):
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    # What a process that had to be ended still writes must not make the whole fail.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        arguments.folder = pathlib.Path(folder)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(arguments.folder / "cache")
        # The workers are as many as there are processors, or nearly: none needs helpers of its own.
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        return 0 if compare(arguments, problems) else 1


if __name__ == "__main__":
    sys.exit(main())
