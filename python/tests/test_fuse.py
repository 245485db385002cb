"""``fuse``: what is found, what is left, and that a model stays what it is."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from support import DEVICES, expect_same, products_in_full, redraw  # noqa: F401
from torch import nn
from torch.nn import functional as F

import convfuse
from convfuse import _fuse, _native

pytestmark = pytest.mark.usefixtures("products_in_full")


class DoubleConv(nn.Sequential):
    def __init__(self, channels, filters):
        super().__init__(
            nn.Conv2d(channels, filters, 3, padding=1),
            nn.GroupNorm(4, filters),
            nn.SiLU(inplace=True),
            nn.Conv2d(filters, filters, 3, padding=1, bias=False),
            nn.InstanceNorm2d(filters, affine=True),
            nn.LeakyReLU(0.1),
        )


class UNet(nn.Module):
    """Skips, a transposed convolution, chains in children and across them."""

    def __init__(self):
        super().__init__()
        self.down, self.deep = DoubleConv(3, 8), DoubleConv(8, 16)
        self.pool, self.up = nn.MaxPool2d(2), nn.ConvTranspose2d(16, 8, 2, 2)
        self.merge = DoubleConv(16, 8)
        self.conv, self.norm, self.head = nn.Conv2d(8, 8, 1), nn.GroupNorm(2, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        down = self.down(x)
        up = self.up(self.deep(self.pool(down)))
        y = self.merge(torch.cat([up, down], 1))
        return self.head(F.relu(self.norm(self.conv(y))))


class Residual(nn.Module):
    """A block as diffusion models have it, with an embedding that most calls lack."""

    def __init__(self, channels=16):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, channels), nn.Conv2d(channels, channels, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(4, channels), nn.Conv2d(channels, channels, 3, padding=1)
        self.project, self.dropout = nn.Linear(7, channels), nn.Dropout(0.5)

    def forward(self, x, embedding=None):
        y = self.conv1(F.silu(self.norm1(x)))
        if embedding is not None:
            y = y + self.project(embedding)[:, :, None, None]
        y = self.conv2(self.dropout(F.silu(self.norm2(y))))
        return x + y


class Classifier(nn.Module):
    """A residual block with batch norms, whose shortcut is computed last."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(8, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16)
        self.conv2, self.bn2 = nn.Conv2d(16, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        self.down = nn.Sequential(nn.Conv2d(8, 16, 1, 2, bias=False), nn.BatchNorm2d(16))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += self.down(x)
        return self.relu(y)


class ResidualUnit(nn.Module):
    """Convolutions with slopes that are parameters, one for all channels and one for each, by a module and by a function."""

    def __init__(self):
        super().__init__()
        self.conv1, self.norm1, self.act1 = nn.Conv3d(2, 6, 3, 1, 1), nn.InstanceNorm3d(6), nn.PReLU()
        self.conv2, self.norm2 = nn.Conv3d(6, 6, 3, 1, 1), nn.InstanceNorm3d(6)
        self.act2 = nn.PReLU(6)
        self.slope = nn.Parameter(torch.tensor([-0.5]))
        self.last = nn.Conv3d(6, 4, 1)

    def forward(self, x):
        y = self.act1(self.norm1(self.conv1(x)))
        y = F.prelu(self.norm2(self.conv2(y)), self.act2.weight)
        return F.prelu(self.last(y), self.slope)


class Choosing(nn.Module):
    """What fx cannot trace, around what it can."""

    def __init__(self):
        super().__init__()
        self.inner = DoubleConv(3, 8)
        self.last = nn.Conv2d(8, 3, 1)

    def forward(self, x):
        y = self.inner(x)
        return self.last(y) if y.sum() > 0 else self.last(-y)


MODELS = {
    "unet": (UNet, (2, 3, 16, 24), 7),
    "residual": (Residual, (2, 16, 12, 10), 2),
    "residual_unit": (ResidualUnit, (2, 2, 6, 8, 10), 2),
    "choosing": (Choosing, (2, 3, 12, 10), 2),
}


def made(name, device):
    kind, shape, count = MODELS[name]
    torch.manual_seed(3)
    model = kind().eval()
    redraw(model)
    return model.to(device), torch.randn(shape, device=device), count


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", MODELS)
def test_chains_are_replaced_and_results_stay(name, device):
    model, x, count = made(name, device)
    names, kind = list(model.state_dict()), type(model)
    with torch.no_grad():
        expected = model(x)
        fused = convfuse.fuse(model, cpu=True)
        assert fused is model and isinstance(model, kind) and list(model.state_dict()) == names
        assert convfuse.report(model).replaced == count, convfuse.report(model)
        expect_same(model(x), expected)
        redraw(model)
        changed = model(x)
        unfused = convfuse.unfuse(model)
        assert unfused is model and type(model) is kind
        assert all(not type(m).__mro__[1].__module__.startswith("convfuse") for m in model.modules())
        expect_same(changed, model(x))
    with pytest.raises(ValueError, match="unfuse has undone it"):
        convfuse.report(model)


@pytest.mark.parametrize("device", DEVICES)
def test_what_runs_is_fused(device):
    model, x, _ = made("unet", device)
    _native.clear()
    with torch.no_grad():
        convfuse.fuse(model, cpu=True)(x)
    assert _native.kept_plans() > 0


@pytest.mark.parametrize("device", DEVICES)
def test_copies_of_fused_models_are_fused(device):
    model, x, count = made("unet", device)
    convfuse.fuse(model, cpu=True)
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    copies = [
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        torch.load(buffer, weights_only=False),
    ]
    with torch.no_grad():
        y = model(x)
        for one in copies:
            assert isinstance(one, UNet) and convfuse.report(one).replaced == count
            assert torch.equal(one(x), y)
            redraw(one)
            changed = one(x)
            assert not torch.equal(changed, y)
            expect_same(changed, convfuse.unfuse(one)(x))
        assert torch.equal(model(x), y)


@pytest.mark.parametrize("device", DEVICES)
def test_arguments_that_were_not_traced_take_the_layers(device):
    model, x, _ = made("residual", device)
    embedding = torch.randn(2, 7, device=device)
    with torch.no_grad():
        with_embedding, without = model(x, embedding), model(x)
        convfuse.fuse(model, cpu=True)
        expect_same(model(x, embedding), with_embedding)
        expect_same(model(x, embedding=embedding), with_embedding)
        expect_same(model(x), without)
        expect_same(model(x=x), without)
        assert torch.equal(model.double()(x.double()), convfuse.unfuse(model)(x.double()))


@pytest.mark.parametrize("device", DEVICES)
def test_training_takes_the_layers(device):
    model, x, _ = made("residual", device)
    convfuse.fuse(model, cpu=True).train()
    torch.manual_seed(1)
    y = model(x)
    torch.manual_seed(1)
    convfuse.unfuse(model)
    assert torch.equal(y, model(x))


@pytest.mark.parametrize("device", DEVICES)
def test_an_example_decides(device, monkeypatch):
    tried, judge = [], _fuse.judge

    def listened(runner, inputs, rounds, entry):
        tried.append((entry.module, entry.chain))
        judge(runner, inputs, rounds, entry)

    monkeypatch.setattr(_fuse, "judge", listened)
    torch.manual_seed(3)
    model = Classifier().eval()
    redraw(model)
    model, x = model.to(device), torch.randn(2, 8, 16, 14, device=device)
    assert convfuse.report(convfuse.fuse(model, cpu=True)).replaced == 0
    with torch.no_grad():
        expected = convfuse.unfuse(model)(x)
        convfuse.fuse(model, x, cpu=True)
        assert set(tried[:3]) == {
            ("conv1", "conv2d batch_norm relu"),
            ("conv2", "conv2d batch_norm add relu"),
            ("down.0", "conv2d batch_norm"),
        }
        found = convfuse.report(model)
        assert {(one.module, one.chain) for one in found.entries} <= set(tried)
        assert all(e.layers_us and e.fused_us for e in found.entries), found
        for entry in found.entries:
            assert entry.replaced == (entry.fused_us <= 0.98 * entry.layers_us)
        expect_same(model(x), expected)
    assert "us by PyTorch" in str(found)


def test_residuals_of_other_shapes_and_types_take_the_layers():
    class Broadcast(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8)

        def forward(self, x, residual):
            return F.relu(self.norm(self.conv(x)) + residual)

    model, x = Broadcast().eval(), torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        residuals = [torch.randn(shape) for shape in [(2, 8, 6, 6), (1, 8, 1, 1), (6,)]]
        types = torch.float16, torch.bfloat16, torch.float64, torch.int64
        for residual in residuals + [(3 * residuals[0]).to(dtype) for dtype in types]:
            expected = convfuse.unfuse(model)(x, residual)
            expect_same(convfuse.fuse(model, cpu=True)(x, residual), expected)
    assert convfuse.report(model).entries[0].chain == "conv2d group_norm add relu"


def test_assignments_write_into_what_they_are_given():
    class Writes(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 8, 1), nn.GroupNorm(2, 8)

        def forward(self, x):
            height = total = x.shape[2]
            total += x.shape[3]
            y = self.norm(self.conv(x))
            half = y[:, :4]
            half *= 3
            x += total
            return F.relu(y) + height

    model, x = Writes().eval(), torch.randn(2, 3, 6, 5)
    redraw(model)
    with torch.no_grad():
        given = x.clone(), x.clone()
        expected = model(given[0])
        expect_same(convfuse.fuse(model, cpu=True)(given[1]), expected)
    assert convfuse.report(model).replaced == 1 and torch.equal(*given)


def test_what_is_no_model_and_no_example_is_refused():
    model = nn.Sequential(nn.GroupNorm(2, 8))
    for function in (convfuse.fuse, convfuse.unfuse, convfuse.report):
        with pytest.raises(TypeError, match=f"{function.__name__} takes a torch.nn.Module, not int"):
            function(3)
    for example in (3, {"input": torch.ones(1)}):
        with pytest.raises(TypeError, match="example_input is a tensor or a tuple of arguments, not"):
            convfuse.fuse(model, example)
    with pytest.raises(ValueError, match="must be one of"):
        convfuse.fuse(model, precision="high")


def test_layers_that_somebody_listens_to_are_left_alone():
    model, x, count = made("unet", "cpu")
    seen = []
    model.down[1].register_forward_hook(lambda *_: seen.append(1))
    model.deep.register_forward_hook(lambda *_: seen.append(2))
    convfuse.fuse(model, cpu=True)
    with torch.no_grad():
        model(x)
    assert seen == [1, 2] and convfuse.report(model).replaced < count


def test_weight_norms_are_left_alone():
    model = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 8, 3)), nn.GroupNorm(2, 8), nn.ReLU()
    ).eval()
    found = convfuse.report(convfuse.fuse(model, cpu=True)).entries
    assert [(one.module, one.chain) for one in found] == [("1", "group_norm relu")]


def test_in_place_work_in_between_is_respected():
    class Writes(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 8, 1), nn.GroupNorm(2, 8)

        def forward(self, x):
            x = x + 0
            y = self.conv(x)
            x.relu_()
            return self.norm(y).relu() + x.sum()

    model, x = Writes().eval(), torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        expected = model(x)
        expect_same(convfuse.fuse(model, cpu=True)(x), expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["unet", "residual"])
def test_fused_models_compile_and_export(name, device):
    torch._dynamo.reset()
    model, x, _ = made(name, device)
    with torch.no_grad():
        expected = model(x)
        convfuse.fuse(model, cpu=True)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        expect_same(compiled(x), expected)
        expect_same(torch.export.export(model, (x,)).module()(x), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_fused_models_are_differentiated(device):
    model, x, _ = made("unet", device)
    model(x).square().mean().backward()
    expected = {name: value.grad.clone() for name, value in model.named_parameters()}
    model.zero_grad()
    convfuse.fuse(model, cpu=True)(x).square().mean().backward()
    for name, value in model.named_parameters():
        expect_same(value.grad, expected[name])


@pytest.mark.parametrize("device", DEVICES)
def test_autocast_keeps_types(device):
    model, x, _ = made("unet", device)
    dtype = torch.bfloat16
    with torch.no_grad(), torch.autocast(device, dtype):
        expected = model(x)
        y = convfuse.fuse(model, cpu=True)(x)
    assert y.dtype == expected.dtype
    assert (y - expected).abs().max() <= 0.1 * expected.abs().max()
