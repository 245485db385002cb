"""Each row of the table with attributes drawn over all that PyTorch takes, in all forms, types, modes and layouts: fused models beside
PyTorch's layers and float64."""

from __future__ import annotations

import contextlib
import copy
import random
from collections import Counter

import pytest
import torch
from attribute_draws import DRAWS, Branch
from random_models import LARGEST, redraw
from support import reasons
from test_random import UNITS, compare, disturbed, errors, expect, one_thread, tuples  # noqa: F401
from torch import nn

import convfuse
from convfuse import _table

pytestmark = pytest.mark.filterwarnings("ignore")

EACH, TOGETHER = 8, 12
"""How many draws there are of each row, and how many are one model."""

ROWS = list(_table.ROWS)
PARTS = 6


def branch(target, number):
    """A drawn model that has an operator, its first input, and its second one."""
    seed = 1000 * number + ROWS.index(target)
    for attempt in range(30):
        drawn = Branch(seed + 100_000 * attempt)
        try:
            DRAWS[target](drawn)
        except (RuntimeError, ValueError, IndexError, TypeError):
            # PyTorch refuses it.
            continue
        y = drawn.y
        if y.is_floating_point() and 0 < y.numel() and y.abs().max() < LARGEST:
            modes = [one.training for one in drawn.model.modules()]
            drawn.model.begin()
            redraw(drawn.model, seed)
            assert modes == [one.training for one in drawn.model.modules()]
            return drawn.model, drawn.values[0].half().double()
    raise AssertionError(f"no legal draw of {target}")


class Branches(nn.Module):
    """Some models beside each other, with two inputs each."""

    def __init__(self, branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, *inputs):
        pairs = zip(self.branches, inputs[::2], inputs[1::2])
        return tuple(branch.run(x, r) for branch, x, r in pairs)


class Setting:
    """What branches of one model have in common."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.dtype = rng.choice([torch.float32, torch.float32, torch.float16, torch.bfloat16])
        self.autocast = self.dtype is not torch.float32 and rng.random() < 0.6
        self.layout = rng.choice(["dense", "dense", "channels last", "strided"])
        self.mode = rng.choice([torch.no_grad, torch.inference_mode])
        if rng.random() < 0.06:
            self.dtype, self.autocast = torch.float64, False

    def __str__(self):
        return f"{self.layout} {self.dtype}{' autocast' * self.autocast} {self.mode.__name__}"

    @property
    def stored(self):
        return torch.float32 if self.autocast else self.dtype

    def laid(self, x):
        if self.layout == "channels last" and x.dim() in (4, 5):
            return x.to(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d)
        return x.repeat_interleave(2, -1)[..., ::2] if self.layout == "strided" else x

    @contextlib.contextmanager
    def around(self):
        with self.mode(), torch.autocast("cpu", self.dtype if self.autocast else torch.bfloat16, self.autocast, False):
            yield


def called(model, inputs):
    """What a model gives, which of that is what of its inputs, and the inputs afterwards."""
    inputs = [one.clone(memory_format=torch.preserve_format) for one in inputs]
    torch.manual_seed(7)
    results = tuples(model(*inputs))
    known = [*inputs, *results]
    shared = [
        [i for i, other in enumerate(known) if other.untyped_storage()._cdata == one.untyped_storage()._cdata]
        for one in results
    ]
    same = [[i for i, other in enumerate(known) if other is one] for one in results]
    return results, shared, same, inputs


def expect_alike(index, ours, plain, setting):
    """The same but for values."""
    expect(ours.dtype is plain.dtype, f"value {index} is of {ours.dtype}, not {plain.dtype}")
    expect(ours.shape == plain.shape, f"value {index} is of {ours.shape}, not {plain.shape}")
    if setting.layout == "dense":
        expect(ours.stride() == plain.stride(), f"value {index} has strides {ours.stride()}, not {plain.stride()}")


def check(model, inputs, setting):
    """Raises where a fused model is not what it was."""
    eager = copy.deepcopy(model).to(setting.stored)
    wide = copy.deepcopy(eager).double()
    narrow = [setting.laid(one.to(setting.stored)) for one in inputs]
    exact, bounds = disturbed(wide, [one.double() for one in narrow], UNITS[setting.dtype])
    ours, before = copy.deepcopy(eager), copy.deepcopy(eager.state_dict())
    convfuse.fuse(ours, precision="accurate", cpu=True)
    count = len(model.branches)
    with setting.around():
        expected, *others, changed = called(eager, narrow)
        actual, *found, written = called(ours, narrow)
        report = convfuse.report(ours)
    expect(not report.not_traced, f"not traced: {report.not_traced}")
    for what, one, other in zip(("shares memory with", "is"), found, others):
        for index in range(count):
            expect(one[index] == other[index], f"value {index} {what} {one[index]}, not {other[index]}")
    for index in range(count):
        expect_alike(index, actual[index], expected[index], setting)
    for index, (one, other, given) in enumerate(zip(written, changed, narrow)):
        # Of a pair, one is as good as the other to say which branch it is.
        if torch.equal(other, given):
            expect(torch.equal(one, given), f"value {index // 2} changes an input")
    plain = [*expected, *changed]
    bounds = [max(bound, 2 * error) for bound, error in zip(bounds, errors(plain, exact))]
    compare("beside float64", [*actual, *written], exact, bounds)
    state = ours.state_dict()
    for name, value in eager.state_dict().items():
        if torch.equal(value, before[name]):
            expect(torch.equal(state[name], value), f"a call changes {name}")
        else:
            bound = 1e-5 if setting.dtype in (torch.float32, torch.float64) else 1e-2
            torch.testing.assert_close(state[name], value, rtol=bound, atol=bound, msg=lambda words, name=name: f"{name}: {words}")
    if setting.dtype is torch.float64:
        expect(report.replaced == 0, "there are kernels for float64")
    return report


def is_legal(model, inputs, setting):
    """Whether PyTorch has kernels for a model in this setting."""
    with setting.around():
        try:
            copy.deepcopy(model).to(setting.stored).run(*(setting.laid(one.to(setting.stored)) for one in inputs))
        except (RuntimeError, NotImplementedError):
            return False
    return True


def tried(targets, seed, counts):
    """Checks drawn models of these operators, together; one that fails, by itself."""
    setting, branches = Setting(seed), []
    for target, number in targets:
        model, x = branch(target, number)
        torch.manual_seed(seed)
        with torch.no_grad():
            r = copy.deepcopy(model).second(x).half().double()
        if is_legal(model, [x, r], setting):
            branches.append((target, model, [x, r]))
    counts["legal"] += len(branches)

    def together(some):
        torch._dynamo.reset()
        models = [copy.deepcopy(model) for _, model, _ in some]
        return check(Branches(models), [one for *_, inputs in some for one in inputs], setting)

    try:
        report = together(branches)
        counts["regions"] += report.replaced
    except Exception as first:  # noqa: BLE001  whatever is raised is a failure, with its model
        for one in branches:
            try:
                together([one])
            except Exception as error:  # noqa: BLE001
                target, model, (x, _) = one
                lines = [f"{target}: {setting} {tuple(x.shape)}", *model.lines("    ")]
                raise AssertionError("\n".join([*lines, f"{type(error).__name__}: {error}"])) from None
        raise first from None


@pytest.fixture
def reached(monkeypatch):
    """How often rows added something to a path, and how often they refused to."""
    counts = Counter()

    def counted(target, row):
        def run(node, path):
            try:
                row(node, path)
            except _table.Refused:
                counts[target, "refused"] += 1
                raise
            counts[target, "taken"] += 1

        return run

    for target, row in _table.ROWS.items():
        monkeypatch.setitem(_table.ROWS, target, counted(target, row))
    return counts


def test_each_row_has_a_draw():
    assert set(DRAWS) == set(_table.ROWS)


@pytest.mark.parametrize("part", range(PARTS))
def test_attributes_mean_the_same(part, reached):
    mine = [(target, number) for target in ROWS[part::PARTS] for number in range(EACH)]
    random.Random(part).shuffle(mine)
    counts = Counter()
    for start in range(0, len(mine), TOGETHER):
        tried(mine[start : start + TOGETHER], 100 * part + start, counts)
    missing = [target for target in ROWS[part::PARTS] if not reached[target, "taken"]]
    assert not missing, f"not taken in any draw: {missing}"
    assert counts["legal"] > 0.9 * len(mine) and counts["regions"] > len(mine) / 2
