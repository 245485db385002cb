"""Ordinary uses of models through each entry point, compared with PyTorch: hooks, conversions, surgery,
parametrizations, shapes, transforms."""

from __future__ import annotations

import contextlib
import copy
import gc
import weakref

import pytest
import torch
from support import at_once, chains, expect_same, products_in_full, reasons
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.nn.utils import parametrizations, parametrize, prune
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import convfuse

pytestmark = pytest.mark.usefixtures("products_in_full")
assert products_in_full

OPTIONS = {"cpu": True, "choice": "all", "precision": "accurate"}

DOORS = {
    "fuse": lambda model: convfuse.fuse(model, **OPTIONS),
    "backend": lambda model: torch.compile(model, backend="convfuse", options=OPTIONS),
}

both = pytest.mark.parametrize("door", DOORS)


def block(channels, filters=8):
    layers = [nn.Conv2d(channels, filters, 3, padding=1), nn.GroupNorm(2, filters), nn.SiLU()]
    return nn.Sequential(*layers)


def net():
    torch.manual_seed(0)
    return nn.Sequential(block(3), block(8), nn.Conv2d(8, 4, 1)).eval()


def image(*shape):
    torch.manual_seed(1)
    return torch.randn(*(shape or (2, 3, 8, 9)))


def plain_of(model):
    """The original model of a compiled one."""
    return getattr(model, "_orig_mod", model)


class Pair:
    """A PyTorch model and its copy through an entry point, for the same operations on both."""

    def __init__(self, plain, door="fuse"):
        self.plain, self.ours = plain, DOORS[door](copy.deepcopy(plain))

    def change(self, act):
        """Applies a change to both."""
        for model in (self.plain, plain_of(self.ours)):
            torch.manual_seed(3)
            act(model)

    def expect_same(self, *inputs):
        with torch.no_grad():
            for _ in range(2):
                y, expected = self.ours(*inputs), self.plain(*inputs)
                if expected.numel():
                    expect_same(y, expected)
                else:
                    torch.testing.assert_close(y, expected)


@both
def test_hooks_that_come_later_are_called(door):
    pair = Pair(net(), door)
    pair.expect_same(image())
    handles = []
    for act in (
        lambda model: model[0].register_forward_hook(lambda one, inputs, y: 3 * y),
        lambda model: model[1][1].register_forward_pre_hook(lambda one, inputs: 2 * inputs[0]),
    ):
        pair.change(lambda model, act=act: handles.append(act(model)))
        pair.expect_same(image())
    for one in handles:
        one.remove()
    pair.expect_same(image())


class Subclass(torch.Tensor):
    """A tensor subclass without its own operators."""


def of_a_subclass(model):
    model[0][0].weight = nn.Parameter(model[0][0].weight.detach().as_subclass(Subclass))


@both
@pytest.mark.parametrize("what", ["input", "parameter"])
def test_plain_subclasses_are_left_to_pytorch(door, what):
    plain = net()
    pair, x = Pair(plain, door), image()
    if what == "parameter":
        pair.change(of_a_subclass)
    else:
        x = x.as_subclass(Subclass)
    with torch.no_grad():
        y = pair.ours(x)
        assert type(y) is type(plain(x))
        expect_same(y, plain(x))
    assert "a subclass of torch.Tensor" in str(convfuse.report(plain_of(pair.ours)))


def test_subclasses_of_parameters_are_taken():
    class Own(nn.Parameter):
        pass

    model = net()
    model[0][0].weight = Own(model[0][0].weight.detach())
    ours = convfuse.fuse(model, **OPTIONS)
    with torch.no_grad():
        y = ours(image())
        assert chains(ours)[0] == "conv2d group_norm silu"
        expect_same(y, convfuse.unfuse(ours)(image()))


class Scaled(nn.Module):
    """A model with a number that changes between calls."""

    def __init__(self):
        super().__init__()
        self.block, self.factor = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8)), 1.5

    def forward(self, x):
        return torch.relu(self.block(x) * self.factor)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_numbers_may_change_between_calls(dtype):
    torch.manual_seed(0)
    plain, x = Scaled().eval().to(dtype), image().to(dtype)
    counted = torch._dynamo.testing.CompileCounterWithBackend("eager")
    ours = torch.compile(copy.deepcopy(plain), backend="convfuse", options=OPTIONS, dynamic=True)
    graphs = torch.compile(copy.deepcopy(plain), backend=counted, dynamic=True)
    with torch.no_grad():
        for factor in (1.5, 0.7, -2.25, 0.1, 3.0, 1e-3, 4.5, 0.3, 0.9, 1.1):
            plain.factor = ours._orig_mod.factor = graphs._orig_mod.factor = factor
            graphs(x)
            error = (ours(x) - plain(x)).abs().max().item()
            assert error <= (2e-2 if dtype is torch.float16 else 1e-4)
    assert counted.frame_count == 1
    report = convfuse.report(ours)
    assert len(report.entries) == 1
    if dtype is torch.float32:
        assert report.entries[0].chain == "conv2d group_norm mul relu"
    else:
        # The number would be rounded to 16 bits.
        assert report.entries[0].chain == "conv2d group_norm"
        assert "another one in the next call" in report.entries[0].reason


class Doubled(nn.Module):
    def forward(self, weight):
        return weight + weight.flip(-1)


def widened(model):
    model.append(block(4).eval())


def without_weights(model):
    model[0][1].weight = model[0][1].bias = None


def other_attributes(model):
    model[0][1].eps, model[0][0].stride, model[0][0].padding = 0.5, (2, 2), (0, 0)


def replaced(model):
    model[1] = nn.Sequential(nn.Conv2d(8, 8, 1), nn.Tanh())


def tied(model):
    model[1][0].weight = nn.Parameter(model[0][0].weight.detach().repeat(1, 3, 1, 1)[:, :8])


def parametrised(model):
    parametrize.register_parametrization(model[0][0], "weight", Doubled())


def written(model):
    with torch.no_grad():
        for one in model.parameters():
            one.mul_(1.5).add_(0.1)


def loaded(model):
    model.load_state_dict({key: 2 * one for key, one in model.state_dict().items()}, assign=True)


def swapped(model):
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model.bfloat16().float()
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


def there_and_back(model):
    state = {key: one.clone() for key, one in model.state_dict().items()}
    model.to("meta").to_empty(device="cpu").load_state_dict(state)


SURGERY = {
    "another layer": widened,
    "norm without weights": without_weights,
    "attributes of layers": other_attributes,
    "another submodule": replaced,
    "another parameter": tied,
    "parametrisation": parametrised,
    "weight norm": lambda model: parametrizations.weight_norm(model[0][0]),
    "spectral norm": lambda model: parametrizations.spectral_norm(model[0][0]).eval(),
    "pruning": lambda model: prune.l1_unstructured(model[0][0], "weight", amount=0.5),
    "writes": written,
    "state dict": loaded,
    "meta and back": there_and_back,
    "channels last": lambda model: model.to(memory_format=torch.channels_last),
    "float64 and back": lambda model: model.double().float(),
    "frozen": lambda model: model.requires_grad_(False),
    "training": lambda model: model.train(),
}


def _dynamo_lets_swap():
    """Whether this PyTorch (2.11 or later) keeps no weak references to parameters of compiled models, which
    would prevent swapping them."""
    model = nn.Linear(1, 1)
    torch.compile(model, backend="eager")(torch.ones(1, 1))
    return not weakref.getweakrefs(model.weight)


@both
def test_parameters_of_compiled_models_may_be_swapped(door):
    if not _dynamo_lets_swap():
        pytest.skip("Dynamo of this PyTorch does not let parameters be swapped")
    pair = Pair(net(), door)
    pair.expect_same(image())
    pair.change(swapped)
    pair.expect_same(image())


@pytest.mark.parametrize("name", SURGERY)
def test_models_may_be_changed_after_calls(name):
    pair = Pair(net())
    pair.expect_same(image())
    pair.change(SURGERY[name])
    pair.expect_same(image())
    pair.ours = copy.deepcopy(pair.ours)
    pair.expect_same(image())


INPUTS = {
    "transposed": lambda: image(2, 3, 9, 8).mT,
    "every other channel": lambda: image(2, 6, 8, 9)[:, ::2],
    "expanded": lambda: image(1, 3, 8, 9).expand(3, -1, -1, -1),
    "every other row": lambda: image(4, 3, 16, 9)[::2, :, ::2],
    "channels last": lambda: image().to(memory_format=torch.channels_last),
    "a parameter": lambda: nn.Parameter(image()),
    "no samples": lambda: image(0, 3, 8, 9),
    "one sample": lambda: image(1, 3, 8, 9),
    "one pixel": lambda: image(2, 3, 1, 1),
}


def test_inputs_may_be_any_in_turn():
    pair = Pair(net())
    for make in (*INPUTS.values(), *INPUTS.values()):
        pair.expect_same(make())


def test_samples_without_a_batch_are_taken_as_pytorch_takes_them():
    pair = Pair(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1)).eval())
    for shape in ((3, 8, 9), (2, 3, 8, 9), (3, 8, 9)):
        pair.expect_same(image(*shape))


def test_other_types_are_left_to_pytorch():
    pair = Pair(net().double())
    pair.expect_same(image().double())
    assert "no kernels for torch.float64" in reasons(pair.ours)["convolution"]
    pair = Pair(nn.Sequential(nn.Conv2d(3, 4, 3)).eval().to(torch.complex64))
    with torch.no_grad():
        x = image().to(torch.complex64)
        torch.testing.assert_close(pair.ours(x), pair.plain(x))


class Function(TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), named=None):
        return function(*arguments, **(named or {}))


class Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        return function(*arguments, **(named or {}))


CONTEXTS = {
    "function mode": Function,
    "dispatch mode": Dispatch,
    "device": lambda: torch.device("cpu"),
    "no mkldnn": lambda: torch.backends.mkldnn.flags(enabled=False),
    "saved on the CPU": torch.autograd.graph.save_on_cpu,
    "inference mode": torch.inference_mode,
}


@pytest.mark.parametrize("name", CONTEXTS)
def test_contexts_may_change_between_calls(name):
    pair = Pair(net())
    for context in (contextlib.nullcontext, CONTEXTS[name], contextlib.nullcontext):
        with context():
            pair.expect_same(image())


class Parts(nn.Module):
    """A model of parts whose code enables or disables gradients."""

    def __init__(self, way):
        super().__init__()
        self.first, self.last, self.way = block(3), nn.Conv2d(8, 4, 1), way

    def forward(self, x):
        if self.way == "no_grad":
            with torch.no_grad():
                y = self.first(x)
            return self.last(y)
        if self.way == "enable_grad":
            with torch.enable_grad():
                z = x.detach().requires_grad_()
                (slope,) = torch.autograd.grad(self.first(z).square().sum(), z)
            return self.last(self.first(slope))
        if self.way == "checkpoint":
            return self.last(checkpoint(self.first, x, use_reentrant=False))
        if self.way == "data":
            y = self.last(self.first(x))
            return 2 * y if y.mean().item() > 0 else y.abs()
        x.mul_(2)
        return self.last(self.first(x)).relu_()


@pytest.mark.parametrize("way", ["no_grad", "enable_grad", "checkpoint", "data", "in place"])
@pytest.mark.parametrize("is_recorded", [False, True])
def test_code_within_models_is_as_it_is_written(way, is_recorded):
    torch.manual_seed(0)
    pair = Pair(Parts(way).eval())
    for _ in range(2):
        x, z = image(), image()
        with torch.set_grad_enabled(is_recorded):
            y, expected = pair.ours(x), pair.plain(z)
        expect_same(y.detach(), expected.detach())
        assert y.requires_grad == expected.requires_grad and torch.equal(x, z)
        if is_recorded:
            for model, result in ((pair.ours, y), (pair.plain, expected)):
                model.zero_grad()
                result.square().mean().backward()
            for ours, plain in zip(pair.ours.parameters(), pair.plain.parameters(), strict=True):
                assert (ours.grad is None) == (plain.grad is None)
                if plain.grad is not None:
                    expect_same(ours.grad, plain.grad)


def test_modules_within_modules_may_be_fused_and_compiled():
    plain = net()
    parts = copy.deepcopy(plain)
    for number in range(2):
        parts[number] = DOORS["fuse"](parts[number])
    whole = DOORS["fuse"](copy.deepcopy(parts))
    outer = torch.compile(copy.deepcopy(parts), backend="eager")
    with torch.no_grad():
        for model in (parts, whole, outer):
            expect_same(model(image()), plain(image()))


def test_shared_modules_and_tied_parameters_compute():
    torch.manual_seed(0)
    shared = block(8)
    plain = nn.Sequential(block(3), shared, shared, block(8)).eval()
    plain[3][0].weight = shared[0].weight
    pair = Pair(plain)
    pair.expect_same(image())
    pair.change(written)
    pair.expect_same(image())


def test_averaged_models_follow_fused_ones():
    pair = Pair(net())
    pair.expect_same(image())
    average = torch.optim.swa_utils.AveragedModel
    means = average(pair.plain), average(pair.ours)
    for _ in range(2):
        pair.change(written)
        for mean, model in zip(means, (pair.plain, pair.ours), strict=True):
            mean.update_parameters(model)
        with torch.no_grad():
            expect_same(means[1](image()), means[0](image()))


def test_values_without_elements_are_left_alone():
    pair = Pair(net())
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert pair.ours(mode.from_tensor(image())).shape == (2, 4, 8, 9)
    pair.expect_same(image())
    with torch.no_grad():
        assert pair.ours.to("meta")(image().to("meta")).is_meta


def test_models_are_freed():
    pair = Pair(net())
    pair.expect_same(image())
    known = weakref.ref(pair.ours), weakref.ref(pair.ours[0][0].weight)
    pair.ours = None
    gc.collect()
    assert known[0]() is None and known[1]() is None


def test_shapes_in_threads_are_compiled_while_others_run():
    pair = Pair(net())

    def work(number):
        with torch.no_grad():
            for step in range(4):
                x = image(1 + (number + step) % 3, 3, 8, 9)
                expect_same(pair.ours(x), pair.plain(x))

    at_once(work)
