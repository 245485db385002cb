#!/usr/bin/env python3
"""Draws a record of `convfuse bench --json`: times as bars, and the roofline where ceilings were measured.

    python3 scripts/plot_bench.py bench.json bench.svg

Takes the JSON of `compare_pytorch.py`, too. The picture's format is that of its name: .svg, .png or .pdf.
Needs matplotlib.
"""

import argparse
import json
import pathlib

# Colours that colour-blind readers can tell apart (Okabe and Ito), one per problem.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]
# Units of arithmetic, by the names of their ceilings in the record.
UNITS = {
    "fma_flop_per_s": "FMA f32",
    "mma_tf32_flop_per_s": "mma.sync tf32",
    "mma_f16_flop_per_s": "mma.sync f16",
    "wgmma_f16_flop_per_s": "wgmma f16",
}


def label(problem):
    """The problem's title, number or operators, and its element type."""
    return f"{problem['title'] or problem['number'] or problem['name']} {problem['dtype']}"


def name(result):
    """The strategy, and its math mode if that is the fast one."""
    return result["strategy"] + (", fast" if result["math_mode"] == "fast" else "")


def timed(problem):
    """Results that have a time: wrong and failed ones have none."""
    return [result for result in problem["results"] if result["time"]]


def draw_bars(axes, problem, colour):
    """Medians as bars with their quartiles; an upright mark at the least time that the ceilings allow."""
    for row, result in enumerate(timed(problem)):
        time = {key: 1e6 * result["time"][key] for key in ("lower_quartile", "median", "upper_quartile")}
        spread = [[time["median"] - time["lower_quartile"]], [time["upper_quartile"] - time["median"]]]
        axes.barh(row, time["median"], xerr=spread, color=colour)
        text = f"{time['median']:.4g} us"
        if result.get("floor_s") is not None:
            axes.plot([1e6 * result["floor_s"]] * 2, [row - 0.45, row + 0.45], color="black")
            text += f", {result['fraction_of_ceiling']:.0%} of the ceiling"
        axes.annotate(text, (time["upper_quartile"], row), (6, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(timed(problem))), [name(result) for result in timed(problem)], parse_math=False)
    axes.invert_yaxis()
    axes.margins(x=0.45)
    axes.set_xlim(left=0)
    axes.set_xlabel("us")
    title = f"{label(problem)}: {problem['name']}, input {problem['input']}"
    axes.set_title(title, loc="left", parse_math=False)


def draw_roofline(axes, report):
    """Operations per second over operations per byte, under the ceilings of memory and of each unit."""
    memory = report["ceilings"]["copy_bytes_per_s"]
    levels = {unit: report["ceilings"][key] for key, unit in UNITS.items() if report["ceilings"][key]}
    intensities = [problem["flop"] / max(problem["bytes"], 1) for problem in report["problems"]]
    bends = [level / memory for level in levels.values()]
    positive = [intensity for intensity in intensities if intensity > 0]
    left, right = min(positive + bends) / 2, max(positive + bends) * 2
    for unit, level in levels.items():
        axes.plot([level / memory, right], [level, level], color="black")
        text = f"{unit}: {level * 1e-12:.1f} TFLOP/s"
        axes.annotate(text, (right, level), (0, 4), textcoords="offset points", ha="right")
    axes.plot([left, max(bends)], [left * memory, max(levels.values())], color="black")
    text = f"copy: {memory * 1e-12:.2f} TB/s"
    axes.annotate(text, (left, left * memory), (12, 0), textcoords="offset points")
    for index, (problem, intensity) in enumerate(zip(report["problems"], intensities)):
        speeds = [result["flop_per_s"] for result in timed(problem)]
        colour = COLOURS[index % len(COLOURS)]
        axes.plot([intensity] * len(speeds), speeds, "o", color=colour, label=label(problem))
    axes.set(xscale="log", yscale="log", xlabel="operations per byte that must move", ylabel="FLOP/s")
    axes.set_title("One convolution pass under the measured ceilings (roofline)", loc="left")
    axes.legend(loc="upper left")


def plot(report, path):
    """Draws the report of a benchmark to a file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    problems = [(index, problem) for index, problem in enumerate(report["problems"]) if timed(problem)]
    heights = [0.8 + 0.3 * len(timed(problem)) for _, problem in problems]
    if report.get("ceilings") and problems:
        heights.append(5)
    figure, axes = pyplot.subplots(
        max(len(heights), 1),
        squeeze=False,
        figsize=(11, 1 + sum(heights)),
        height_ratios=heights or [1],
        layout="constrained",
    )
    title = f"convfuse {report['convfuse']} on {report['device']['name']}, {report['date']}"
    figure.suptitle(f"{title}\nmedians and quartiles, {report['clock']}", parse_math=False)
    axes = list(axes[:, 0])
    for (index, problem), one in zip(problems, axes):
        draw_bars(one, problem, COLOURS[index % len(COLOURS)])
    if len(heights) > len(problems):
        draw_roofline(axes[-1], report)
    figure.savefig(path)
    pyplot.close(figure)


def main():
    """Reads the record and draws it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("record", type=pathlib.Path, help="what --json wrote")
    parser.add_argument("picture", type=pathlib.Path, help="the file to draw to")
    arguments = parser.parse_args()
    record = json.loads(arguments.record.read_text())
    # `compare_pytorch.py` keeps the report of convfuse beside its own rows.
    report = record if "problems" in record else record["convfuse"]
    plot(report, arguments.picture)


if __name__ == "__main__":
    main()
