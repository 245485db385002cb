"""Draws of attributes of the operators that are layers only in whole networks."""

from __future__ import annotations

import torch
from attribute_draws import Branch, convolution
from random_models import One

aten = torch.ops.aten

EXTENTS = {1: (8,), 2: (6, 8), 3: (4, 6, 4)}


class Part(Branch):
    """Draws a part of a network. All parts with the same number of axes share the input."""

    def __init__(self, seed: int, number: int = 0) -> None:
        super().__init__(seed, number)
        self.model = One().eval()

    def begin(self, *axes: int) -> None:
        self.axes = self.pick(*axes) if axes else self.axes
        generator = torch.Generator().manual_seed(self.axes)
        shape = [2, 4, *EXTENTS[self.axes]]
        self.values = [torch.randn(shape, generator=generator, dtype=torch.float64)]

    def tail(self) -> None:
        # The output must not be the input itself.
        self.do(self.pick("F.relu(y)", "torch.tanh(y)", "y * 0.5 + 1"))


DRAWS = {}


def draws(*targets):
    def add(draw):
        DRAWS.update(dict.fromkeys(targets, draw))
        return draw

    return add


def simple(*texts, axes=(1, 2, 3)):
    """One of these texts, sometimes after a convolution."""

    def draw(b):
        b.begin(*axes)
        if b.chance(0.5):
            b.layer(convolution(b, False, padding=1, mode="zeros"))
        for text in (b.pick(*texts),):
            b.do(text(b) if callable(text) else text)
        b.tail()

    return draw


def widths(b, mode):
    some = [b.pick(0, 1, 2) for _ in range(2 * b.axes)]
    if mode == "constant" and b.chance(0.3):
        some = b.pick([0] * len(some), [0] * len(some), some)
        return [*some, *b.pick((2, 1), (0, 3), (-1, 0)), *b.pick((), (0, 0), (0, 1))]
    return some if b.chance(0.8) or mode != "constant" else [*some[:-2], -1, 1]


def pad(mode):
    def text(b):
        value = f", value={b.pick(0, 0.0, 0.5)}" if mode == "constant" and b.chance(0.6) else ""
        return f"F.pad(y, {widths(b, mode)}, '{mode}'{value})"

    return text


def within(b):
    """A maximum pool after padding with the least value."""
    before = b.pick(0, 1)
    each = [before, before + b.turn(0, 1, 0)] * b.axes
    pool = f"F.max_pool{b.axes}d(F.pad(y, {each}, value=-float('inf'))"
    return f"{pool}, {b.pick(2, 3)}, {b.pick(1, 2)}, {b.turn(0, 0, 0, 1)}, ceil_mode={b.pick(False, False, True)})"


draws(aten.constant_pad_nd.default)(lambda b: simple(within if b.axes > 1 and b.number % 2 else pad("constant"), axes=(b.axes,))(b))
for _axes in (1, 2, 3):
    draws(getattr(aten, f"reflection_pad{_axes}d").default)(simple(pad("reflect"), axes=(_axes,)))
    draws(getattr(aten, f"replication_pad{_axes}d").default)(simple(pad("replicate"), axes=(_axes,)))


@draws(aten._pad_circular.default)
def _circular(b):
    b.begin()
    text = pad("circular")(b)
    for one in b.turn([text], [], [f"F.pad(y, {[1] * (2 * b.axes)}, 'circular')"]):
        b.do(one)
    if b.number % 3:
        b.layer(convolution(b, False, padding=b.pick(0, 1, 1), mode=b.turn("zeros", "circular", "zeros")))
    b.tail()


@draws(aten.permute.default)
def _channels_last(b):
    b.begin()
    rank = b.y.dim()
    there, back = [0, *range(2, rank), 1], [0, rank - 1, *range(1, rank - 1)]
    negative = [one - rank for one in there]
    if b.chance(0.2):
        # Axes of one element.
        single = b.pick("y.mean(1, True)", "y.amax((1, -1), True)", "y.unsqueeze(2)[:, :, :, :1]")
        b.do(f"{single}.permute({b.pick(there, [0, 2, 1, *range(3, rank)])})")
        b.tail()
        return
    b.do(f"y.permute({b.pick(there, there, negative, back)})")
    c = b.y.shape[-1]
    for _ in range(b.pick(1, 2)):
        kind = b.pick("norm", "linear", "function")
        if kind == "norm":
            b.layer(f"nn.LayerNorm({c}, {b.pick(1e-5, 0.1)}, {b.pick(True, False)}, bias={b.pick(True, False)})")
        elif kind == "linear":
            b.layer(f"nn.Linear({c}, {c}, bias={b.pick(True, False)})")
        else:
            b.do(b.pick("F.gelu(y)", "F.relu(y)", "y * 2", "y.contiguous()"))
    b.do(f"y.permute({b.pick(back, back, [one - rank for one in back])})")
    b.tail()


draws(aten.transpose.int)(simple("y.unsqueeze(2).transpose(1, 2)", "y.mean(1, True).transpose(-2, 1)", "y.transpose(1, 2)", "y[:1].transpose(0, 1)"))


@draws(aten.linear.default)
def _linear(b):
    b.begin()
    b.do(b.pick("y.flatten(1)", "y.flatten(1)", "y.amax(-1)", "y.mean((1, 2))"))
    b.layer(f"nn.Linear({b.y.shape[-1]}, {b.pick(3, 5)}, bias={b.pick(True, False)})")
    b.tail()


@draws(aten.addmm.default, aten.mm.default)
def _product(b):
    b.begin()
    b.do(b.pick("y.flatten(1)", "y.flatten(1)", "y.mean((1, 2))" if b.axes == 2 else "y.flatten(1)"))
    columns, features = b.y.shape[-1], b.pick(3, 5)
    weight = f"torch.linspace(-1, 1, {features * columns}).reshape({features}, {columns}).to(y).t()"
    bias, product = f"torch.linspace(0, 1, {features}).to(y)", f"torch.mm(y, {weight})"
    scaled = f"torch.addmm({bias}, y, {weight}, beta=2)"
    b.do(b.turn(f"torch.addmm({bias}, y, {weight})", product, f"torch.addmm({bias}, y, {weight})", product, scaled))
    b.tail()


@draws(aten._unsafe_index.Tensor)
def _pixels(b):
    b.begin(2)
    h, w = b.y.shape[2:]
    rows, columns = b.pick(h, 2 * h, h + 3), b.pick(2 * w, 3 * w - 1)
    offset = b.turn(0.0, 0.5, 0.0, 0.5, 0.25)
    index = [f"((torch.arange({to}) + {offset}) * {one / to}).long()" for one, to in ((h, rows), (w, columns))]
    b.do(f"torch.ops.aten._unsafe_index(y, [None, None, {index[0]}[:, None], {index[1]}])")
    b.tail()


def view(b):
    n, c, *space = b.y.shape
    texts = ("y.flatten(1)", "y.flatten(2)", "y.flatten(1, 2)", "y.unsqueeze(1)", "y.unsqueeze(-1)", "y.unsqueeze(0)[0]")
    more = (f"y.reshape(-1, 2, {c // 2}, *y.shape[2:])", f"y.view(y.shape[0], {2 * c}, -1)", "y.reshape(y.shape[0], -1)")
    shuffle = f"y.view(y.shape[0], {b.pick(2, c)}, -1, *y.shape[2:]).transpose({b.pick('1, 2', '2, 1')}).reshape(y.shape)"
    return b.pick(*texts, *more, shuffle, "y.mean(-1, keepdim=True).squeeze(-1)", "y.amax((-1, 1), True).squeeze((-1, 1))")


def pixels(b):
    n, c, h, w = b.y.shape
    r = b.pick(2, 2, 1)
    into = f"y.view(-1, {c}, {h // r}, {r}, {w // r}, {r}).permute({b.pick('0, 1, 3, 5, 2, 4', '0, 3, 5, 1, 2, 4')})"
    out = f"y.view(-1, {c // r**2}, {r}, {r}, {h}, {w}).permute({b.pick('0, 1, 4, 2, 5, 3', '0, 1, 4, 3, 5, 2')})"
    return b.pick(f"{into}.reshape(-1, {c * r * r}, {h // r}, {w // r})", f"{out}.reshape(-1, {c // r**2}, {h * r}, {w * r})")


draws(aten.view.default, aten._unsafe_view.default, aten.reshape.default)(simple(view))
draws(aten.flatten.using_ints)(simple(view, "torch.flatten(y, 1)"))
draws(aten.squeeze.dim, aten.squeeze.dims, aten.unsqueeze.default)(simple(view))
draws(aten.channel_shuffle.default, aten.native_channel_shuffle.default)(
    simple("F.channel_shuffle(y, 2)", view, "torch.channel_shuffle(y, 1)")
)
draws(aten.pixel_shuffle.default)(simple("F.pixel_shuffle(y, 2)", "F.pixel_shuffle(y, 1)", pixels, axes=(2,)))
draws(aten.pixel_unshuffle.default)(simple("F.pixel_unshuffle(y, 2)", pixels, axes=(2,)))


@draws(aten.mul.Tensor, aten.expand.default)
def _gate(b):
    b.begin()
    axes = tuple(range(2, b.y.dim()))
    b.do(b.pick("F.relu(y)", "torch.tanh(y)"))
    over = b.turn(axes, 1, axes[0], (1, *axes), axes[1:] or axes)
    gate = f"torch.sigmoid({b.pick('y', 'z')}.{b.pick('mean', 'amax')}({over}, keepdim=True))"
    expanded = f"{gate}.expand(y.shape)"
    b.do(b.pick(f"y * {gate}", f"{gate} * y", f"y * {expanded}", f"{expanded} * y", f"{expanded} + y", "y * z"), 0)
    b.tail()


@draws(aten.cat.default)
def _cat(b):
    b.begin()
    b.do(b.pick("F.relu(y)", "torch.tanh(y)"))
    rank = b.y.dim()
    dim = b.turn(1, rank - 1, -1, -rank + 1, 0)
    others = b.pick("y, z", "z, y", "y, y", "y, z, y", "y, z[:, :2]", "y", "y, z[..., :0]")
    stacked = f"torch.stack([{b.pick('y, z', 'y, z, y', 'y')}], {b.pick(0, 0, 1)})"
    reduced = f"{stacked}.{b.pick('sum', 'mean')}({b.pick(0, 0, 1)}{b.pick('', ', keepdim=True')})"
    b.do(b.pick(f"torch.cat([{others}], {dim})", reduced), 0)
    b.tail()


def repeats(b):
    return f"y.repeat(1, {b.pick(1, 2, 3)}, {', '.join([b.pick('1', '1', '1', '2')] * b.axes)})"


def part(b):
    rank = b.y.dim()
    dim, size = b.rng.randrange(1, rank), 0
    size = b.y.shape[dim]
    start, end = b.turn(None, 0, 1, -2, -size), b.pick(None, size, size - 1, -1, 100)
    at = f"y[{':, ' * dim}{start or ''}:{end or ''}]"
    stepped = f"y[{':, ' * dim}{start or ''}::2]"
    split = f"y.split({b.pick(size // 2, [1, size - 1])}, {b.pick(dim, dim - rank)})[{b.pick(0, 1, 1)}]"
    uneven = f"y.split([1, {size - 2}, 1], {dim})[2]"
    return b.turn(at, at, stepped, at, split, at, stepped, uneven, at, f"y.chunk(2, {dim})[{b.pick(0, 1)}]", f"y.narrow({dim}, 1, {size - 1})", "y[:1]", f"y.select({dim}, 0)")


draws(aten.repeat.default)(simple(repeats))
draws(aten.slice.Tensor)(simple(part))


def upsample(mode):
    def text(b):
        to = b.pick(f"size={tuple(one + b.pick(0, 3, -1) for one in b.y.shape[2:])}", f"scale_factor={b.each(1, 2, 1.5, 0.5)}")
        corners = b.pick("", ", align_corners=True", ", align_corners=False") if mode.endswith("linear") else ""
        return f"F.interpolate(y, {to}, mode='{mode}'{corners})"

    return text


for _axes, _linear_mode in ((1, "linear"), (2, "bilinear"), (3, "trilinear")):
    draws(getattr(aten, f"upsample_nearest{_axes}d").vec)(simple(upsample("nearest"), axes=(_axes,)))
    draws(getattr(aten, f"_upsample_nearest_exact{_axes}d").vec)(simple(upsample("nearest-exact"), axes=(_axes,)))
    draws(getattr(aten, f"upsample_{_linear_mode}{_axes}d").vec)(simple(upsample(_linear_mode), axes=(_axes,)))

def strided(b):
    n, c, *space = b.y.shape
    other = (c * b.y[0, 0].numel(), 1, *(c * one for one in b.y.stride()[2:]))
    return b.turn("y.as_strided(y.shape, y.stride())", f"y.as_strided(y.shape, {other})", "y.as_strided(y.shape, y.stride(), 0) * 2")


draws(aten.as_strided.default)(simple(strided))
draws(aten.alias.default, aten.detach.default)(simple("y.detach()", "torch.ops.aten.alias(y)", "y.detach() + y"))


@draws(aten.native_layer_norm.default)
def _layer_norm(b):
    b.begin()
    if b.chance(0.3):
        b.do(b.pick("y.flatten(1)", "y.mean(-1)"))
    shape = tuple(b.y.shape[b.turn(-1, b.rng.randrange(1, b.y.dim())) :])
    b.layer(f"nn.LayerNorm({shape}, {b.pick(1e-5, 0.1)}, {b.pick(True, False)}, bias={b.pick(True, False)})")
    b.tail()


def adaptive(kind):
    def text(b):
        size = b.pick(1, 2, (1,) * b.axes, (2,) * b.axes, (None, *(2,) * (b.axes - 1)), 3)
        return f"F.adaptive_{kind}_pool{b.axes}d(y, {size})"

    return text


for _axes in (2, 3):
    draws(getattr(aten, f"adaptive_max_pool{_axes}d").default)(simple(adaptive("max"), axes=(_axes,)))
    draws(getattr(aten, f"_adaptive_avg_pool{_axes}d").default)(simple(adaptive("avg"), axes=(_axes,)))
