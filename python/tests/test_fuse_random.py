"""``fuse`` on models drawn at random: beside PyTorch's layers, and beside float64.

``python tests/test_fuse_random.py --cases 1000 --seed 5`` tries more of them, and prints of each that fails the least model that does.
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
from convfuse import _fuse
from convfuse._trace import STATE

pytestmark = pytest.mark.filterwarnings("ignore")

BATCHES, CASES = 10, 25

# Relative errors of one rounding.
UNITS = {
    torch.float64: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
}


class Mismatch(Exception):
    """A fused model does something else."""


def expect(condition, words):
    if not condition:
        raise Mismatch(words)


def tuples(value):
    return value if isinstance(value, tuple) else (value,)


def given(model, generator, shape, layout):
    """Inputs in float64, which f32 and f16 hold."""
    x = torch.randn(shape, generator=generator).half().double()
    if layout == "channels last" and x.dim() in (4, 5):
        x = x.to(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d)
    if layout == "strided":
        x = x.repeat_interleave(2, -1)[..., ::2]
    return [x] if isinstance(model, One) else [x, model.second(x).half().double()]


def run(model, inputs, seed=7):
    """What a model gives for copies of inputs, and what those are afterwards."""
    inputs = [one.clone(memory_format=torch.preserve_format) for one in inputs]
    torch.manual_seed(seed)
    return [one.clone() for one in tuples(model(*inputs))] + inputs


def rounded(unit, module, inputs, value):
    """A hook that changes what a layer gives."""
    is_norm = "Norm" in type(module).__name__
    largest = steepness(module, inputs[0]) * inputs[0].abs().max().item() if is_norm else 0.0
    disturb(value, 8 * unit, largest)


def disturbed(reference, inputs, unit):
    """How far values move if everything that is computed is rounded, that is changed at random, beside the largest value: a sum of some
    hundred products by no more than eight roundings of the largest sum. Of a few tries the furthest, times what luck may hide."""
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


def states(model):
    return {
        path: one.__dict__[STATE] for path, one in model.named_modules() if STATE in one.__dict__
    }


def content(model):
    """What a module is, but for its tensors."""
    return [(type(one), sorted(one.__dict__), one.training) for one in model.modules()]


class Case:
    """One model, and everything that is tried on it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        rng = random.Random(seed)
        draw = Draw(seed)
        self.shape, self.other = draw.shape(), draw.shape()
        self.layout = rng.choice(["dense", "dense", "dense", "channels last", "strided"])
        self.dtype = rng.choice([torch.float32, torch.float32, torch.float16, torch.bfloat16])
        self.autocast = self.dtype is torch.bfloat16 and rng.random() < 0.5
        # Which chains an example finds to be faster; without one none is asked.
        self.timed, self.salt = rng.random() < 0.5, rng.random()
        self.train = rng.random() < 0.2
        self.trained = rng.random()
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            torch.manual_seed(seed)
            self.model = draw.model(
                torch.randn(self.shape, generator=generator, dtype=torch.float64)
            ).double()
            redraw(self.model, seed)

    def is_faster(self, chain: str) -> bool:
        return random.Random(f"{self.salt} {chain}").random() < 0.7

    def fuse(self, model, inputs, cpu):
        if not self.timed:
            return convfuse.fuse(model, precision="accurate", cpu=cpu)

        def judge(_runner, _inputs, _rounds, entry):
            entry.replaced = self.is_faster(entry.chain)
            entry.reason = "drawn"

        before, _fuse.judge = _fuse.judge, judge
        try:
            copies = tuple(one.clone() for one in inputs)
            return convfuse.fuse(model, copies, precision="accurate", cpu=cpu)
        finally:
            _fuse.judge = before

    def check(self, counts: Counter) -> None:
        """Raises :class:`Mismatch` where a fused model is not what it was."""
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            generator = torch.Generator().manual_seed(self.seed)
            inputs = self.inputs(generator, self.shape, self.layout)
            inputs = inputs or self.inputs(generator, self.shape, "dense")
            if inputs is None:
                return
            others = self.inputs(generator, self.other, self.layout) or inputs
            self.in_float64(inputs, others)
            self.in_type(inputs, counts)

    def inputs(self, generator, shape, layout):
        """Inputs of a shape; none where PyTorch's layers refuse them, or give nothing or nothing finite for them."""
        try:
            inputs = given(self.model, generator, shape, layout)
            exact, bounds = disturbed(self.model, inputs, UNITS[torch.float64])
        except (RuntimeError, ValueError, IndexError):
            return None
        return inputs if all(bound < math.inf for bound in bounds) else None

    def in_float64(self, inputs, others) -> None:
        """By PyTorch's layers, but for the order of the graph."""
        model = copy.deepcopy(self.model)
        fused = copy.deepcopy(model)
        before = content(fused)
        self.fuse(fused, inputs, False)
        values = fused.state_dict()
        for name, value in model.state_dict().items():
            expect(torch.equal(values[name], value), f"fuse changes {name}")
        for what, given_now in (("the first call", inputs), ("another shape", others)):
            exact, bounds = disturbed(model, given_now, UNITS[torch.float64])
            compare(what, run(fused, given_now), exact, bounds)
        copied = pickle.loads(pickle.dumps(fused)) if self.salt < 0.5 else copy.deepcopy(fused)
        expect(states(copied).keys() == states(fused).keys(), "a copy is not fused")
        redraw(model, self.seed + 1)
        fused.load_state_dict(model.state_dict())
        exact, bounds = disturbed(model, inputs, UNITS[torch.float64])
        compare("after load_state_dict", run(fused, inputs), exact, bounds)
        copied.load_state_dict(model.state_dict())
        compare("a copy", run(copied, inputs), exact, bounds)
        self.in_training(model, fused, inputs, bounds)
        convfuse.unfuse(fused)
        for one in fused.modules():
            one.eval()
        expect(content(fused) == before, "unfuse leaves something")

    def in_training(self, model, fused, inputs, bounds) -> None:
        """In whole, or one module of it, a copy of which goes back."""
        modules = list(model.modules())
        index = 0 if self.train else int(self.trained * len(modules))
        try:
            model, reference = copy.deepcopy(model), copy.deepcopy(model)
            (reference if self.train else list(reference.modules())[index]).train()
            expected = run(reference, inputs)
        except (RuntimeError, ValueError):
            return
        (fused if self.train else list(fused.modules())[index]).train()
        copied = copy.deepcopy(fused).eval()
        compare("in training", run(fused, inputs), expected, [1e3 * one for one in bounds])
        fused.eval().load_state_dict(model.state_dict())
        copied.load_state_dict(model.state_dict())
        exact = run(model, inputs)
        compare("in inference again", run(fused, inputs), exact, bounds)
        compare("a copy made in training", run(copied, inputs), exact, bounds)

    def in_type(self, inputs, counts) -> None:
        """By this library, in a type that it has kernels for."""
        stored = torch.float32 if self.autocast else self.dtype
        eager = copy.deepcopy(self.model).to(stored)
        # What the parameters are in that type.
        reference = copy.deepcopy(eager).double()
        exact, bounds = disturbed(reference, inputs, UNITS[self.dtype])
        narrow = [one.to(stored) for one in inputs]
        around = torch.autocast("cpu", self.dtype) if self.autocast else contextlib.nullcontext()
        with around:
            try:
                expected = run(eager, narrow)
            except (RuntimeError, ValueError):
                return
            fused = self.fuse(copy.deepcopy(eager), narrow, True)
            actual = run(fused, narrow)
            for name, value in eager.state_dict().items():
                expect(torch.equal(fused.state_dict()[name], value), f"a call changes {name}")
            again = run(copy.deepcopy(fused), narrow)
        types = [one.dtype for one in actual], [one.dtype for one in expected]
        expect(types[0] == types[1], f"gives {types[0]}, not {types[1]}")
        # Both are as near, or PyTorch is not: its variances are differences of squares.
        theirs = [
            (one.double() - other).abs().max().item() if one.numel() else 0.0
            for one, other in zip(expected, exact)
        ]
        bounds = [max(bound, 2 * error) for bound, error in zip(bounds, theirs)]
        compare("fused beside float64", actual, exact, bounds)
        for one, other in zip(actual, again, strict=True):
            expect(torch.equal(one, other), "a copy gives something else")
        self.reported(fused, counts)
        if not self.autocast:
            self.trained_between(eager, fused, inputs, narrow)
        with around:
            convfuse.unfuse(fused)
            for one, other in zip(run(fused, narrow), expected, strict=True):
                expect(torch.equal(one, other), "what was unfused gives something else")

    def trained_between(self, eager, fused, inputs, narrow) -> None:
        """Statistics that are learnt between two calls count in the second one."""
        trained, before = copy.deepcopy(eager), copy.deepcopy(eager.state_dict())
        index = 0 if self.train else int(self.trained * len(list(eager.modules())))
        list(trained.modules())[index].train()
        try:
            run(trained, narrow)
        except (RuntimeError, ValueError):
            return
        list(fused.modules())[index].train()
        run(fused, narrow)
        exact, bounds = disturbed(copy.deepcopy(trained.eval()).double(), inputs, UNITS[self.dtype])
        if all(bound < math.inf for bound in bounds):
            theirs = [
                (one.double() - other).abs().max().item()
                for one, other in zip(run(trained, narrow), exact)
            ]
            bounds = [max(bound, 2 * error) for bound, error in zip(bounds, theirs)]
            compare("after training", run(fused.eval(), narrow), exact, bounds)
        fused.eval().load_state_dict(before)

    def reported(self, fused, counts) -> None:
        """What is said of the model's own code is what runs there."""
        replaced = Counter(one.chain for one in convfuse.report(fused).entries if one.replaced)
        runners = states(fused)[""].runners.values() if "" in states(fused) else ()
        layers = [
            [name for name, _ in one.parsed.layers]
            for one in {id(one): one for one in runners}.values()
        ]
        running = Counter(map(" ".join, layers))
        expect(running <= replaced, f"runs {running}, and says {replaced}")
        counts.update(name for names in layers for name in names)
        counts["chains"] += len(layers)
        counts["models"] += bool(layers)


def tried(case: Case, counts: Counter) -> str | None:
    """What is wrong with a case, if something is."""
    try:
        case.check(counts)
    except Mismatch as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  whatever is raised is a failure, with its model
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:300]} ({place.filename.rpartition('/')[2]}:{place.lineno})"
    return None


def least(seed: int, words: str) -> list[str]:
    """The model of a case, without the steps that it fails without in the same way."""
    case = Case(seed)

    def fails(model) -> bool:
        held, case.model = case.model, model
        now = tried(case, Counter())
        case.model = held
        return now is not None and now.split(": ")[0] == words.split(": ")[0]

    for index in reversed(range(len(case.model.steps))):
        model = copy.deepcopy(case.model)
        model.steps[index] = Step("y", model.steps[index].y, 0)
        if fails(model):
            case.model = model
    about = (
        f"{case.shape} {case.layout} {case.dtype}"
        + " autocast" * case.autocast
        + " timed" * case.timed
    )
    return [f"seed {seed}: {words}", about, *case.model.lines()]


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
}


@pytest.fixture(autouse=True)
def one_thread():
    """Values here are so small that threads would wait for each other alone."""
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
    # What the cases are for is in them.
    assert counts["models"] >= CASES // 4 and counts["chains"] >= CASES // 3


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
