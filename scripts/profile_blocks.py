#!/usr/bin/env python3
"""Says what binds the kernels of convfuse on the blocks of real networks, by NVIDIA Nsight Compute.

    python3 scripts/profile_blocks.py --convfuse target/release/convfuse --dtype f16 --raw profiles --markdown
    profile.md

Runs `convfuse bench` once on each problem of block_problems.json under `ncu`, with the clocks left alone, and
prints for each kernel the time of one launch and how busy the tensor cores, the level-2 cache, the memory,
the paths to shared memory and the issue of instructions were, in percent of what there is. --raw keeps the
answers of ncu, a CSV file for each problem; --from makes the tables of such files and runs nothing. The exit
status is 1 if a problem has no answer, and the others are printed all the same.

Needs `ncu` and the permission to read the device's counters; no Rust, no PyTorch.
"""

import argparse
import csv
import io
import json
import pathlib
import subprocess
import sys
import tempfile

# Heading and metric.
METRICS = [
    ("us", "gpu__time_duration.sum"),
    ("tensor cores", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"),
    ("level 2", "lts__throughput.avg.pct_of_peak_sustained_elapsed"),
    ("memory", "dram__throughput.avg.pct_of_peak_sustained_elapsed"),
    ("shared memory", "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"),
    ("issue", "sm__inst_issued.avg.pct_of_peak_sustained_elapsed"),
    ("blocks", "launch__grid_size"),
    ("registers", "launch__registers_per_thread"),
]
KERNEL = "Kernel Name"
# The first launches of a process: those of one forward pass, and of measurements behind it, which are left
# out.
LAUNCHES = 12
OF_MEASUREMENTS = "peak_"
MICROSECONDS = {"ns": 1e-3, "us": 1.0, "usecond": 1.0, "nsecond": 1e-3, "ms": 1e3, "msecond": 1e3}
SECONDS_OF_A_PROBLEM = 120


def profile(ncu, convfuse, problem, dtype):
    """The answer of ncu on a problem, or None, in which case why is on standard error."""
    with tempfile.TemporaryDirectory() as folder:
        problems = pathlib.Path(folder, "problems.json")
        problems.write_text(json.dumps([problem]))
        command = [ncu, "--clock-control", "none", "--csv", "--page", "raw", "--launch-count", str(LAUNCHES)]
        command += ["--metrics", ",".join(metric for _, metric in METRICS)]
        command += [convfuse, "bench", "--problems", problems, "--strategy", "fused", "--dtype", dtype, "--repeats", "1"]
        command += ["--no-reference", "--no-ceilings", "--yes", "--device", "gpu", "--json", pathlib.Path(folder, "bench.json")]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_OF_A_PROBLEM)
        except (OSError, subprocess.TimeoutExpired) as error:
            print(f"{problem['title']}: {error}", file=sys.stderr)
            return None
    if done.returncode != 0:
        print(f"{problem['title']}: {(done.stderr or done.stdout).strip()[-400:]}", file=sys.stderr)
        return None
    return done.stdout


def launches(answer):
    """The first launch of each kernel of the library's, with the values of METRICS by their headings."""
    # Lines of ncu and of convfuse stand around those of the table, which are quoted; the first has the
    # headings, the second the units.
    rows = list(csv.DictReader(io.StringIO("\n".join(line for line in answer.splitlines() if line.startswith('"')))))
    if not rows:
        return []
    units, found = rows[0], {}
    for row in rows[1:]:
        name = row[KERNEL]
        if name in found or name.startswith(OF_MEASUREMENTS):
            continue
        values = {heading: float(row[metric].replace(",", "")) for heading, metric in METRICS if row.get(metric)}
        values["us"] *= MICROSECONDS[units["gpu__time_duration.sum"]]
        found[name] = values
    return list(found.items())


def table(found):
    """Launches as lines of markdown; the longest first."""
    headings = [heading for heading, _ in METRICS]
    lines = ["| kernel | " + " | ".join(headings) + " |", "|---|" + "---:|" * len(headings)]
    for name, values in sorted(found, key=lambda launch: -launch[1]["us"]):
        cells = [f"{values[h]:.1f}" if h == "us" else f"{values[h]:.0f}" if h in values else "" for h in headings]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    folder = pathlib.Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--convfuse", default="target/release/convfuse", help="the command line")
    parser.add_argument("--ncu", default="ncu", help="Nsight Compute's command line")
    parser.add_argument("--problems", type=pathlib.Path, default=folder / "block_problems.json")
    parser.add_argument("--only", type=int, nargs="*", metavar="N", help="numbers of problems, from 0; else all")
    parser.add_argument("--dtype", default="f16", choices=["f32", "f16", "bf16"])
    parser.add_argument("--raw", type=pathlib.Path, help="keep the answers of ncu in this folder")
    parser.add_argument("--from", dest="source", type=pathlib.Path, help="take the answers in this folder, and run nothing")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the tables to this file, too")
    options = parser.parse_args()

    problems = json.loads(options.problems.read_text())
    numbers = range(len(problems)) if options.only is None else options.only
    if any(not 0 <= number < len(problems) for number in numbers):
        parser.error(f"{options.problems} has the problems 0 to {len(problems) - 1}")
    if options.raw:
        options.raw.mkdir(parents=True, exist_ok=True)
    written, missing = [], 0
    for number in numbers:
        kept = f"ncu-{number}.csv"
        if options.source:
            path = options.source / kept
            answer = path.read_text() if path.exists() else None
            if answer is None:
                print(f"{path} is not there", file=sys.stderr)
        else:
            answer = profile(options.ncu, options.convfuse, problems[number], options.dtype)
        found = launches(answer) if answer else []
        if not found:
            missing += 1
            continue
        if options.raw:
            (options.raw / kept).write_text(answer)
        written.append(f"## {problems[number]['title']}\n\n{table(found)}\n")
        print(written[-1], flush=True)
    if options.markdown:
        options.markdown.write_text("\n".join(written))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
