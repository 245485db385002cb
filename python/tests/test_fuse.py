"""Uses of fused models: calls give the model's results, regardless of changes between calls."""

from __future__ import annotations

import collections
import copy
import dataclasses
import io
import pickle
import typing

import pytest
import torch
from support import (
    DEVICES,
    ResidualBlock,
    at_once,
    chains,
    expect_same,
    fused,
    products_in_full,
    redraw,
)
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrize
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import convfuse
from convfuse import _fuse
from convfuse._report import Times

pytestmark = pytest.mark.usefixtures("products_in_full")
assert products_in_full

CHAIN = "conv2d group_norm silu"


def block(*last):
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), *last).eval()


class Named(nn.Module):
    """A model with its own code."""

    def __init__(self, channels=8):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, channels, 3), nn.GroupNorm(2, channels)

    def forward(self, x):
        return F.silu(self.norm(self.conv(x)))


def image(size=8, batch=2):
    return torch.randn(batch, 3, size, size)


@pytest.mark.parametrize("device", DEVICES)
def test_residual_blocks_are_fused(device):
    plain = ResidualBlock().eval().to(device)
    x, ours = torch.randn(2, 8, 12, 14, device=device), fused(plain)
    with torch.inference_mode():
        expect_same(ours(x), plain(x))
    assert chains(ours) == ["group_norm silu conv2d group_norm silu", "conv2d add"]


def test_the_model_stays_what_it_was():
    plain = block()
    ours = copy.deepcopy(plain)
    assert fused_in_place(ours) is ours and type(ours) is nn.Sequential
    with torch.no_grad():
        ours(image())
    assert list(ours.state_dict()) == list(plain.state_dict())
    assert [type(one) for one in ours.modules()] == [type(one) for one in plain.modules()]
    before = sorted(plain.__dict__)
    assert sorted(convfuse.unfuse(ours).__dict__) == before
    with pytest.raises(ValueError, match="was not given to fuse"):
        convfuse.report(ours)


def fused_in_place(model):
    return convfuse.fuse(model, cpu=True, precision="accurate")


def test_what_is_no_model_is_refused():
    for call in (convfuse.fuse, convfuse.unfuse, convfuse.report):
        with pytest.raises(TypeError, match="takes a torch.nn.Module"):
            call(image())
    with pytest.raises(TypeError, match="example_input is a tensor or a tuple"):
        convfuse.fuse(block(), 3)
    with pytest.raises(ValueError, match="must be one of"):
        convfuse.fuse(block(), precision="high")


CHANGES = {
    "in place": lambda p: p.mul_(-0.5),
    "behind the version counter": lambda p: p.data.mul_(2),
    "in inference mode": lambda p: torch.inference_mode()(lambda: p.add_(1))(),
    "other data": lambda p: setattr(p, "data", torch.randn_like(p)),
    "fused": lambda p: torch._foreach_mul_([p.data], 3),
}


@pytest.mark.parametrize("how", CHANGES)
def test_changed_parameters_count(how):
    ours, x = fused(block()), image()
    plain = block()
    with torch.no_grad():
        ours(x)
        for mine, theirs in zip(ours.parameters(), plain.parameters()):
            CHANGES[how](mine)
            theirs.copy_(mine)
        expect_same(ours(x), plain(x))


def test_parameters_at_the_same_address_count():
    plain, x = block(), image()
    ours, weight = fused(plain), None
    with torch.no_grad():
        for scale in range(1, 20):
            weight = ours[0].weight
            weight.data = torch.empty(0)
            weight.data = torch.randn(8, 3, 3, 3) * scale
            plain[0].weight.data = weight.data.clone()
            expect_same(ours(x), plain(x))


def test_parameters_may_be_other_tensors():
    plain, x = block(), image()
    ours = fused(plain)
    with torch.no_grad():
        ours(x)
        values = {name: torch.randn_like(one) for name, one in plain.state_dict().items()}
        ours.load_state_dict(values, assign=True)
        plain.load_state_dict(values)
        expect_same(ours(x), plain(x))
        torch.utils.swap_tensors(ours[0].weight, nn.Parameter(torch.ones(8, 3, 3, 3)))
        plain[0].weight.fill_(1.0)
        expect_same(ours(x), plain(x))
        ours[1] = nn.GroupNorm(4, 8).eval()
        plain[1] = copy.deepcopy(ours[1])
        expect_same(ours(x), plain(x))
        changed = torch.func.functional_call(ours, {"0.weight": torch.zeros(8, 3, 3, 3)}, (x,))
        expect_same(
            changed, torch.func.functional_call(plain, {"0.weight": torch.zeros(8, 3, 3, 3)}, (x,))
        )


@pytest.mark.parametrize("named", [{}, {"fused": True}])
@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_models_are_trained_as_before(kind, named):
    plain, losses = block(), []
    for model in (copy.deepcopy(plain), fused(plain)):
        optimiser, x = kind(model.parameters(), 0.1, **named), torch.ones(2, 3, 8, 8)
        for _ in range(6):
            with torch.no_grad():
                before = model(x)
            optimiser.zero_grad()
            after = model(x)
            expect_same(before, after.detach())
            loss = (after - 1).square().mean()
            loss.backward()
            optimiser.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


def test_second_derivatives_are_those_of_the_layers():
    plain, found = block(), []
    for model in (plain, fused(plain)):
        x = torch.ones(2, 3, 8, 8).mul_(0.5).requires_grad_()
        (slope,) = torch.autograd.grad(model(x * x).mean(), x, create_graph=True)
        slope.square().sum().backward()
        found.append([x.grad, *(one.grad.clone() for one in model.parameters())])
    assert all(torch.equal(one, other) for one, other in zip(*found))


def test_a_frozen_model_gives_gradients_of_its_input():
    plain = block().requires_grad_(False)
    ours, found = fused(plain), []
    for model in (plain, ours):
        x = torch.ones(1, 3, 8, 8, requires_grad=True)
        model(x).sum().backward()
        found.append(x.grad)
    assert torch.equal(*found)
    x = image()
    expect_same(ours(x), plain(x))
    assert chains(ours) == [CHAIN]
    assert convfuse.report(ours).not_traced == [("a graph", "gradients are recorded")]


def test_transforms_and_tangents_see_the_layers():
    plain = block().requires_grad_(False)
    ours, x = fused(plain), image()
    direction = torch.randn_like(x)
    asks = [
        lambda f: torch.func.jvp(f, (x,), (direction,))[1],
        lambda f: torch.func.vmap(f)(x[:, None]),
        lambda f: torch.func.vmap(torch.func.grad(lambda one: f(one[None]).square().sum()))(x),
        lambda f: torch.func.jacfwd(lambda one: f(one).sum())(x),
        lambda f: torch.autograd.functional.hvp(lambda one: f(one).sum(), x, direction)[1],
    ]
    with torch.no_grad():
        ours(x)
    for ask in asks:
        torch.testing.assert_close(ask(ours), ask(plain))
    forward = torch.autograd.forward_ad
    with torch.no_grad(), forward.dual_level():
        tangents = [
            forward.unpack_dual(model(forward.make_dual(x, direction))).tangent
            for model in (ours, plain)
        ]
    assert torch.equal(*tangents)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("was_called", [False, True])
def test_copies_and_pickles_are_fused(device, was_called):
    ours, x = fused(block()).to(device), image().to(device)
    if was_called:
        with torch.no_grad():
            ours(x)
    buffer = io.BytesIO()
    torch.save(ours, buffer)
    buffer.seek(0)
    copies = [
        copy.deepcopy(ours),
        pickle.loads(pickle.dumps(ours)),
        torch.load(buffer, weights_only=False),
    ]
    with torch.no_grad():
        y = ours(x)
        for one in copies:
            assert torch.equal(one(x), y) and chains(one) == [CHAIN]
            redraw(one)
            plain = convfuse.unfuse(copy.deepcopy(one))
            expect_same(one(x), plain(x))
        assert torch.equal(ours(x), y)


def test_other_objects_of_the_class_are_not_fused():
    class Copied(Named):
        def __deepcopy__(self, memo):
            made = type(self)()
            made.load_state_dict(self.state_dict())
            return made

    ours, x = fused_in_place(Copied().eval()), image()
    sequence = fused(block())
    with torch.no_grad():
        assert torch.equal(copy.deepcopy(ours)(x), convfuse.unfuse(ours)(x))
        assert torch.equal(sequence[:2](x), convfuse.unfuse(sequence)[:2](x))
    assert type(ours)()(x).shape == (2, 8, 6, 6)


def test_registries_of_classes_are_left_alone():
    known = {}

    class Registered(Named):
        def __init_subclass__(cls, **named):
            known[cls.__name__] = cls

    class Net(Registered):
        pass

    ours = fused_in_place(Net().eval())
    with torch.no_grad():
        ours(image())
    assert known == {"Net": Net} and type(ours) is Net


def test_what_was_done_to_a_model_afterwards_stays():
    class Twice(nn.Module):
        def forward(self, weight):
            return 2 * weight

    for act in (copy.deepcopy, convfuse.unfuse, fused_in_place, lambda model: model):
        ours, x = fused_in_place(block()), image()
        with torch.no_grad():
            ours(x)
        parametrize.register_parametrization(ours[0], "weight", Twice())
        plain = block()
        with torch.no_grad():
            plain[0].weight.mul_(2)
            expect_same(act(ours)(x), plain(x))


def test_hooks_are_called():
    plain, seen = block(), []
    for model in (plain, fused(plain)):
        model[1].register_forward_hook(lambda one, inputs, y: y + inputs[0])
        model.register_forward_pre_hook(lambda one, inputs: (2 * inputs[0],))
        model.register_forward_hook(lambda one, inputs, y: seen.append(y.shape))
        with torch.no_grad():
            seen.append(model(torch.ones(1, 3, 8, 8)))
    assert len(seen) == 4
    expect_same(seen[1], seen[3])


class Output(collections.OrderedDict):
    """An output class as in libraries."""

    def __getattr__(self, name):
        return self[name]


@dataclasses.dataclass
class Data:
    sample: torch.Tensor


class Pair(typing.NamedTuple):
    sample: torch.Tensor


KINDS = {
    "Output": lambda y: Output(sample=y),
    "dataclass": Data,
    "NamedTuple": Pair,
    "dict": lambda y: {"sample": y},
    "None": lambda y: (y, None, 3),
}


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_of_the_types_that_they_were(kind):
    class Net(Named):
        def forward(self, x):
            return KINDS[kind](super().forward(x))

    plain, x = Net().eval(), image()
    with torch.no_grad():
        assert type(fused(plain)(x)) is type(plain(x))


CODE = {
    "dtype": lambda own, x: own(x) * (2 if x.dtype is torch.float32 else 1),
    "mode": lambda own, x: own(x) * (2 if torch.is_grad_enabled() else 1),
    "device": lambda own, x: own(x) * (2 if "cpu" in str(x.device) else 1),
    "values": lambda own, x: own(x) * (2 if x.sum() > 0 else 1),
    "attribute": lambda own, x: own(x) * getattr(x, "mask", 3),
    "shape": lambda own, x: own(x) * x.shape[-1],
}


@pytest.mark.parametrize("name", CODE)
def test_what_python_decides_is_decided_in_each_call(name):
    class Net(Named):
        def forward(self, x):
            return CODE[name](super().forward, x)

    plain = Net().eval()
    ours = fused(plain)
    for size, sign in ((8, 1), (9, -1), (8, -1), (8, 1)):
        with torch.no_grad():
            x = sign * torch.rand(2, 3, size, size)
            expect_same(ours(x), plain(x))


def test_side_effects_happen_once_a_call():
    class Net(Named):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return super().forward(x) * self.calls

    plain = Net().eval()
    ours, x = fused(plain), image()
    with torch.no_grad():
        for _ in range(4):
            expect_same(ours(x), plain(x))
    assert ours.calls == plain.calls == 4


def test_code_that_dynamo_cannot_read_runs():
    class Net(Named):
        def forward(self, x):
            try:
                return super().forward(x) * x.mask
            except AttributeError:
                return super().forward(x)

    plain = Net().eval()
    with torch.no_grad():
        x = image()
        expect_same(fused(plain)(x), plain(x))


def test_modules_without_a_name_to_import_them_by():
    """As judges of programs create them."""
    names = {}
    text = "\n".join(
        [
            "import torch, convfuse",
            "class ModelNew(torch.nn.Module):",
            "    def __init__(self):",
            "        super().__init__()",
            "        self.conv, self.norm = torch.nn.Conv2d(3, 8, 3), torch.nn.GroupNorm(2, 8)",
            "        convfuse.fuse(self.requires_grad_(False), cpu=True, precision='accurate')",
            "    def forward(self, x):",
            "        return torch.nn.functional.silu(self.norm(self.conv(x)))",
        ]
    )
    exec(text, names)  # noqa: S102
    model, x = names["ModelNew"](), image()
    # Judges call it with gradient recording enabled.
    y = model(x)
    assert chains(model) == [CHAIN]
    expect_same(y, convfuse.unfuse(model)(x))


ERRORS = {
    "channels": lambda: torch.randn(2, 4, 8, 8),
    "axes": lambda: torch.randn(3, 8),
    "float64": lambda: image().double(),
    "float16": lambda: image().half(),
    "integers": lambda: torch.ones(2, 3, 8, 8, dtype=torch.int64),
    "a filter larger than the image": lambda: image(2),
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("was_called", [False, True])
def test_errors_are_those_of_pytorch(name, was_called):
    plain, wrong = block(), ERRORS[name]()
    ours = fused(plain)
    with torch.no_grad():
        if was_called:
            ours(image())
        with pytest.raises(Exception) as theirs:
            plain(wrong)
        with pytest.raises(type(theirs.value)) as mine:
            ours(wrong)
        assert str(mine.value) == str(theirs.value)
        ours(image())


def test_one_value_for_each_statistic_is_refused_as_pytorch_does():
    plain = nn.Sequential(nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8)).eval()
    with torch.no_grad():
        for model in (plain, fused(plain)):
            with pytest.raises(ValueError, match="more than 1 spatial element"):
                model(image(3))


def test_shapes_are_compiled_a_bounded_number_of_times():
    ours, plain = fused(block()), block()
    with torch.no_grad():
        for size in (8, 9, 10, 13, 17, 21):
            for batch in (1, 2, 3, 5):
                x = image(size, batch)
                expect_same(ours(x), plain(x))
    assert len(ours.__dict__["_convfuse"].kernels.programs) <= 6


def test_many_models_do_not_count_as_recompilations():
    with torch.no_grad(), torch._dynamo.config.patch(recompile_limit=2):
        for _ in range(6):
            ours = fused(block())
            ours(image())
            assert chains(ours) == [CHAIN]


def test_replicas_compute_with_their_own_parameters():
    plain = block()
    ours, x = fused(plain), image()

    def replica(model):
        made = {id(one): one._replicate_for_data_parallel() for one in model.modules()}
        for one in model.modules():
            for name, child in one._modules.items():
                setattr(made[id(one)], name, made[id(child)])
            for name, value in one._parameters.items():
                setattr(made[id(one)], name, 3 * value.detach())
        return made[id(model)]

    with torch.no_grad():
        ours(x)
        for _ in range(4):
            expect_same(replica(ours)(x), replica(plain)(x))
        expect_same(ours(x), plain(x))
    # A replica's parameters are not registered as its own; all replicas are alike.
    assert chains(ours) == [CHAIN] * 2


def test_threads_share_a_model():
    ours, plain, x = fused(block()), block(), image()
    with torch.no_grad():
        expected = [plain(x * value) for value in range(4)]

    def work(value):
        with torch.no_grad():
            for _ in range(10):
                expect_same(ours(x * value), expected[value])

    at_once(work)


def test_others_trace_the_models_own_code():
    plain = block()
    ours, x = fused(plain), image()
    with torch.no_grad():
        ours(x)
        exported = torch.export.export(ours, (x,))
        assert not any("convfuse" in str(one.target) for one in exported.graph.nodes)
        expect_same(exported.module()(x), plain(x))
        expect_same(torch.fx.symbolic_trace(ours)(x), plain(x))
        expect_same(torch.jit.trace(ours, (x,))(x), plain(x))
        expect_same(torch.jit.script(ours)(x), plain(x))
        expect_same(torch.compile(ours, backend="aot_eager", fullgraph=True)(x), plain(x))


def test_others_trace_a_fused_part():
    plain = nn.Sequential(block(), nn.ReLU())
    ours, x = nn.Sequential(fused(plain[0]), nn.ReLU()), image()
    with torch.no_grad():
        ours(x)
        expect_same(torch.fx.symbolic_trace(ours)(x), plain(x))


class Seen(TorchDispatchMode):
    """Notes the operators that are called."""

    def __init__(self):
        super().__init__()
        self.operators = []

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        self.operators.append(function)
        return function(*arguments, **(named or {}))


def test_dispatch_modes_see_pytorchs_operators():
    plain, x, seen = block(), image(), []
    for model in (plain, fused(plain)):
        with torch.no_grad():
            model(x)
            with Seen() as mode:
                model(x)
        seen.append(mode.operators)
    assert seen[0] == seen[1] and seen[0]


def test_operations_are_counted_as_before():
    plain, x = block(), image()
    counts = []
    for model in (plain, fused(plain)):
        with torch.no_grad():
            model(x)
            with FlopCounterMode(display=False) as mode:
                model(x)
        counts.append(mode.get_total_flops())
    assert counts[0] == counts[1] > 0


def test_modes_may_change():
    plain = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.5))
    ours, x = fused(plain), image()
    for model in (plain, ours):
        model.train()
    with torch.no_grad():
        for _ in range(2):
            torch.manual_seed(3)
            y = ours(x)
            torch.manual_seed(3)
            expect_same(y, plain(x))
        for model in (plain, ours):
            model.eval()
        expect_same(ours(x), plain(x))
    assert set(chains(ours)) == {"conv2d batch_norm relu"}


def test_tensors_on_the_cpu_are_left_to_pytorch():
    plain, x = block(), image()
    ours = convfuse.fuse(copy.deepcopy(plain))
    with torch.no_grad():
        assert torch.equal(ours(x), plain(x))
    (entry,) = convfuse.report(ours).entries[:1]
    assert not entry.taken and "on the CPU" in entry.reason
    for example in (x, (x,)):
        ours = convfuse.fuse(copy.deepcopy(plain), example)
        assert "on no GPU, so nothing was timed" in str(convfuse.report(ours))


@pytest.mark.parametrize("liked", ["all", "none", "silu", "relu"])
def test_regions_are_kept_if_the_whole_model_is_faster_by_them(monkeypatch, liked):
    torch.manual_seed(0)
    plain = nn.Sequential(
        *(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU()),
        *(nn.Conv2d(8, 8, 3), nn.GroupNorm(2, 8), nn.ReLU()),
        *(nn.Conv2d(8, 4, 3), nn.GroupNorm(2, 4), nn.SiLU()),
    ).eval()

    def measure(call, device):
        call()
        own = next(
            one.cell_contents
            for one in call.__closure__
            if isinstance(one.cell_contents, _fuse._Fused)
        )
        if call.__name__ == "plain":
            return Times(10.0)
        kernels = own.kernels
        running = [
            region.operators
            for program in kernels.programs
            for region in program.regions
            if region.key not in kernels.refused
        ]
        likes = [liked in ("all", *one) for one in running]
        return Times(10.0 - sum(1.0 if one else -1.0 for one in likes))

    monkeypatch.setattr(_fuse, "measure", measure)
    ours, x = copy.deepcopy(plain), image(12)
    convfuse.fuse(ours, x, cpu=True, precision="accurate")
    expected = {"all": 3, "none": 0, "silu": 2, "relu": 1}[liked]
    report = convfuse.report(ours)
    assert report.replaced == expected and report.plain is not None
    assert (report.fused is None) == (expected == 0)
    with torch.no_grad():
        expect_same(ours(x), plain(x))
        copied = copy.deepcopy(ours)
        expect_same(copied(x), plain(x))
        assert convfuse.report(copied).replaced == expected
    # Calls of a model that is left to PyTorch are not redirected.
    for model in (ours, copied):
        assert (model.__dict__.get(_fuse._CALLED) is not None) == (expected > 0)
    if expected:
        assert all(liked in ("all", *one.split()) for one in chains(ours))
    else:
        assert "as fast by PyTorch's own operators" in str(report)


def test_a_clock_changes_neither_buffers_nor_generators():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.5)).train()
    x, before = image(), copy.deepcopy(model.state_dict())
    state = torch.get_rng_state()
    convfuse.fuse(model, x, cpu=True)
    assert torch.equal(torch.get_rng_state(), state)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_unfuse_undoes_modules_within():
    model = nn.Sequential(nn.Sequential(fused(block())), nn.ReLU())
    assert convfuse.unfuse(model) is model
    for one in model.modules():
        assert not {_fuse._STATE, _fuse._CALLED, _fuse._REPLICATED} & set(one.__dict__)


def test_a_clock_decides():
    ours, x = convfuse.fuse(block(), image(), cpu=True), image()
    report = convfuse.report(ours)
    assert report.plain.call > 0 and report.plain.graph is None
    with torch.no_grad():
        torch.testing.assert_close(ours(x), block()(x), rtol=1e-2, atol=1e-2)
