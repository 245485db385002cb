"""``fuse`` on random models, compared with PyTorch's layers and with float64.

``python tests/test_random.py --cases 1000 --seed 5`` runs more of them, and prints a reduced model for each
failure.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import math
import pickle
import random
import sys
import traceback
import warnings
from collections import Counter
from functools import partial

import pytest
import torch
from random_models import Draw, Model, One, Step, disturb, redraw, steepness

import convfuse

pytestmark = pytest.mark.filterwarnings("ignore")

BATCHES, CASES = 4, 12

# The relative error of one rounding.
UNITS = {
    torch.float64: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
}


class Mismatch(Exception):
    """A fused model behaves differently."""


def expect(condition, words):
    if not condition:
        raise Mismatch(words)


def tuples(value):
    return value if isinstance(value, tuple) else (value,)


def given(model, generator, shape, layout):
    """Inputs in float64 whose values f32 and f16 represent exactly."""
    x = torch.randn(shape, generator=generator).half().double()
    if layout == "channels last" and x.dim() in (4, 5):
        x = x.to(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d)
    if layout == "strided":
        x = x.repeat_interleave(2, -1)[..., ::2]
    return [x] if isinstance(model, One) else [x, model.second(x).half().double()]


def run(model, inputs, seed=7):
    """A model's outputs for copies of inputs, and the inputs afterwards."""
    inputs = [one.clone(memory_format=torch.preserve_format) for one in inputs]
    torch.manual_seed(seed)
    return [one.clone() for one in tuples(model(*inputs))] + inputs


def rounded(unit, module, inputs, value):
    """A hook that disturbs a layer's output."""
    is_norm = "Norm" in type(module).__name__
    largest = steepness(module, inputs[0]) * inputs[0].abs().max().item() if is_norm else 0.0
    disturb(value, 8 * unit, largest)


def disturbed(reference, inputs, unit):
    """The change of values, relative to the largest, if every computed value is randomly rounded: a sum of
    some hundred products by at most eight roundings of the largest sum. Takes the largest of a few tries,
    times a safety factor."""
    exact = run(reference, inputs)
    noisy = copy.deepcopy(reference)
    for module in noisy.modules():
        if isinstance(module, Model):
            module.noise = 8 * unit
        elif not list(module.children()):
            module.register_forward_hook(partial(rounded, unit))
    furthest = [4 * unit * one.abs().max().item() for one in exact]
    for seed in range(3):
        moved = run(noisy, inputs, seed)
        for index, (one, other) in enumerate(zip(moved, exact)):
            distance = (one - other).abs().max().item() if one.numel() else 0.0
            furthest[index] = max(furthest[index], 4 * distance)
    return exact, furthest


def compare(what, actual, expected, bounds):
    for index, (one, other, bound) in enumerate(zip(actual, expected, bounds, strict=True)):
        expect(
            one.shape == other.shape,
            f"{what}: value {index} has shape {tuple(one.shape)}, not {tuple(other.shape)}",
        )
        error = (one.double() - other.double()).abs().max().item() if one.numel() else 0.0
        expect(error <= bound, f"{what}: value {index} differs by {error:.3g}, allowed {bound:.3g}")


def content(model):
    """The state of a module, except for its tensors."""
    return [(type(one), sorted(one.__dict__), one.training) for one in model.modules()]


class Case:
    """A model with all checks on it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = rng = random.Random(seed)
        draw = Draw(seed)
        self.shape, self.other = draw.shape(), draw.shape()
        self.layout = rng.choice(["dense", "dense", "dense", "channels last", "strided"])
        self.dtype = rng.choice([torch.float32, torch.float32, torch.float16, torch.bfloat16])
        self.autocast = self.dtype is torch.bfloat16 and rng.random() < 0.5
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            torch.manual_seed(seed)
            self.model = draw.model(
                torch.randn(self.shape, generator=generator, dtype=torch.float64)
            ).double()
            redraw(self.model, seed)

    def check(self, counts: Counter) -> None:
        """Raises :class:`Mismatch` if a fused model behaves differently."""
        torch._dynamo.reset()
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            inputs = self.inputs(self.shape, self.layout) or self.inputs(self.shape, "dense")
            if inputs is None:
                return
            self.in_type(inputs, counts)

    def inputs(self, shape, layout):
        """Inputs of a shape; ``None`` if PyTorch's layers refuse them, or give empty or non-finite
        outputs."""
        try:
            generator = torch.Generator().manual_seed(self.seed)
            inputs = given(self.model, generator, shape, layout)
            exact, bounds = disturbed(self.model, inputs, UNITS[torch.float64])
        except (RuntimeError, ValueError, IndexError):
            return None
        return inputs if all(bound < math.inf for bound in bounds) else None

    def in_type(self, inputs, counts) -> None:
        """Checks the fused model in a type that the library has kernels for."""
        stored = torch.float32 if self.autocast else self.dtype
        eager = copy.deepcopy(self.model).to(stored)
        # The reference uses the parameters rounded to that type.
        exact, bounds = disturbed(copy.deepcopy(eager).double(), inputs, UNITS[self.dtype])
        narrow = [one.to(stored) for one in inputs]

        def around():
            if not self.autocast:
                return contextlib.nullcontext()
            # With its cache, autocast would use the parameters from when it was entered.
            return torch.autocast("cpu", self.dtype, cache_enabled=False)

        fused = copy.deepcopy(eager)
        before = content(fused)
        with around():
            try:
                expected = run(eager, narrow)
            except (RuntimeError, ValueError):
                return
            convfuse.fuse(fused, precision="accurate", cpu=True)
            actual = run(fused, narrow)
        types = [one.dtype for one in actual], [one.dtype for one in expected]
        expect(types[0] == types[1], f"gives {types[0]}, not {types[1]}")
        # Either both are accurate, or PyTorch is not: it computes variances as differences of squares.
        bounds = [max(bound, 2 * error) for bound, error in zip(bounds, errors(expected, exact))]
        compare("fused beside float64", actual, exact, bounds)
        for name, value in eager.state_dict().items():
            expect(torch.equal(fused.state_dict()[name], value), f"a call changes {name}")
        self.reported(fused, counts)
        with around():
            self.with_networks(fused, narrow, exact, bounds, counts)
            self.with_fewer(fused, narrow, exact, bounds)
            self.changed(eager, fused, inputs, narrow)
            convfuse.unfuse(fused)
            expect(content(fused) == before, "unfuse leaves something")

    def reported(self, fused, counts) -> None:
        """The report matches the graphs that run."""
        report = convfuse.report(fused)
        expect(not report.not_traced, f"not traced: {report.not_traced}")
        taken = [one.chain.split() for one in report.entries if one.taken]
        counts.update(name for names in taken for name in names)
        counts["chains"] += len(taken)
        counts["models"] += bool(taken)

    def with_networks(self, fused, narrow, exact, bounds, counts) -> None:
        """Networks may be taken in place of regions."""
        kernels = fused.__dict__["_convfuse"].kernels
        networks = [one for program in kernels.programs for one in program.networks]
        if networks:
            counts["networks"] += len(networks)
            counts["layers"] += sum(len(one.operators) for one in networks)
            kernels.whole = True
            kernels.build()
            compare("with networks", run(fused, narrow), exact, bounds)
            kernels.whole = self.rng.random() < 0.5

    def with_fewer(self, fused, narrow, exact, bounds) -> None:
        """Any subset of regions may be left to PyTorch."""
        kernels = fused.__dict__["_convfuse"].kernels
        keys = [region.key for program in kernels.programs for region in program.regions]
        kernels.refused = {key for key in keys if self.rng.random() < 0.5}
        kernels.build()
        compare("with fewer regions", run(fused, narrow), exact, bounds)

    def changed(self, eager, fused, inputs, narrow) -> None:
        """Changed parameters take effect immediately, also in copies."""
        copied = (
            pickle.loads(pickle.dumps(fused)) if self.rng.random() < 0.5 else copy.deepcopy(fused)
        )
        redraw(eager, self.seed + 1)
        fused.load_state_dict(eager.state_dict())
        try:
            exact, bounds = disturbed(copy.deepcopy(eager).double(), inputs, UNITS[self.dtype])
            expected = run(eager, narrow)
        except (RuntimeError, ValueError):
            return
        if all(bound < math.inf for bound in bounds):
            theirs = errors(expected, exact)
            bounds = [max(bound, 2 * error) for bound, error in zip(bounds, theirs)]
            compare("after load_state_dict", run(fused, narrow), exact, bounds)
            copied.load_state_dict(eager.state_dict())
            expect("_convfuse" in copied.__dict__, "a copy is not fused")
            compare("a copy", run(copied, narrow), exact, bounds)


def errors(values, exact):
    return [
        (one.double() - other).abs().max().item() if one.numel() else 0.0
        for one, other in zip(values, exact)
    ]


def tried(case: Case, counts: Counter) -> str | None:
    """The failure of a case, if any."""
    try:
        case.check(counts)
    except Mismatch as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  whatever is raised is a failure, with its model
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:300]} ({place.filename.rpartition('/')[2]}:{place.lineno})"
    return None


def least(seed: int, words: str) -> list[str]:
    """The model of a case, reduced by steps that are not needed for the same failure."""
    case = Case(seed)

    def fails(model) -> bool:
        held, case.model = case.model, model
        now = tried(case, Counter())
        case.model = held
        return now is not None and now.split(": ")[0] == words.split(": ")[0]

    for index in reversed(range(len(case.model.steps))):
        model = copy.deepcopy(case.model)
        model.steps[index] = Step("y", model.steps[index].y, 0)
        model.begin()
        if fails(model):
            case.model = model
    about = f"{case.shape} {case.layout} {case.dtype}" + " autocast" * case.autocast
    return [f"case {seed}: {about}", f"    {words}", *case.model.lines("    ")]


OPERATORS = {
    *("conv1d", "conv2d", "conv3d", "group_norm", "instance_norm", "batch_norm"),
    *(
        "relu",
        "leaky_relu",
        "silu",
        "gelu",
        "sigmoid",
        "tanh",
        "hardswish",
        "elu",
        "softplus",
        "mish",
        "prelu",
    ),
    *("clamp", "add", "scale", "max_pool2d", "avg_pool2d", "max"),
    *("sub", "mul", "div", "minimum", "maximum", "hardsigmoid", "min", "sum", "mean", "logsumexp"),
    *("softmax", "log_softmax"),
}


@pytest.fixture(autouse=True)
def one_thread():
    """Values here are so small that threads would mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_fused_models_are_what_they_were(batch):
    counts = Counter()
    for seed in range(batch * CASES, (batch + 1) * CASES):
        words = tried(Case(seed), counts)
        assert words is None, "\n".join(least(seed, words))
    # The cases cover their purpose.
    assert counts["models"] >= CASES // 3 and counts["networks"]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    counts, failed = Counter(), 0
    for seed in range(options.seed, options.seed + options.cases):
        words = tried(Case(seed), counts)
        if words is not None:
            failed += 1
            print(*least(seed, words), sep="\n    ", flush=True)
    print(
        f"{options.cases} cases, {failed} failed; {dict(counts)}; never {sorted(OPERATORS - set(counts))}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
