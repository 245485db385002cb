"""Draws of attributes for each row of the table: a few steps with the row's operator, whose arguments are
drawn over everything that PyTorch accepts."""

from __future__ import annotations

import operator  # noqa: F401  steps name it
import random
from collections.abc import Callable

import torch
from random_models import Model, Step, Two
from torch import nn
from torch.nn import functional as F  # noqa: F401  steps name it

aten = torch.ops.aten


class Branch:
    """Draws a model of a few steps, each after the previous one."""

    def __init__(self, seed: int, number: int = 0) -> None:
        self.rng, self.number = random.Random(seed), number
        self.axes = self.pick(1, 2, 2, 2, 3)
        self.batch, self.factors = self.pick(1, 2, 3), 0
        self.model: Model = Two().eval()
        self.values: list[torch.Tensor] = []

    def pick(self, *choices):
        return self.rng.choice(choices)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def each(self, *choices):
        """One number for all axes, or one for each."""
        one = tuple(self.pick(*choices) for _ in range(self.axes))
        return self.pick(one, one, one[0])

    def turn(self, *choices):
        """Chooses by turns over the draws of an operator."""
        return choices[self.number % len(choices)]

    def option(self, **choices) -> str:
        """Some of these named arguments with one of their values each. One argument takes its values by
        turns, the others are random."""
        names = [*choices]
        place, whose = divmod(self.number, len(names))
        taken = {name: self.pick(*some) for name, some in choices.items() if self.chance(0.6)}
        some = choices[names[whose]]
        taken[names[whose]] = some[(place + 1) % len(some)]
        return "".join(f", {name}={one!r}" for name, one in taken.items())

    def begin(self, *axes: int) -> None:
        """Draws the input, with one of these numbers of axes, if given."""
        self.axes = self.pick(*axes) if axes else self.axes
        extents = [self.rng.randint(4, 7) for _ in range(self.axes)]
        # With equal extents, a wrong axis does not give a wrong shape.
        extents = [extents[0]] * self.axes if self.chance(0.3) else extents
        # Few inputs have no batch.
        batch = [self.batch] if self.chance(0.96) else []
        generator = torch.Generator().manual_seed(self.rng.randrange(2**30))
        shape = [*batch, self.pick(4, 6), *extents]
        self.values = [torch.randn(shape, generator=generator, dtype=torch.float64)]

    @property
    def y(self) -> torch.Tensor:
        return self.values[-1]

    @property
    def channels(self) -> int:
        return self.y.shape[-1 - self.axes]

    def do(self, text: str, z: int | None = None) -> None:
        """Adds a step, which may also read the value ``z``."""
        z = len(self.values) - 1 if z is None else z
        r = None
        if "r" in compile(text, "", "eval").co_names:
            if not any("r" in compile(one.text, "", "eval").co_names for one in self.model.steps):
                self.model.like = len(self.values) - 1
            r = torch.ones_like(self.values[self.model.like])
        step = Step(text, len(self.values) - 1, z)
        self.model.steps.append(step)
        value = self.model.compute([one.clone() for one in self.values], step, r)
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{text} gives no tensor")
        self.values.append(value)

    def layer(self, text: str) -> None:
        self.model.layers.append(eval(text).double())  # noqa: S307  text of this file
        self.do(f"own.layers[{len(self.model.layers) - 1}](y)")

    def factor(self, *shape: int) -> str:
        """A parameter."""
        name, self.factors = f"factor{self.factors}", self.factors + 1
        self.model.register_parameter(name, nn.Parameter(torch.ones(shape, dtype=torch.float64)))
        return f"own.{name}"

    def affine(self, *shape: int) -> str:
        """Weight and bias of a norm, each optional, sometimes of a wider type."""
        wide = self.pick("", "", "", ".to(torch.promote_types(y.dtype, torch.float32))")
        return ", ".join(self.factor(*shape) + wide if self.chance(0.7) else "None" for _ in range(2))

    def stem(self, *axes: int) -> None:
        """Draws the beginning of a region."""
        self.begin(*axes)
        c, n = self.channels, self.axes
        kind = self.pick("conv", "conv", "norm", "both", "pool" if n > 1 else "conv")
        if kind in ("conv", "both"):
            self.layer(f"nn.Conv{n}d({c}, {self.pick(4, 6)}, {self.pick(1, 3)}, padding=1)")
        if kind in ("norm", "both"):
            c = self.channels
            norms = (f"nn.GroupNorm(2, {c})", f"nn.BatchNorm{n}d({c})", f"nn.InstanceNorm{n}d({c})")
            self.layer(self.pick(*norms))
        if kind == "pool":
            self.do(f"F.max_pool{n}d(y, 2)")

    def tail(self) -> None:
        if self.chance(0.4):
            self.do(self.pick("F.relu(y)", "torch.tanh(y)", "y * 0.5 + 1", "F.leaky_relu(y, 0.3)"))


DRAWS: dict[torch._ops.OpOverload, Callable[[Branch], None]] = {}
COUNTS: dict[torch._ops.OpOverload, int] = {}
"""How many draws are made of a row: more where it has more conditions."""


def draws(target, count=5):
    def add(draw):
        DRAWS[target], COUNTS[target] = draw, count
        return draw

    return add


def convolution(b: Branch, transposed: bool | None = None, **fixed) -> str:
    """A convolution of the last value, as text."""
    c, n = b.channels, b.axes
    groups = b.pick(1, 1, 2, c)
    filters = groups * b.pick(1, 2) if groups == c else b.pick(4, 6)
    bias, dilation, stride = b.pick(True, False), b.each(1, 1, 2), b.each(1, 1, 2)
    common = f"{c}, {filters}, {b.each(1, 2, 3)}, groups={groups}, bias={bias}, dilation={dilation}"
    if b.chance(0.3) if transposed is None else transposed:
        more = b.each(0, 0, 1)
        return f"nn.ConvTranspose{n}d({common}, stride={stride}, padding={b.each(0, 1)}, output_padding={more})"
    mode = b.pick("zeros", "zeros", "reflect", "replicate", "circular")
    padding = b.pick("'same'", "'valid'", b.each(0, 1), b.each(0, 1, 2))
    padding, mode = fixed.get("padding", padding), fixed.get("mode", mode)
    stride = 1 if padding == "'same'" else stride
    return f"nn.Conv{n}d({common}, stride={stride}, padding={padding}, padding_mode='{mode}')"


@draws(aten.convolution.default, 24)
def _convolution(b):
    b.begin()
    if b.chance(0.3):
        b.layer(f"nn.GroupNorm(2, {b.channels})")
    if b.chance(0.1):
        weight = b.factor(4, b.channels, *[1] * b.axes)
        b.do(f"F.conv{b.axes}d(y.bfloat16(), {weight}.bfloat16()).to(r.dtype)")
        return
    b.layer(convolution(b))
    if b.chance(0.2):
        b.layer(convolution(b))
    if b.chance(0.5):
        b.layer(f"nn.GroupNorm({b.pick(1, 2, b.channels)}, {b.channels})")
    b.tail()


def padded(b, axes, mode):
    """Padding, mostly symmetric, with possible following steps."""
    b.begin(*axes)
    if b.chance(0.3):
        b.layer(f"nn.GroupNorm(2, {b.channels})")
    for _ in range(b.pick(1, 1, 1, 2)):
        widths = [one for _ in range(b.axes) for one in [b.pick(0, 1, 1, 2)] * 2]
        if b.chance(0.2):
            widths[b.rng.randrange(len(widths))] += b.pick(1, 1, -1)
        if b.chance(0.1):
            widths = [0] * len(widths)
        if mode == "constant":
            widths = b.pick(widths, widths, widths[2:], [*widths, 1, 1])
            b.do(f"F.pad(y, {widths or [1, 1]}, value={b.pick(0, 0, 0.0, 0.5)})")
        else:
            b.do(f"F.pad(y, {widths}, '{mode}')")
    if b.chance(0.85):
        transposed, padding = b.chance(0.1), b.pick(0, 0, 0, 1)
        b.layer(convolution(b, transposed, padding=padding, mode="zeros"))
    if b.chance(0.5):
        b.layer(f"nn.GroupNorm(2, {b.channels})")
    b.tail()


def _pads():
    kinds = {"reflect": "reflection", "replicate": "replication"}
    for mode, name in kinds.items():
        for axes in (1, 2, 3):
            target = getattr(aten, f"{name}_pad{axes}d").default
            draws(target, 12)(lambda b, axes=axes, mode=mode: padded(b, [axes], mode))
    draws(aten.constant_pad_nd.default, 40)(lambda b: padded(b, [], "constant"))


_pads()

EPS = (1e-5, 1e-3, 0.5)


@draws(aten.native_group_norm.default, 14)
def _group_norm(b):
    b.stem() if b.chance(0.5) else b.begin()
    c, eps = b.channels, b.pick(*EPS)
    groups = b.pick(1, 2, c)
    if b.chance(0.5):
        b.layer(f"nn.GroupNorm({groups}, {c}, {eps}, {b.pick(True, False)})")
    else:
        b.do(f"F.group_norm(y, {groups}, {b.affine(c)}, {eps})")
    b.tail()


def batch_norm(b, training):
    """A batch norm as a module, or as a function of the model's tensors."""
    # Without momentum, Python reads the number of batches of a norm in training.
    c, eps, momentum = b.channels, b.pick(*EPS), b.pick(0.1, 0.7, 0.0, 1.0, 0.3 if training else None)
    b.model.train(training)
    if b.chance(0.6):
        options = f"eps={eps}, momentum={momentum}, affine={b.pick(True, False)}"
        tracked = training is not None and b.chance(0.7)
        b.layer(f"nn.BatchNorm{b.axes}d({c}, {options}, track_running_stats={tracked})")
        b.model.layers[-1].train(training)
        if tracked and b.chance(0.25):
            name = f"own.layers[{len(b.model.layers) - 1}].running_{b.pick('mean', 'var')}"
            b.do(b.pick(f"y + {name}.sum()", f"y * {name}[0]"))
        return
    for name in ("running_mean", "running_var"):
        if not hasattr(b.model, name):
            b.model.register_buffer(name, torch.ones(c, dtype=torch.float64))
    running = b.pick(*["own.running_mean, own.running_var"] * 4, "own.running_mean[:], own.running_var")
    if b.chance(0.15):
        b.do("y + own.running_var[0]")
    if training and b.chance(0.3):
        running = "None, None"
    momentum = 0.25 if momentum is None else momentum
    if training and b.chance(0.4):
        text = f"torch.native_batch_norm(y, {b.factor(c)}, {b.factor(c)}, {running}, True, {momentum}, {eps})"
        b.do(f"{text}{b.pick('[0]', '[1]')}")
        return
    b.do(f"F.batch_norm(y, {running}, {b.affine(c)}, {training}, {momentum}, {eps})")


@draws(aten._native_batch_norm_legit_no_training.default, 14)
def _batch_norm(b):
    b.stem() if b.chance(0.7) else b.begin()
    batch_norm(b, False)
    b.tail()


@draws(aten._native_batch_norm_legit_functional.default, 16)
def _batch_norm_in_training(b):
    b.batch = 3
    b.begin()
    if b.chance(0.6):
        b.layer(f"nn.Conv{b.axes}d({b.channels}, 6, 2)")
    batch_norm(b, True)
    b.tail()


def instance_norm(b):
    c, eps = b.channels, b.pick(*EPS)
    if b.chance(0.6):
        options = f"eps={eps}, momentum={b.pick(0.1, 0.7)}, affine={b.pick(True, False)}"
        b.layer(f"nn.InstanceNorm{b.axes}d({c}, {options}, track_running_stats={b.chance(0.2)})")
        b.model.layers[-1].train(b.chance(0.5))
    else:
        b.do(f"F.instance_norm(y, None, None, {b.affine(c)}, eps={eps})")


@draws(aten._native_batch_norm_legit.no_stats, 12)
def _norm_of_its_input(b):
    b.batch = b.pick(1, 3)
    b.stem() if b.chance(0.5) else b.begin()
    if b.batch == 1 and b.chance(0.6):
        instance_norm(b)
    else:
        c = b.channels
        if b.chance(0.5):
            b.layer(f"nn.BatchNorm{b.axes}d({c}, {b.pick(*EPS)}, None, {b.pick(True, False)}, False)")
        else:
            b.do(f"F.batch_norm(y, None, None, {b.affine(c)}, True, 0.3, {b.pick(*EPS)})")
    b.tail()


@draws(aten.view.default, 40)
def _view(b):
    b.batch = b.pick(2, 3)
    kind = b.turn("norm", "softmax", "view", "other axes")
    b.stem() if b.chance(0.5) or kind == "other axes" else b.begin()
    rank = b.y.dim()
    if kind == "other axes":
        b.do(f"y.flatten(1, 2).softmax({b.pick(2, -1) if rank > 3 else 0}).view(y.shape)")
    elif kind == "norm":
        instance_norm(b)
    elif kind == "softmax":
        first = b.rng.randrange(rank - 1)
        last = b.rng.randrange(first, rank)
        left = rank - (last - first)
        dim = b.pick(first, b.rng.randrange(-left, left))
        back = b.pick("y.shape", "y.shape", "-1, y.shape[-1]")
        b.do(f"y.flatten({first}, {last}).{b.pick('softmax', 'log_softmax')}({dim}).view({back})")
    else:
        one = "y.reshape(1, -1, *y.shape[2:])"
        texts = ("y.reshape(-1, *y.shape[2:])", one, one, one, "y.reshape(1, y.shape[0], -1)")
        b.do(b.pick(*texts, "F.layer_norm(y.flatten(1), y.flatten(1).shape[1:]).view(y.shape)"))
        if b.y.dim() > 2 and b.y.shape[0] == 1:
            c, shape = b.y.shape[1], b.values[-2].shape
            norm = f"F.batch_norm(y, None, None, {b.factor(c)}, {b.factor(c)}, True)"
            back = b.pick(*[f".view({tuple(shape)})"] * 4, ".view(-1, *y.shape[3:])", "")
            b.do(b.pick(norm, norm, "F.group_norm(y, 1)") + back)
    b.tail()


@draws(aten.native_layer_norm.default, 16)
def _layer_norm(b):
    b.stem() if b.chance(0.6) else b.begin()
    if b.chance(0.15):
        b.do(b.pick("y.flatten(1)", "y.amax(1)"))
    first = 0 if b.chance(0.15) else b.rng.randrange(1, b.y.dim())
    shape, eps = tuple(b.y.shape[first:]), b.pick(*EPS)
    if b.chance(0.6):
        affine = f"{b.pick(True, False)}, bias={b.pick(True, False)}"
        b.layer(f"nn.LayerNorm({shape}, {eps}, {affine})")
    else:
        b.do(f"F.layer_norm(y, {shape}, {b.affine(*shape)}, {eps})")
    b.tail()


NUMBERS = (0.5, 2, True, -1, 1, -0.75)


def operand(b, place: int) -> str:
    """A second operand: a number, a further input, an earlier value, a parameter or a constant, of any shape
    and type."""
    c, n, ones, last = b.channels, b.y.dim(), [1] * b.axes, b.y.shape[-1]
    number = b.pick(*NUMBERS)
    inputs = ["r", "r", "r[:1]", "r.double()", "r.half()", "r.half()", "r.bfloat16()", "(r > 0)", "(r * 4).int()"]
    values = ["y", "z", "z", "z.mean(-1, keepdim=True)", "torch.ones_like(y) * 2", "y.new_full((), 0.5)"]
    shapes = ([c, *ones], [c, *ones], [1, c, *ones], [], [1], [1, 1, *ones], [1] * (n + 1), [last], [c], [2, *[1] * n])
    shapes = (*shapes, b.y.shape[1:], b.y.shape, [b.y.shape[0], c, *ones])
    constants = [f"torch.tensor({number})", f"torch.tensor([{number}])", f"torch.tensor({[number] * last})"]
    constants += [f"torch.tensor({[number] * c}).view({[c, *ones]})", f"torch.full({(c, *ones)}, {number}, dtype=y.dtype)"]
    for shape in ((), (1,), (1,) * n):
        constants += [f"torch.full({shape}, {number}, dtype={one})" for one in ("torch.float64", "y.dtype")]
    known = [*map(str, NUMBERS), *inputs, *values, *constants]
    place %= len(known) + len(shapes) + 1
    if place < len(known):
        return known[place]
    if place == len(known):
        return f"{b.factor(c, *ones)}.float()"
    return b.factor(*shapes[place - len(known) - 1])


def gated(b):
    """A value times a function of it, written in parts as layers are, with and without deviations."""
    three, six, low = b.pick(3, 3, 3.0, 2), b.pick(6, 6, 5), b.pick(0, 0, -1)
    sixth = b.pick(f" / {six}", " * (1 / 6)")
    softplus = b.pick("F.softplus(y)", "F.softplus(y)", "F.softplus(y, 2)", "F.softplus(y, 1, 10)", "F.softplus(y, 1.0, 20.0)")
    functions = ["torch.sigmoid(y)", "F.hardsigmoid(y)", f"torch.tanh({softplus})", "torch.tanh(y)", "y"]
    functions += [f"torch.clamp(y + {three}, {low}, 6){sixth}", f"torch.clamp((y + {three}){sixth}, {low}, 1)"]
    function = b.pick(*functions, *functions[2:3], *functions[5:], *functions[5:])
    forms = (f"y * {function}", f"{function} * y", f"y.mul({function})", f"y * torch.clamp(y + {three}, 0, {six}){sixth}")
    if b.chance(0.4):
        b.do(b.pick(*(f"y * {one}" for one in functions)))
        b.tail()
        return
    more = ("y * (s := torch.sigmoid(y)) + s", f"y * torch.sigmoid(y) {b.pick('+', '*')} y")
    b.do(b.pick(*forms, f"(y * torch.clamp(y + 3, 0, 6)){sixth}", *more))
    b.tail()


FIVE = ("add", "sub", "rsub", "mul", "div")


def arithmetic(b, name):
    """Sums and products in all their forms."""
    b.stem()
    if name == "mul" and b.number >= 24:
        gated(b)
        return
    earlier = len(b.values) - 1
    for _ in range(b.pick(0, 0, 1, 2)):
        b.do(b.pick("torch.tanh(y)", "F.relu(y)", "y * 0.5", "-y", "y.clone()"))
    for turn in range(b.pick(1, 1, 2)):
        # All operands by turns, then random ones.
        other = operand(b, b.rng.randrange(1000) if turn else 5 * b.number + FIVE.index(name))
        if name == "div":
            other = f"({other}) ** 2 + 1" if "own" not in other and not other[0] in "T-0123456789t" else other
        alpha = b.pick("", "", ", alpha=2", ", alpha=-0.5", ", alpha=0", ", alpha=1")
        alpha = alpha if name in ("add", "sub", "rsub") else ""
        is_tensor = any(one in other for one in ("own", "torch", "y", "z", "r["))
        is_tensor = is_tensor or other.strip("()").startswith("r")
        forms = [f"torch.{name}(y, {other}{alpha})"]
        if name != "rsub":
            forms += [f"y.{name}({other}{alpha})", f"y.{name}_({other}{alpha})"]
            forms += [f"torch.{name}(y, {other}{alpha}, out=y.new_empty(y.shape))"]
            sign = {"add": "+", "sub": "-", "mul": "*", "div": "/"}[name]
            forms += [f"y {sign} ({other})", f"operator.i{name.replace('div', 'truediv')}(y, {other})"]
            forms += [f"({other}) {sign} y"] if name != "div" else [f"({other}) / (torch.sigmoid(y) + 1)"]
        if is_tensor and name != "div":
            forms += [f"torch.{name}({other}, y{alpha})"] * 3
        if other in ("r", "z") and name != "rsub":
            forms += [f"{other}.{name}_(y{alpha})"] * 2
        b.do(b.pick(*forms), earlier)
    if b.factors and b.chance(0.7):
        # Another parameter of the same shape.
        b.do(f"torch.{name}(y, {b.factor(*getattr(b.model, f'factor{b.factors - 1}').shape)})")
    b.tail()


for _name in FIVE:
    draws(getattr(aten, _name).Tensor, 48 if _name == "mul" else 24)(lambda b, name=_name: arithmetic(b, name))


def scalar(b, name):
    """The overloads for numbers, which PyTorch's own functions do not use."""
    b.stem()
    alpha = f", {b.pick(1, 2, -0.5, 0)}" if name in ("add", "sub", "rsub") and b.chance(0.7) else ""
    b.do(f"torch.ops.aten.{name}.Scalar(y, {b.pick(*NUMBERS)}{alpha})")
    b.tail()


for _name in FIVE:
    draws(getattr(aten, _name).Scalar)(lambda b, name=_name: scalar(b, name))


def limit(b, name):
    b.stem()
    earlier = len(b.values) - 1
    other = operand(b, b.rng.randrange(1000)) if b.chance(0.5) else f"torch.tensor({b.pick(*NUMBERS)})"
    short = name[:3]
    forms = (f"torch.{name}(y, {other})", f"torch.{name}({other}, y)", f"torch.{short}(y, {other})", f"y.{short}({other})")
    b.do(b.pick(*forms), earlier)
    b.tail()


draws(aten.minimum.default, 8)(lambda b: limit(b, "minimum"))
draws(aten.maximum.default, 8)(lambda b: limit(b, "maximum"))


@draws(aten.neg.default)
def _neg(b):
    b.stem()
    b.do(b.pick("-y", "torch.neg(y)", "y.neg_()", "y.neg().neg()"))
    b.tail()


@draws(aten._prelu_kernel.default, 10)
def _prelu(b):
    b.stem()
    c = b.channels
    if b.chance(0.5):
        b.layer(f"nn.PReLU({b.pick(1, c)}, init={b.pick(0.25, -0.5)})")
    else:
        slopes = b.pick(b.factor(c), b.factor(1), b.factor(), "y.flatten()[:1]", f"{b.factor(2 * c)}[::2]")
        b.do(f"F.prelu(y, {slopes})")
    b.tail()


@draws(aten._to_copy.default, 10)
def _conversion(b):
    b.stem()
    types = ("double()", "half()", "bfloat16()", "float()")
    formats = ("torch.contiguous_format", "torch.channels_last" if b.axes == 2 else "torch.preserve_format")
    texts = [f"y.{one}" for one in types] + [f"y.to(torch.float32, memory_format={one})" for one in formats]
    b.do(b.pick(*texts, "y.to(y.dtype, copy=True)", "torch.tanh(y.float())", "y.half().double() - y.double()"))
    if b.chance(0.3):
        b.do(f"y.float() {b.pick('+', '*')} {b.factor(b.channels, *[1] * b.axes)}.float()")
    if b.chance(0.6):
        b.do(b.pick("y.to(r.dtype)", "F.relu(y).to(r.dtype)"))
    b.tail()


@draws(aten.clone.default, 14)
def _clone(b):
    b.begin() if b.chance(0.2) else b.stem()
    last = "torch.channels_last" if b.axes == 2 else "torch.channels_last_3d" if b.axes == 3 else "torch.preserve_format"
    order = b.turn("torch.preserve_format", "torch.contiguous_format", last, last)
    b.do(b.pick("y.clone()", f"y.clone(memory_format={order})", "y.contiguous()", f"y.contiguous(memory_format={order})"))
    if b.chance(0.2):
        return
    b.do(b.turn("torch.amax(y, 1)", "torch.amax(y, 1)", "F.relu(y)", "y.add_(1)"))
    b.tail()


def function(*forms):
    """An elementwise function in one of these forms."""

    def draw(b):
        b.begin() if b.chance(0.15) else b.stem()
        text = b.pick(*forms)
        b.do(text(b) if callable(text) else text)
        if b.chance(0.3):
            b.layer(f"nn.Conv{b.axes}d({b.channels}, 4, 1)")
        b.tail()

    return draw


def plain(name, module):
    """Forms of a function without attributes."""
    forms = [f"F.{name}(y)", f"nn.{module}()(y)"]
    if name not in ("sigmoid", "tanh"):
        return function(*forms, f"F.{name}(y, inplace=True)", f"nn.{module}(inplace=True)(y)")
    return function(*forms, f"torch.{name}(y)", f"y.{name}_()", f"torch.{name}(y, out=y.new_empty(y.shape))")


for _name, _module in {
    **{"relu": "ReLU", "silu": "SiLU", "sigmoid": "Sigmoid", "tanh": "Tanh", "hardswish": "Hardswish"},
    **{"hardsigmoid": "Hardsigmoid", "mish": "Mish"},
}.items():
    draws(getattr(aten, _name).default)(plain(_name, _module))

SLOPES = (0.01, 0.3, -0.5, 0, 1, 2, True)


def leaky_relu(b):
    return f"F.leaky_relu(y{b.option(negative_slope=SLOPES, inplace=(True, False))})"


def softplus(b):
    return f"F.softplus(y{b.option(beta=(1, 2.0, 0.5), threshold=(20, 0.25, 1.5))})"


def elu(b):
    scales = f"torch.ops.aten.elu(y, {b.pick(1, 0.5)}, {b.pick(1, 2)}, {b.pick(1, 0.5)})"
    return b.pick(f"F.elu(y{b.option(alpha=(1.0, 0.5, 2, 0.0), inplace=(True, False))})", "F.selu(y)", "F.celu(y, 0.5)", scales)


def hardtanh(b):
    text = f"F.hardtanh(y{b.option(min_val=(-0.75, -2, 0), max_val=(0.5, 1, 3), inplace=(True, False))})"
    return b.pick(text, text, "F.relu6(y)", "F.relu6(y, inplace=True)")


def clamp(b):
    low, high = b.pick("None", -0.5, 0, 0.5, 1), b.pick(-0.25, 0.75, 1, True)
    texts = (f"torch.clamp(y, {low}, {high})", f"y.clamp_(min={low}, max={high})", f"y.clip(max={high})", f"y.clamp({high})")
    return b.pick(*texts, f"torch.clamp(y, {low}, {high}, out=y.new_empty(y.shape))", "torch.clamp(y, max=y.size(1) * 0.1)")


def bound(b):
    return b.pick("torch.tensor(-0.25)", "torch.full((), 0.5)", "torch.full((1,), 0.5)", "own.bound", "y.mean()", "r", "torch.tensor(0)")


def clamp_with_tensors(b):
    b.model.register_buffer("bound", torch.tensor(0.25, dtype=torch.float64))
    low, high = bound(b), bound(b)
    return b.pick(f"torch.clamp(y, {low}, {high})", f"y.clamp({low})", f"torch.clamp(y, max={high})", f"torch.clamp(r, y, {high})")


def clamp_one(side):
    def draw(b):
        b.model.register_buffer("bound", torch.tensor(0.25, dtype=torch.float64))
        number, other = b.pick(*NUMBERS), bound(b)
        forms = (f"torch.clamp_{side}(y, {number})", f"y.clamp_{side}_({number})")
        return b.pick(*forms), b.pick(f"torch.clamp_{side}(y, {other})", f"torch.clamp_{side}_(y, {other})")

    return draw


draws(aten.leaky_relu.default, 6)(function(leaky_relu))
draws(aten.softplus.default, 6)(function(softplus))
draws(aten.elu.default, 7)(function(elu))
draws(aten.hardtanh.default)(function(hardtanh))
draws(aten.clamp.default, 10)(function(clamp))
draws(aten.clamp.Tensor, 12)(function(clamp_with_tensors))
for _side in ("min", "max"):
    draws(getattr(aten, f"clamp_{_side}").default)(function(lambda b, d=clamp_one(_side): d(b)[0]))
    draws(getattr(aten, f"clamp_{_side}").Tensor)(function(lambda b, d=clamp_one(_side): d(b)[1]))
draws(aten.gelu.default)(function("F.gelu(y)", "F.gelu(y, approximate='tanh')", "nn.GELU('tanh')(y)", "nn.GELU()(y)"))


def pool(b, axes, kind):
    b.stem(axes) if b.chance(0.8) else b.begin(axes)
    options = {"stride": (None, 1, 2, b.each(1, 2, 3)), "padding": (0, 1, b.each(0, 1)), "ceil_mode": (True, False)}
    if kind == "max":
        options["dilation"] = (1, 2, b.each(1, 2))
    else:
        options |= {"count_include_pad": (True, False), "divisor_override": (None, 3, 1)}
    text = f"F.{kind}_pool{axes}d(y, {b.each(2, 3)}{b.option(**options)}"
    if kind == "max" and b.chance(0.2):
        b.do(f"{text}, return_indices=True)[{b.pick(0, 0, 1)}]")
        b.do("y.to(r.dtype)" if b.chance(0.9) else "y * 1.0")
    else:
        b.do(f"{text})")
    b.tail()


for _axes in (2, 3):
    draws(getattr(aten, f"max_pool{_axes}d_with_indices").default, 9)(lambda b, axes=_axes: pool(b, axes, "max"))
    draws(getattr(aten, f"avg_pool{_axes}d").default, 9)(lambda b, axes=_axes: pool(b, axes, "avg"))


def adaptive(b, axes):
    b.stem(axes)
    size = b.pick(1, 1, (1,) * axes, 2, (1, *[2] * (axes - 1)), (None, *[1] * (axes - 1)))
    # For a size of 1, PyTorch's own function calls a mean.
    operator = f"torch.ops.aten._adaptive_avg_pool{axes}d(y, {[b.pick(1, 1, 2)] * axes})"
    b.do(b.pick(operator, f"F.adaptive_avg_pool{axes}d(y, {size})"))
    b.tail()


for _axes in (2, 3):
    draws(getattr(aten, f"_adaptive_avg_pool{_axes}d").default)(lambda b, axes=_axes: adaptive(b, axes))


def dims(b, several=True) -> str:
    """One or several axes, sometimes counted from the end, rarely with the batch."""
    rank = b.y.dim()
    some = b.rng.sample(range(0 if b.chance(0.1) else 1, rank), b.rng.randint(1, rank - 1))
    some = [one - rank if b.chance(0.4) else one for one in some]
    one = b.pick(some[0], some[0] % rank)
    return str(b.pick(tuple(some), some, [one], one) if several else one)


def reduction(name, several=True, **options):
    def draw(b):
        b.stem()
        dim = dims(b, several)
        if several and b.chance(0.15):
            dim = b.pick(str(list(range(2, b.y.dim()))), "()" if name in ("mean", "sum") else dim)
        text = f"(y, dim={dim}{b.option(keepdim=(True, False), **options)})"
        kinds = ("", ".values", "[0]") if not several else ("",)
        index = ".indices.to(r.dtype)" if not several and b.chance(0.15) else b.pick(*kinds[1:] or kinds)
        b.do(f"torch.{name}{text}{index}")
        if b.chance(0.4) and b.y.dim() > 1:
            each = b.factor(*b.pick([b.y.shape[1], *[1] * (b.y.dim() - 2)], [b.y.shape[-1]]))
            forms = ("torch.sum(y, -1)", "torch.amax(y, 1, True)", "y * 0.5", f"y + {each}", f"y * {each}")
            b.do(b.pick(*forms, f"F.prelu(y, {each}[:1].flatten())"))
        elif b.chance(0.3):
            b.tail()

    return draw


TYPED = {"dtype": (None, torch.float32, torch.float64)}
draws(aten.amax.default, 8)(reduction("amax"))
draws(aten.amin.default)(reduction("amin"))
draws(aten.max.dim, 8)(reduction("max", several=False))
draws(aten.min.dim)(reduction("min", several=False))
draws(aten.sum.dim_IntList, 8)(reduction("sum", **TYPED))
draws(aten.mean.dim, 14)(reduction("mean", **TYPED))
draws(aten.logsumexp.default)(reduction("logsumexp"))


def softmax(name):
    def draw(b):
        b.begin() if b.chance(0.3) else b.stem()
        b.do(f"F.{name}(y, {dims(b, False)}{b.option(**TYPED)})")
        b.tail()

    return draw


draws(aten._softmax.default)(softmax("softmax"))
draws(aten._log_softmax.default)(softmax("log_softmax"))
