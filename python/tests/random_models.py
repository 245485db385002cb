"""Random models of operations that ``fuse`` recognizes, and of others around them."""

from __future__ import annotations

import operator  # noqa: F401  steps name it
import random
from typing import NamedTuple

import torch
from random_steps import ACTIVATIONS, CALLS, PRODUCTS, REDUCTIONS, SUMS, VIEWS, WRITES
from torch import nn
from torch.nn import functional as F  # noqa: F401  steps name it

# The magnitude limit of values in a model, to avoid overflow in 16 bits.
LARGEST = 100.0


class Step(NamedTuple):
    """A value computed from earlier ones."""

    text: str
    y: int
    z: int


class Model(nn.Module):
    """Computes step after step."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        self.steps: list[Step] = []
        # The indices of the values returned in addition to the last one.
        self.also: tuple[int, ...] = ()
        # The index of the value whose shape the second input has.
        self.like = 0
        # The relative size of random changes of each value.
        self.noise = 0.0

    def compute(self, values, step, r):
        names = {"own": self, "y": values[step.y], "z": values[step.z], "r": r}
        return eval(step.text, globals(), names)  # noqa: S307  text of this file

    def begin(self):
        """Writes the steps as the code of one function, which compilers can read."""
        lines = ["def code(own, x, r):", " v0 = x"]
        for index, step in enumerate(self.steps, 1):
            lines += [f" y, z = v{step.y}, v{step.z}", f" v{index} = {step.text}"]
        results = ", ".join(f"v{index}" for index in (len(self.steps), *self.also))
        text = "\n".join([*lines, f" return {results}"])
        names = {}
        exec(text, globals(), names)  # noqa: S102  text of this file
        self.__dict__["code"] = names["code"]

    def __getstate__(self):
        return {name: one for name, one in super().__getstate__().items() if name != "code"}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.begin()

    def run(self, x, r=None):
        if not self.noise:
            return self.code(self, x, r)
        return self.disturbed(x, r)

    def disturbed(self, x, r):
        """Computes the model with random changes of each value."""
        values = [x]
        for step in self.steps:
            values.append(self.compute(values, step, r))
            disturb(values[-1], self.noise)
        if self.also:
            return (values[-1], *[values[index] for index in self.also])
        return values[-1]

    def second(self, x):
        """A second input that matches this first one."""
        values = [x.clone()]
        for step in self.steps[: self.like]:
            values.append(self.compute(values, step, None))
        return torch.randn_like(values[self.like])

    def lines(self, indent: str = "") -> list[str]:
        """The model as text."""
        found = []
        for index, step in enumerate(self.steps, 1):
            z = f", z = v{step.z}" if "z" in _names(step.text) else ""
            found.append(f"{indent}v{index}: {step.text}, y = v{step.y}{z}")
        if self.also:
            found.append(f"{indent}also gives {self.also}")
        for index, layer in enumerate(self.layers):
            if isinstance(layer, Model):
                found += [f"{indent}layers[{index}]:", *layer.lines(indent + "    ")]
            else:
                hooks = " heard" * bool(layer._forward_hooks)
                found.append(f"{indent}layers[{index}]: {layer}{hooks}".replace("\n", ""))
        return found


class One(Model):
    """A model of one input."""

    def forward(self, x):
        return self.run(x)


class Two(Model):
    """A model of two inputs."""

    def forward(self, x, r):
        return self.run(x, r)


def disturb(value, noise, largest=0.0):
    """Changes a value in place like a rounding of it, and of summands up to ``largest``."""
    drawn = torch.empty(value.shape, dtype=value.dtype).uniform_(-1, 1)
    value.add_(drawn, alpha=noise * (largest + value.abs().max().item()))


def steepness(norm, x):
    """The largest factor by which a norm amplifies errors of a value and its mean, whose difference may be
    much smaller than both."""
    running = getattr(norm, "running_var", None)
    if isinstance(norm, nn.GroupNorm):
        variance = x.reshape(x.shape[0], norm.num_groups, -1).var(-1, unbiased=False)
    elif isinstance(norm, nn.LayerNorm):
        variance = x.flatten(-len(norm.normalized_shape)).var(-1, unbiased=False)
    elif running is not None and not norm.training:
        variance = running
    elif isinstance(norm, nn.modules.instancenorm._InstanceNorm):
        variance = x.flatten(-int(type(norm).__name__[-2])).var(-1, unbiased=False)
    else:
        variance = x.transpose(0, 1).flatten(1).var(-1, unbiased=False)
    weight = 1.0 if norm.weight is None else norm.weight.abs().max()
    return ((variance + norm.eps).rsqrt().max() * weight).item()


def doubled(module, given, value):
    """A hook that changes a layer's output."""
    return 2 * value


def redraw(model, seed):
    """Draws parameters and running statistics."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if name.endswith("num_batches_tracked"):
                continue
            drawn = torch.randn(value.shape, generator=generator, dtype=torch.float64)
            if name.endswith("running_var"):
                drawn = 0.5 + drawn.abs()
            elif value.dim() > 2 and ".weight" in name:
                drawn = drawn / value[0].numel() ** 0.5
            elif "factor" in name:
                drawn = 0.5 + drawn.abs()
            value.copy_(drawn)


class Draw:
    """Draws one model."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.axes = self.rng.choice([1, 2, 2, 2, 3])
        self.unbatched = self.rng.random() < 0.1
        self.factors = 0

    def pick(self, *choices):
        return self.rng.choice(choices)

    def shape(self) -> list[int]:
        extents = [self.rng.randint(5, 8) for _ in range(self.axes)]
        return [*([] if self.unbatched else [self.pick(1, 2, 3)]), 8, *extents]

    def each(self, *choices):
        """One number for all axes, or one for each."""
        one = tuple(self.pick(*choices) for _ in range(self.axes))
        return self.pick(one, one[0])

    def convolution(self, channels: int) -> str:
        groups = self.pick(1, 1, 2, channels) if channels % 2 == 0 else 1
        kernel = self.each(1, 2, 3, 3)
        filters = groups * self.pick(1, 2) if groups > 2 else self.pick(4, 8, 12)
        mode = self.pick("zeros", "zeros", "zeros", "reflect", "replicate", "circular")
        padding, stride = self.pick("'same'", "'valid'", self.each(0, 1), self.each(0, 1, 2)), 1
        if padding != "'same'":
            stride = self.each(1, 1, 2)
        if self.axes == 3 and mode == "reflect":
            mode = "zeros"
        return (
            f"nn.Conv{self.axes}d({channels}, {filters}, {kernel}, stride={stride}, padding={padding}, "
            f"dilation={self.each(1, 1, 2)}, groups={groups}, bias={self.pick(True, False)}, padding_mode='{mode}')"
        )

    def norm(self, channels: int) -> str:
        affine, eps = self.pick(True, False), self.pick(1e-5, 1e-5, 0.1)
        options = f"{channels}, eps={eps}, affine={affine}"
        return self.pick(
            f"nn.GroupNorm({self.pick(1, 2 - channels % 2, channels)}, {options})",
            f"nn.InstanceNorm{self.axes}d({options})",
            f"nn.BatchNorm{self.axes}d({options})",
        )

    def pool(self) -> str:
        axes = self.pick(2, 2, 3) if self.axes == 1 else self.axes
        size, ceil = self.each(2, 3), self.pick(True, False)
        padding = self.pick(0, 1, self.each(0, 1))
        if self.pick(True, False):
            return f"nn.MaxPool{axes}d({size}, {self.pick(None, 1, 2)}, {padding}, {self.pick(1, 1, 2)}, ceil_mode={ceil})"
        return (
            f"nn.AvgPool{axes}d({size}, {self.pick(None, 1, 2)}, {padding}, {ceil}, {self.pick(True, False)}, "
            f"{self.pick(None, None, 3)})"
        )

    def pooling(self) -> str:
        size, padding = self.pick("3", "(3, 2)", "2"), self.pick("1", "0", "(1, 0)")
        return self.pick(
            f"F.max_pool2d(y, {size})",
            f"F.max_pool2d(y, {size}, 2, {padding})",
            f"F.max_pool2d(y, {size}, 1, {padding}, 2)",
            f"F.max_pool2d(y, {size}, (2, 1), {padding}, 1, True)",
            f"F.max_pool2d(y, kernel_size={size}, padding={padding}, ceil_mode=True)",
            f"F.max_pool2d(y, {size}, stride=2, dilation={self.pick(1, 2)})",
            f"F.max_pool3d(y, {size})" if size != "(3, 2)" else "F.max_pool3d(y, 2, 1)",
            f"F.avg_pool2d(y, {size})",
        )

    def factor(self, model: Model, channels: int, columns: int) -> str:
        """A parameter of the model, sometimes an existing one."""
        ones = [1] * self.axes
        if self.factors and self.pick(True, False):
            return f"own.factor{self.rng.randrange(self.factors)}"
        each, of_batch = [channels, *ones], [1, channels, *ones]
        shape = self.pick(each, each, of_batch, of_batch, [columns], [channels], [])
        name, self.factors = f"factor{self.factors}", self.factors + 1
        model.register_parameter(name, nn.Parameter(torch.ones(shape, dtype=torch.float64)))
        return f"own.{name}"

    def layer(self, model: Model, text: str) -> str:
        model.layers.append(eval(text, globals()).double())
        if self.rng.random() < 0.03:
            model.layers[-1].register_forward_hook(doubled)
        return f"own.layers[{len(model.layers) - 1}](y)"

    def step(self, model: Model, value: torch.Tensor, inner: bool, last: str) -> str:
        """A step after ``value``, as text."""
        channel = value.dim() - self.axes - 1
        channels = value.shape[channel] if 0 <= channel < value.dim() else value.shape[0]
        begins = not last.startswith("own.layers")
        follows = bool(model.layers) and last.endswith(f"layers[{len(model.layers) - 1}](y)")
        follows = follows and "Norm" in type(model.layers[-1]).__name__
        weights = {
            "first": 5 if begins else 2,
            "norm": 1 if follows else 3,
            "activation": 3,
            "call": 4,
            "pool": 2,
            "pooling": 2.5,
            "sum": 4,
            "product": 5 if follows else 3,
            "view": 1,
            "write": 1,
            "reduction": 1,
            "again": 0.7,
            "block": 0 if inner else 1,
        }
        (kind,) = self.rng.choices([*weights], [*weights.values()])
        other = self.pick(
            "z", "z", "z" if inner else "r", "z" if inner else "r", "z.mean(-1, keepdim=True)"
        )
        if kind == "first":
            return self.layer(model, self.convolution(channels))
        if kind == "norm":
            return self.layer(model, self.norm(channels))
        if kind == "activation":
            text = self.pick(*ACTIVATIONS, f"nn.PReLU({channels})")
            return self.layer(model, text)
        if kind == "call":
            return self.pick(*CALLS)
        if kind == "pool":
            return self.layer(model, self.pool())
        if kind == "pooling":
            return self.pooling()
        if kind == "sum":
            return self.pick(*SUMS[:4], *SUMS).format(o=other)
        if kind == "product":
            p, q = (self.factor(model, channels, value.shape[-1]) for _ in range(2))
            return self.pick(*PRODUCTS[:3], *PRODUCTS, f"F.prelu(y, {p})").format(p=p, q=q)
        if kind == "view":
            return self.pick(*VIEWS).format(o=other)
        if kind == "write":
            return self.pick(*WRITES)
        if kind == "reduction":
            return self.pick(*REDUCTIONS)
        if kind == "again" and len(model.layers):
            return f"own.layers[{self.rng.randrange(len(model.layers))}](y)"
        if kind == "block":
            drawn = self.model(value, inner=True)
            if drawn.steps and self.pick(True, False):
                sequence = [
                    self.convolution(channels),
                    "nn.GroupNorm(1, 1)",
                    self.pick(*ACTIVATIONS),
                ]
                filters = eval(sequence[0], globals()).out_channels
                sequence[1] = self.norm(filters)
                return self.layer(model, f"nn.Sequential({', '.join(sequence)})")
            model.layers.append(drawn)
            return f"own.layers[{len(model.layers) - 1}](y)"
        return "F.relu(y)"

    def model(self, x: torch.Tensor, inner: bool = False) -> Model:
        """A model for inputs like ``x``. Its second input has the shape of the value that it is first added
        to."""
        model = One() if inner else Two()
        model.eval()
        values, last, r = [x], "", None
        for _ in range(self.rng.randint(2, 4) if inner else self.rng.randint(4, 12)):
            layers = len(model.layers)
            source = len(values) - 1 if self.rng.random() < 0.9 else self.rng.randrange(len(values))
            text = self.step(model, values[source], inner, last)
            # Another value of its shape, if there is one.
            alike = [i for i, one in enumerate(values) if one.shape == values[source].shape]
            others = [i for i in alike if i != source] or alike
            step = Step(text, source, self.pick(*others))
            takes = "r" in _names(text)
            if takes and r is None:
                r, model.like = values[source].clone(), source
            try:
                value = model.eval().compute([one.clone() for one in values], step, r)
            except (RuntimeError, ValueError, IndexError, TypeError, AttributeError):
                del model.layers[layers:]
                continue
            # The comparison is false for NaN.
            if not (value.dim() > 0 and 0 < value.numel() < 20000 and value.abs().max() < LARGEST):
                del model.layers[layers:]
                continue
            model.steps.append(step)
            values.append(value)
            last = text
        if not inner and self.rng.random() < 0.25:
            model.also = (self.rng.randrange(len(values)),)
        if not any("r" in _names(step.text) for step in model.steps) and not inner:
            model.__class__ = One
        model.begin()
        return model


def _names(text: str) -> set[str]:
    return set(compile(text, "", "eval").co_names)
