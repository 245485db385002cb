"""Export of models as network files: the network matches the model, and refusals name module and operator."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import convfuse
from convfuse import _export, arrays


class Bottleneck(nn.Module):
    """The block of ResNet-50."""

    def __init__(self, channels, width, stride=1, expansion=4):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width * expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or channels != width * expansion:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, width * expansion, 1, stride, bias=False),
                nn.BatchNorm2d(width * expansion),
            )

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    """The same network as torchvision's."""

    def __init__(self, depths=(3, 4, 6, 3), width=64, classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        channels, layers = width, []
        for stage, depth in enumerate(depths):
            blocks = []
            for number in range(depth):
                stride = 2 if stage > 0 and number == 0 else 1
                blocks.append(Bottleneck(channels, width << stage, stride))
                channels = (width << stage) * 4
            layers.append(nn.Sequential(*blocks))
        self.layer1, self.layer2, self.layer3, self.layer4 = layers
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(0.2)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.dropout(torch.flatten(self.avgpool(x), 1)))


def trained(model, seed=3):
    """The model with norms as after training."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, one in [*model.named_parameters(), *model.named_buffers()]:
            if name.endswith("running_var"):
                one.uniform_(0.5, 1.5)
            elif one.dim() == 1 and one.is_floating_point():
                one.normal_(1.0 if name.endswith("weight") else 0.0, 0.2)
    return model


def stored(path):
    """The tensors of a safetensors file, with their types."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__")
    kinds = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}
    found = {}
    for name, one in header.items():
        start, end = (8 + length + at for at in one["data_offsets"])
        values = np.frombuffer(data[start:end], kinds[one["dtype"]])
        found[name] = values.reshape(one["shape"]), one["dtype"]
    return found


def ran(exported, *inputs):
    """The outputs of an exported network."""
    values = {name: one for name, (one, _) in stored(exported.parameters).items()}
    model = arrays.Model(exported.network.read_text(), values)
    found = model(*(one.numpy() for one in inputs))
    if isinstance(found, tuple):
        return tuple(torch.from_numpy(np.array(one)) for one in found)
    return torch.from_numpy(np.array(found))


def operators(exported):
    layers = json.loads(exported.network.read_text())["layers"]
    return [next(iter(one["layer"])) for one in layers]


def close(got, want, bound=1e-5):
    torch.testing.assert_close(got, want, rtol=0, atol=bound * want.abs().max().item())


def test_a_resnet_is_a_network_under_the_names_of_its_state_dict(tmp_path):
    model = trained(ResNet((1, 2, 1, 1), 8, 10))
    assert model.training
    exported = convfuse.export(model, torch.randn(2, 3, 64, 64), tmp_path / "resnet")
    assert model.training and exported.error < 1e-5
    assert exported.network == tmp_path / "resnet.json"
    assert exported.parameters == tmp_path / "resnet.safetensors"
    state = {name for name in model.state_dict() if not name.endswith("num_batches_tracked")}
    assert set(stored(exported.parameters)) == state
    content = json.loads(exported.network.read_text())
    names = [one["name"] for one in content["layers"]]
    assert names[0] == "conv1" and "layer2.1.conv3" in names and names[-1] == "fc"
    assert content["layers"][names.index("layer1.0.bn1")]["input"] == "layer1.0.conv1"
    assert operators(exported)[-3:] == ["adaptive_avg_pool2d", "flatten", "linear"]
    # Other batches and extents, and a later checkpoint.
    model.eval()
    x = torch.randn(3, 3, 48, 80)
    with torch.no_grad():
        close(ran(exported, x), model(x))
        values = {name: one.numpy() for name, one in trained(model, 4).state_dict().items() if name in state}
        later = arrays.Model(exported.network.read_text(), values)
        close(torch.from_numpy(np.array(later(x.numpy()))), model(x))


def test_resnet_50_is_a_network(tmp_path):
    exported = convfuse.export(trained(ResNet()), torch.randn(1, 3, 64, 64), tmp_path / "resnet50.json")
    assert exported.network.name == "resnet50.json" and exported.error < 1e-4
    assert operators(exported).count("conv2d") == 53


def test_networks_of_torchvision_are_networks(tmp_path):
    models = pytest.importorskip("torchvision.models")
    for build in (models.resnet18, models.mobilenet_v3_small, models.densenet121):
        exported = convfuse.export(build(), torch.randn(1, 3, 64, 64), tmp_path / build.__name__)
        assert exported.error < 1e-4


def test_an_adaptive_pool_that_changes_nothing_is_left_out(tmp_path):
    head = nn.Flatten(), nn.Dropout(), nn.Linear(8 * 6 * 6, 5), nn.ReLU(), nn.Linear(5, 3)
    model = nn.Sequential(nn.Conv2d(4, 8, 3), nn.AdaptiveAvgPool2d((6, 6)), *head)
    exported = convfuse.export(model, torch.randn(2, 4, 8, 8), tmp_path / "net")
    assert operators(exported) == ["conv2d", "flatten", "linear", "relu", "linear"]
    # An input that requires pooling is refused.
    with pytest.raises(RuntimeError, match="linear: input.1. is 800, expected 288"):
        ran(exported, torch.randn(1, 4, 12, 12))
    with pytest.raises(convfuse.ExportError, match=r"to \[6, 6\], which does not divide \[10, 10\]"):
        convfuse.export(model, torch.randn(2, 4, 12, 12), tmp_path / "net")
    exported = convfuse.export(model[:2], torch.randn(2, 4, 8, 8), tmp_path / "net")
    x = torch.randn(1, 4, 14, 20)
    close(ran(exported, x), model[:2](x).detach())


class Functional(nn.Module):
    """Parameters outside of PyTorch's modules, constants, and parameters computed from others."""

    def __init__(self):
        super().__init__()
        self.filters = nn.Parameter(torch.randn(8, 4, 3, 3) * 0.2)
        self.normed = nn.utils.parametrizations.weight_norm(nn.Conv2d(8, 8, 1))
        self.gamma = nn.Parameter(torch.randn(8, 1, 1))
        self.shift = nn.Parameter(torch.randn(1, 8, 1, 1))
        self.register_buffer("mean", torch.full((1, 4, 1, 1), 0.4), persistent=False)
        self.act = nn.PReLU(8)

    def forward(self, x):
        x = F.conv2d((x - self.mean) / 0.5, self.filters, padding=1)
        y = self.normed(F.gelu(x)) * self.gamma + self.shift
        return self.act(y) * 2 - x + self.gamma


class Selective(nn.Module):
    """Parts of selective kernels and of split attention: stacked branches with factors by branch and channel."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(4, 8, 3, padding=2, dilation=2)
        self.reduce, self.norm, self.select = nn.Conv2d(8, 4, 1, bias=False), nn.BatchNorm2d(4), nn.Conv2d(4, 16, 1)

    def forward(self, x):
        y = torch.stack([F.relu(self.first(x)), self.second(x)], 1)
        z = self.select(F.relu(self.norm(self.reduce(y.sum(1).mean((2, 3), keepdim=True)))))
        z = z.view(x.shape[0], 1, 2, -1).transpose(1, 2).softmax(1).view(x.shape[0], 2, 8, 1, 1)
        return (y * z).sum(1)


def variants():
    conv = lambda *args, **named: nn.Conv2d(*args, **named)  # noqa: E731
    mobile = nn.Sequential(
        conv(4, 16, 1), nn.BatchNorm2d(16), nn.ReLU6(), conv(16, 16, 3, padding=1, groups=16),
        nn.BatchNorm2d(16), nn.Hardswish(), nn.AvgPool2d(2), nn.Flatten(), nn.Dropout(), nn.Linear(16 * 16, 6),
        nn.Hardtanh(), nn.BatchNorm1d(6), nn.Softmax(1),
    )  # fmt: skip
    norms = nn.Sequential(
        conv(4, 8, 3, padding=1, padding_mode="reflect"), nn.GroupNorm(2, 8), nn.SiLU(), nn.InstanceNorm2d(8),
        nn.Dropout2d(), nn.LeakyReLU(0.2), nn.ZeroPad2d(1), conv(8, 8, 3, dilation=2), nn.LayerNorm([8, 6, 6]),
        nn.Mish(), nn.ConvTranspose2d(8, 4, 2, stride=2), nn.InstanceNorm2d(4, affine=True), nn.Identity(),
    )  # fmt: skip
    gated = Lambda(lambda self, x: (lambda y: y * torch.sigmoid(y))(self.conv(x)))
    pooled = Lambda(lambda self, x: self.conv(x).mean((2, 3)) + 1)
    # Padding by 0, a type check, repeated channels, and a norm over features.
    kept = Lambda(lambda self, x: F.pad(self.conv(x), [0] * 4, "replicate").to(torch.float32) + x.repeat(1, 2, 1, 1))
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(4), nn.Linear(4, 6))
    known = {"mobile": mobile, "norms": norms, "functional": Functional(), "gated": gated, "pooled": pooled}
    # Zeros around channels and features, and the sum of an axis before others that then are channels.
    padded = Lambda(lambda self, x: F.pad(self.conv(x), [0, 0, 0, 0, 1, 2, 0, 0]) * 2 - F.pad(x, [0, 0, 0, 0, 7, 0]))
    features = Lambda(lambda self, x: F.pad(self.conv(x).mean((2, 3)), [1, 2]))
    known |= {"kept": kept, "head": head, "selective": Selective(), "padded": padded, "features": features}
    return known


class Lambda(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.conv = nn.Conv2d(4, 8, 3, padding=1)
        self.run = forward

    def forward(self, *inputs):
        return self.run(self, *inputs)


def test_one_sample_is_example_enough(tmp_path):
    class Excitation(nn.Module):
        """With a single sample, its gate has the shape of a per-channel parameter."""

        def __init__(self):
            super().__init__()
            self.conv, self.squeeze = nn.Conv2d(4, 8, 3), nn.Conv2d(8, 8, 1)

        def forward(self, x):
            x = self.conv(x)
            return torch.sigmoid(self.squeeze(x.mean((2, 3), keepdim=True))) * x

    model = trained(Excitation())
    exported = convfuse.export(model, torch.randn(1, 4, 8, 8), tmp_path / "net")
    assert operators(exported)[-1] == "gate"
    x = torch.randn(3, 4, 9, 7)
    with torch.no_grad():
        close(ran(exported, x), model(x))


@pytest.mark.parametrize("name", variants())
def test_what_is_exported_computes_what_the_model_does(tmp_path, name):
    model = trained(variants()[name])
    exported = convfuse.export(model, torch.randn(2, 4, 8, 8), tmp_path / name)
    assert exported.error < 1e-5
    x = torch.randn(5, 4, 8, 8)
    with torch.no_grad():
        close(ran(exported, x), model.eval()(x))


def test_parameters_of_no_module_have_names_of_their_own(tmp_path):
    model = Functional()
    exported = convfuse.export(model, torch.randn(2, 4, 8, 8), tmp_path / "net")
    found = stored(exported.parameters)
    assert {"gamma", "shift", "act.weight", "normed.bias"} <= set(found) | {"normed.bias"}
    state = model.state_dict()
    np.testing.assert_array_equal(found["gamma"][0], state["gamma"].numpy())
    # Computed parameters, and those of a functional convolution.
    assert {name.partition(".constant")[0] for name in found if ".constant" in name} == {"conv2d", "normed"}
    assert "sub" in operators(exported) and "div" in operators(exported)


def test_further_inputs_are_added(tmp_path):
    model = Lambda(lambda self, x, skip: F.relu(skip + self.conv(x)))
    given = torch.randn(2, 4, 6, 6), torch.randn(2, 8, 6, 6)
    exported = convfuse.export(model, given, tmp_path / "net")
    content = json.loads(exported.network.read_text())
    assert len(content["inputs"]) == 1
    with torch.no_grad():
        close(ran(exported, *given), model(*given))
    # An input that is only used for its shape is not an input of the network.
    model = Lambda(lambda self, x, size, skip: F.relu(self.conv(x).reshape(size.shape) + skip))
    given = given[0], torch.zeros(2, 8, 6, 6), given[1]
    exported = convfuse.export(model, given, tmp_path / "net")
    with torch.no_grad():
        close(ran(exported, given[0], given[2]), model(*given))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_parameters_keep_their_type(tmp_path, dtype):
    model = trained(ResNet((1, 1, 1, 1), 8, 10)).to(dtype)
    exported = convfuse.export(model, torch.randn(1, 3, 64, 64, dtype=dtype), tmp_path / "net")
    kinds = {kind for _, kind in stored(exported.parameters).values()}
    assert kinds == {"F16" if dtype is torch.float16 else "BF16"}
    assert exported.error < 1e-3


class Blocks(nn.Module):
    """A part without a layer, deep within a model."""

    def __init__(self, part):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(4, 8, 1), nn.Sequential(nn.ReLU(), part), nn.ReLU())

    def forward(self, x):
        return self.body(x)


class Outer(nn.Module):
    def forward(self, x):
        return x * x.mean((1, 2), keepdim=True)


class Joined(nn.Module):
    def forward(self, x):
        return torch.cat([x, x.tanh()], 0)


class Merged(nn.Module):
    def forward(self, x):
        return x.flatten(0, 1)


class Repeated(nn.Module):
    def forward(self, x):
        return x.repeat(1, 1, 2, 1)


@pytest.mark.parametrize(
    "part, words",
    [
        (nn.AdaptiveAvgPool2d(3), ["body.1.1 (AdaptiveAvgPool2d)", "to [3, 3], which does not divide"]),
        (nn.Softshrink(), ["body.1.1 (Softshrink)"]),
        (nn.AdaptiveMaxPool2d(2), ["body.1.1 (AdaptiveMaxPool2d)", "an adaptive pool of another size than 1"]),
        (Merged(), ["body.1.1 (Merged)", "aten.view.default: a view of", "of the batch, too"]),
        (Outer(), ["body.1.1 (Outer)", "aten.mul.Tensor", "broadcast otherwise"]),
        (Joined(), ["body.1.1 (Joined)", "aten.cat.default", "along the batch"]),
        (Repeated(), ["body.1.1 (Repeated)", "aten.repeat.default", "otherwise than along the channels"]),
    ],
)
def test_what_is_no_layer_is_named_by_module_and_operator(tmp_path, part, words):
    with pytest.raises(convfuse.ExportError) as refused:
        convfuse.export(Blocks(part), torch.randn(2, 4, 8, 8), tmp_path / "net")
    for one in words:
        assert one in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_every_operator_that_is_no_layer_is_listed(tmp_path):
    part = nn.Sequential(nn.AdaptiveAvgPool2d(3), nn.Conv2d(8, 8, 1), Joined())
    with pytest.raises(convfuse.ExportError, match=r"(?s)2 operators are no layers.*AdaptiveAvgPool2d.*Joined"):
        convfuse.export(Blocks(part), torch.randn(2, 4, 8, 8), tmp_path / "net")


def test_other_models_are_refused(tmp_path):
    passed = Lambda(lambda self, x: (self.conv(x), x))
    twice = Lambda(lambda self, x: [self.conv(x)] * 2)
    alone = Lambda(lambda self, x: (self.conv(x), self.conv.weight * 2))
    nothing = Lambda(lambda self, x: x)
    for model, words in [
        (passed, "is no value that a layer gives"),
        (twice, "is an output already"),
        (alone, "does not depend on its input"),
        (nothing, "no layers"),
    ]:
        with pytest.raises(convfuse.ExportError, match=words):
            convfuse.export(model, torch.randn(2, 4, 8, 8), tmp_path / "net")
    # With one sample, a norm over its channels may be one over the batch.
    norm = nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4, track_running_stats=False))
    with pytest.raises(convfuse.ExportError, match="give an example of two samples"):
        convfuse.export(norm, torch.randn(1, 4, 8, 8), tmp_path / "net")
    exported = convfuse.export(norm, torch.randn(2, 4, 8, 8), tmp_path / "net")
    assert operators(exported) == ["conv2d", "batch_norm"]


def test_each_module_stays_in_its_mode(tmp_path):
    for modes in ((True, True, False), (True, False, True), (False, True, False)):
        model = nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4))
        for one, training in zip(model.modules(), modes, strict=True):
            one.training = training
        convfuse.export(model, torch.randn(2, 4, 8, 8), tmp_path / "net")
        assert tuple(one.training for one in model.modules()) == modes


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("got", "want", "is_alike"),
    [
        *((one, one, True) for one in (0.0, 2.0, NAN, INF, -INF)),
        *((one, 2.0, False) for one in (NAN, INF, -INF, 2.1)),
        *((2.0, one, False) for one in (NAN, INF, -INF)),
        *((INF, -INF, False), (NAN, INF, False), (INF, NAN, False), (4.001, 4.0, True)),
    ],
)
def test_the_check_compares_each_value(got, want, is_alike):
    found, wanted = torch.tensor([1.0, got]), torch.tensor([1.0, want])
    if is_alike:
        assert _export._error(found, wanted) < 1e-3
    else:
        with pytest.raises(convfuse.ExportError, match="differs from the model by"):
            _export._error(found, wanted)


def test_the_check_finds_another_result(tmp_path, monkeypatch):
    # A model's time-dependent values are frozen in its graph.
    calls = []
    model = Lambda(lambda self, x: self.conv(x) * (1 + len(calls)))
    whole = model.forward
    monkeypatch.setattr(model, "forward", lambda x: (whole(x), calls.append(0))[0])
    with pytest.raises(convfuse.ExportError, match="differs from the model by"):
        convfuse.export(model, torch.randn(2, 4, 8, 8), tmp_path / "net")
    assert list(tmp_path.iterdir()) == []
    assert convfuse.export(model, torch.randn(2, 4, 8, 8), tmp_path / "net", check=False).error is None
