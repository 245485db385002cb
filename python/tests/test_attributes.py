"""Each row of the table with attributes drawn over everything that PyTorch accepts, in all forms, types,
modes and layouts. Fused models are compared with PyTorch's layers and with float64."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from collections import Counter
from functools import partial

import pytest
import torch
from attribute_counts import IN_REGIONS
from attribute_draws import COUNTS, DRAWS, Branch
from random_models import LARGEST, redraw
from support import chains, fused
from test_random import UNITS, compare, disturbed, errors, expect, one_thread, tuples  # noqa: F401
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

import convfuse
from convfuse import _backend, _table, ops
from convfuse import nn as fused_nn
from convfuse._chain import evaluate, parsed

pytestmark = pytest.mark.filterwarnings("ignore")

TOGETHER = 12
"""How many draws are one model."""

ROWS = list(_table.ROWS)
PARTS = 6


def branch(target, number):
    """A random model that contains an operator, with its first and second input."""
    seed = 1000 * number + ROWS.index(target)
    for attempt in range(30):
        # Some operands are refused in all forms.
        drawn = Branch(seed + 100_000 * attempt, number + attempt // 10)
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
    """Several models side by side, with two inputs each."""

    def __init__(self, branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, *inputs):
        pairs = zip(self.branches, inputs[::2], inputs[1::2])
        return tuple(branch.run(x, r) for branch, x, r in pairs)


class Setting:
    """The common settings of a model's branches."""

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
    """A model's outputs, which tensors share their memory, which tensors they are themselves, and the inputs
    afterwards."""
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
    """Expects equal properties of tensors, except for their values."""
    expect(ours.dtype is plain.dtype, f"value {index} is of {ours.dtype}, not {plain.dtype}")
    expect(ours.shape == plain.shape, f"value {index} is of {ours.shape}, not {plain.shape}")
    if setting.layout == "dense":
        expect(ours.stride() == plain.stride(), f"value {index} has strides {ours.stride()}, not {plain.stride()}")


def check(model, inputs, setting):
    """Raises if a fused model behaves differently."""
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
        # Either element of a pair identifies its branch.
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
            torch.testing.assert_close(state[name], value, rtol=bound, atol=bound, msg=partial("{}: {}".format, name))
    expect(len(ours.__dict__["_convfuse"].kernels.programs) == 1, "it is more than one graph")
    regions = ours.__dict__["_convfuse"].kernels.programs[0].regions
    expect(all(one.dtype in _table.TYPES for one in regions), "a region of another type")
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
    """Checks random models of these operators together, and after a failure one by one."""
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
    """Counts how often each row extended a path, and how often it refused."""
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


@pytest.fixture
def found(monkeypatch, reached):
    """The chains of the regions found, with the shapes and the type of their inputs."""
    chains, forget = [], _backend.Program.forget

    def noted(program):
        for region in program.regions:
            shapes = [tuple(one.meta["val"].shape) for one in region.inputs]
            chains.append((region.text, shapes, region.dtype))
            reached.update((node.target, "in a region") for node in region.nodes)
        forget(program)

    monkeypatch.setattr(_backend.Program, "forget", noted)
    return chains


def test_each_row_has_a_draw():
    assert set(DRAWS) == set(_table.ROWS)


@pytest.mark.parametrize("part", range(PARTS))
def test_attributes_mean_the_same(part, reached, found):
    mine = [(target, number) for target in ROWS[part::PARTS] for number in range(COUNTS[target])]
    random.Random(part).shuffle(mine)
    counts = Counter()
    for start in range(0, len(mine), TOGETHER):
        tried(mine[start : start + TOGETHER], 100 * part + start, counts)
    missing = [target for target in ROWS[part::PARTS] if not reached[target, "taken"]]
    assert not missing, f"not taken in any draw: {missing}"
    names = {target: f"{target}".removeprefix("aten.").removesuffix(".default") for target in ROWS[part::PARTS]}
    fewer = {
        name: f"{reached[target, 'in a region']}, not {IN_REGIONS.get(name, 1)}"
        for target, name in names.items()
        if reached[target, "in a region"] < IN_REGIONS.get(name, 1)
    }
    assert not fewer, f"in fewer regions than before: {fewer}"
    assert counts["legal"] > 0.9 * len(mine) and counts["regions"] > len(mine) / 2
    for index, chain in enumerate(found):
        chains_mean_the_same(*chain, random.Random(index))


def with_defaults(text, rng, share):
    """A chain with some attributes left to their defaults, or the chain itself if none can be."""
    content = json.loads(text)
    for layer in content["layers"]:
        for attributes in layer.values():
            for name in [one for one in attributes if one not in ("name", "training") and rng.random() < share]:
                held = attributes.pop(name)
                try:
                    parsed(json.dumps(content))
                except ValueError:
                    attributes[name] = held
    return json.dumps(content)


def chains_mean_the_same(text, shapes, dtype, rng):
    """Checks that the library, Python's layers and the known output properties agree."""
    for one in dict.fromkeys((text, with_defaults(text, rng, 0.3), with_defaults(text, rng, 1.0))):
        known, generator = parsed(one), torch.Generator().manual_seed(3)
        inputs = [torch.randn(shape, generator=generator) for shape in shapes]
        tensors = [torch.rand(shape, generator=generator) + 0.5 for _, shape, _ in known.parameters]
        theirs = [one.clone() for one in tensors]
        try:
            expected = evaluate(known, inputs[0], theirs, inputs[1:], len(shapes[0]) - 2)
        except RuntimeError:
            # Defaults may belong to another shape.
            assert one != text
            continue
        layout = rng.choice(["dense", "channels last", "strided"])
        if layout == "channels last" and len(shapes[0]) == 4:
            inputs[0] = inputs[0].to(memory_format=torch.channels_last)
        elif layout == "strided":
            inputs[0] = inputs[0].repeat_interleave(2, -1)[..., ::2]
        with torch.no_grad():
            actual = ops.run(inputs, tensors, one)
        bound, words = 1e-4 * max(1.0, expected.abs().max().item()), "{}: {}".format
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=bound, msg=partial(words, one))
        for ours, plain in zip(tensors, theirs):
            torch.testing.assert_close(ours, plain)
        with FakeTensorMode() as mode, torch.no_grad():
            fake = [[mode.from_tensor(one) for one in some] for some in (inputs, tensors)]
            guess = ops.operator_of(one)(*fake, one, False)
        assert (guess.shape, guess.stride()) == (actual.shape, actual.stride()), one


# Bounds and factors that are not finite, or that float32 does not represent.
NOT_FINITE = (
    "torch.clamp(y, -inf, 0.5)",
    "torch.clamp(y, max=nan)",
    "torch.clamp(y, nan, 1)",
    "torch.clamp(y, 0.5, -0.5)",
    "torch.clamp(y, torch.tensor(nan))",
    "F.hardtanh(y, -inf, 1.0)",
    "F.leaky_relu(y, inf)",
    "F.leaky_relu(y, nan)",
    "F.elu(y, inf)",
    "F.softplus(y, 1, inf)",
    "F.softplus(y, 1, -inf)",
    "F.softplus(y, 0.0, 20)",
    "F.softplus(y, -1.0, 20)",
    "y * inf",
    "y * 1e39",
    "y * 1e-46",
    "y + nan",
    "y - 16777217",
    "y / 0",
    "y / inf",
    "y * 2**40",
    "(y * 1j).imag",
    "torch.add(y, 1, alpha=inf)",
    "torch.sub(1, y, alpha=nan) if False else torch.rsub(y, 1, alpha=nan)",
    "torch.minimum(y, torch.tensor(nan))",
    "torch.maximum(torch.tensor(inf), y)",
    "torch.maximum(torch.full((), -inf), y)",
    "F.pad(y, [1, 1, 1, 1], value=inf)",
    "F.pad(y, [1, 1, 1, 1], value=nan)",
    "F.group_norm(y, 2, eps=inf)",
    "F.batch_norm(y, y.new_zeros(4), y.new_ones(4), eps=nan)",
    "F.layer_norm(y, y.shape[1:], eps=inf)",
    "F.prelu(y, y.new_full((4,), inf))",
)

# Functions of non-finite values. For infinity, PyTorch's gelu gives NaN on CPUs and infinity on GPUs.
OF_ALL = (
    *("F.relu(y)", "F.silu(y)", "torch.sigmoid(y)", "torch.tanh(y)", "F.hardswish(y)", "F.hardsigmoid(y)"),
    *("F.mish(y)", "F.leaky_relu(y, 0.1)", "F.softplus(y)", "F.elu(y)", "F.hardtanh(y)", "torch.clamp(y, -1, 1)"),
    *("y.clamp_min(0.5)", "F.gelu(y, approximate='tanh')", "F.prelu(y, torch.full((4,), 0.5))", "-y"),
    *("y * 0", "y + 1", "1 - y", "torch.minimum(y, torch.tensor(0.5))", "torch.maximum(y, torch.tensor(0.5))"),
    *("y.amax(1)", "y.amin((2, 3))", "y.sum(1)", "y.mean((2, 3), keepdim=True)", "y.max(1)[0]"),
    *("F.softmax(y, 1)", "F.log_softmax(y, 1)", "torch.logsumexp(y, 1)", "F.max_pool2d(y, 2)", "F.avg_pool2d(y, 2)"),
    *("y * torch.sigmoid(y)", "y * F.hardsigmoid(y)", "y * torch.tanh(F.softplus(y))", "y * F.relu6(y + 3) / 6"),
    *("F.relu(y.half().float())", "F.relu(y.bfloat16().float())", "y.half().float() - y.bfloat16().float()"),
)


class Texts(nn.Module):
    """Several functions, as text, of a maximum pool's output."""

    def __init__(self, texts):
        super().__init__()
        names = {"torch": torch, "F": F, "inf": float("inf"), "nan": float("nan")}
        self.functions = [eval(f"lambda y: {text}", names) for text in texts]  # noqa: S307  text of this file

    def forward(self, x):
        return [function(F.max_pool2d(x, 2)) for function in self.functions]


@pytest.mark.parametrize("texts", [NOT_FINITE, OF_ALL], ids=["attributes", "values"])
def test_what_is_not_finite_is_as_in_pytorch(texts):
    torch.manual_seed(5)
    plain, x = Texts(texts), torch.randn(2, 4, 12, 12)
    if texts is OF_ALL:
        for index, one in enumerate((float("nan"), float("inf"), -float("inf"), 5e37, -5e37, 1e-42, 88.8, -104.0)):
            x[0, index // 3, 1 + 4 * (index % 3), 2] = one
    ours = fused(plain)
    with torch.no_grad():
        for text, y, z in zip(texts, ours(x), plain(x)):
            torch.testing.assert_close(y, z, rtol=1e-5, atol=1e-5, equal_nan=True, msg=partial("{}: {}".format, text))
    assert len(chains(ours)) >= len(texts) / 2


class Plain(nn.Module):
    """Layers with all kinds of parameters, and a second input."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.act = nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.PReLU(8)
        self.gain, self.last = nn.Parameter(torch.rand(8, 1, 1)), nn.BatchNorm2d(8)

    def forward(self, x, r):
        return torch.tanh(self.last(self.act(self.norm(self.conv(x)) * self.gain) + r))


def chain_of(plain):
    """The same as a module of the library with shared parameters."""
    norm = {"name": "last", "training": True} if plain.training else {"name": "last"}
    layers = [
        {"conv2d": {"name": "conv", "out_channels": 8, "kernel_size": 3}},
        *({"group_norm": {"name": "norm", "num_groups": 2}}, {"scale": {"name": "gain"}}),
        *({"prelu": {"name": "act", "num_parameters": 8}}, {"add": {"input": "r"}}, {"batch_norm": norm}, {"tanh": {}}),
    ]
    ours = fused_nn.Chain(3, layers)
    ours.load_state_dict(plain.state_dict())
    return ours.train(plain.training)


def as_function(plain):
    """The same as a call of the operator with a module's parameters."""
    module = chain_of(plain)

    class Call(nn.Module):
        def __init__(self):
            super().__init__()
            self.own = module

        def forward(self, x, r):
            return ops.run([x, r], module.chain_parameters(), module.chain)

    return Call()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("door", [fused, chain_of, as_function])
def test_whichever_tensor_wants_gradients_has_them(door, training):
    """Each input and parameter alone, all of them and none, with gradients recorded and without."""
    torch.manual_seed(6)
    plain = Plain().train(training)
    ours, inputs = door(plain), [torch.randn(2, 3, 9, 8), torch.randn(2, 8, 7, 6)]
    names = ["x", "r", *dict(plain.named_parameters())]
    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        for wanted in [[], *([one] for one in names), names]:
            found = []
            for model in (plain, ours):
                leaves = [one.clone().requires_grad_(name in wanted) for name, one in zip(names, inputs)]
                for name, one in model.named_parameters():
                    one.requires_grad_(name.removeprefix("own.") in wanted)
                    one.grad = None
                with mode():
                    y = model(*leaves)
                expect(y.requires_grad == (bool(wanted) and mode is torch.enable_grad), f"{wanted} {mode}")
                if y.requires_grad:
                    y.square().sum().backward()
                every = [*leaves, *model.parameters()]
                # An operator does not know the number of batches.
                counted = door is as_function
                buffers = [one for one in model.buffers() if not (counted and one.dtype is torch.long)]
                found.append([y.detach(), *(one.grad for one in every), *buffers])
            for one, other in zip(*found, strict=True):
                expect((one is None) == (other is None), f"{wanted} {mode}: whether there is a gradient")
                if one is not None:
                    torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-4)
    if door is fused:
        assert {one.split()[0] for one in chains(ours)} == {"conv2d"}
        # The backend checks single inputs that require gradients, before parameters.
        assert ours.__dict__["_convfuse"].kernels.left == {"gradients are recorded": 2}
