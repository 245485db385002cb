"""Modules: initialisation, copies, moves, compilation, autocast."""

from __future__ import annotations

import copy
import io
import pickle
import threading

import pytest
import torch
from support import BLOCKS, DEVICES, block, exact, expect_close, problem, redraw

from convfuse import nn as fused_nn


class Reference85(torch.nn.Module):
    """Problem 85 as KernelBench states it."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(8, 64, 3)
        self.group_norm = torch.nn.GroupNorm(16, 64)
        self.scale = torch.nn.Parameter(torch.ones(64, 1, 1))
        self.maxpool = torch.nn.MaxPool2d(kernel_size=4)


class Reference79(torch.nn.Module):
    """Problem 79 as KernelBench states it."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv3d(3, 16, 3)
        self.multiplier = torch.nn.Parameter(torch.randn(16, 1, 1, 1))
        self.instance_norm = torch.nn.InstanceNorm3d(16)


@pytest.mark.parametrize(("number", "reference"), [(85, Reference85), (79, Reference79)])
def test_problems_are_initialised_as_kernelbench_does(number, reference):
    torch.manual_seed(7)
    expected = reference().state_dict()
    actual = problem(number)[0].state_dict()
    assert list(actual) == list(expected)
    assert all(torch.equal(actual[name], expected[name]) for name in expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("number", [85, 79])
def test_copies_compute_the_same(number, device):
    module, x = problem(number)
    module, x = module.to(device), x.to(device)
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    copies = [
        copy.deepcopy(module),
        pickle.loads(pickle.dumps(module)),
        torch.load(buffer, weights_only=False),
    ]
    with torch.no_grad():
        y = module(x)
        for one in copies:
            assert torch.equal(one(x), y)
            assert one._runner.owner != module._runner.owner
            redraw(one)
            assert not torch.equal(one(x), y)
        assert torch.equal(module(x), y)


@pytest.mark.parametrize("device", DEVICES)
def test_state_dicts_are_those_of_plain_layers(device):
    module, (x,) = block("decoder", device)
    plain = torch.nn.ModuleDict(
        {"conv": torch.nn.Conv2d(32, 64, 3, padding=1), "norm": torch.nn.GroupNorm(32, 64)}
    ).to(device)
    module.load_state_dict(plain.state_dict())
    with torch.no_grad():
        expected = torch.nn.functional.silu(plain["norm"](plain["conv"](x)))
        expect_close(module(x), expected.double().cpu(), factor=2)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("grad", [False, True])
def test_whole_graphs_compile(name, grad, device):
    torch._dynamo.reset()
    module, inputs = block(name, device)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    with torch.set_grad_enabled(grad):
        expect_close(compiled(*inputs), exact(module, *inputs))
        redraw(module)
        expect_close(compiled(*inputs), exact(module, *inputs))
        if grad:
            compiled(*inputs).sum().backward()
            assert all(value.grad is not None for value in module.parameters())


@pytest.mark.parametrize("device", DEVICES)
def test_dynamic_shapes_compile_once(device):
    torch._dynamo.reset()
    module, (x,) = block("classifier", device)
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="aot_eager")
    with torch.no_grad(), torch._dynamo.config.patch(error_on_recompile=True):
        for size in (15, 19, 30):
            one = torch.randn(3, 16, size, size + 2, device=device)
            expect_close(compiled(one), exact(module, one))


@pytest.mark.parametrize("device", DEVICES)
def test_modules_are_exported(device):
    module, (x,) = block("decoder", device)
    exported = torch.export.export(module, (x,))
    buffer = io.BytesIO()
    torch.export.save(exported, buffer)
    buffer.seek(0)
    with torch.no_grad():
        expect_close(torch.export.load(buffer).module()(x), exact(module, x))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["decoder", "segmentation", "residual_unit", "classifier"])
def test_autocast_gives_the_types_of_the_layers(name, dtype, device):
    module, (x,) = block(name, device)
    from convfuse._chain import evaluate, parsed

    values = module._runner.parameters()
    for one in (x, x.to(dtype)):
        with torch.no_grad(), torch.autocast(device, dtype):
            y = module(one)
            layers = evaluate(parsed(module.chain), one, values)
        if device == "cuda":
            assert y.dtype == layers.dtype
        expect_close(y, exact(module, x), dtype)


@pytest.mark.parametrize("device", DEVICES)
def test_fast_products_are_chosen_by_the_setting(device):
    module, x = problem(85)
    module, x = module.to(device), x.to(device)
    with torch.no_grad():
        accurate = module(x)
        before = torch.get_float32_matmul_precision()
        try:
            torch.set_float32_matmul_precision("high")
            allowed = module(x)
        finally:
            torch.set_float32_matmul_precision(before)
        module.precision = "fast"
        assert torch.equal(module(x), allowed)
        module.precision = "accurate"
        assert torch.equal(module(x), accurate)
    expect_close(allowed, exact(module, x), factor=200)
    with pytest.raises(ValueError, match="must be one of"):
        module.precision = "high"


@pytest.mark.parametrize("device", DEVICES)
def test_threads_share_a_module(device):
    module, (x,) = block("decoder", device)
    with torch.no_grad():
        expected = [module(torch.full_like(x, value)) for value in range(4)]
    wrong = []

    def work(value):
        with torch.no_grad():
            for _ in range(20):
                if not torch.equal(module(torch.full_like(x, value)), expected[value]):
                    wrong.append(value)

    threads = [threading.Thread(target=work, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_chains_are_read_from_files():
    text = '{"in_channels": 3, "layers": [{"scale": {"name": "a.b"}}, {"relu": {}}]}'
    module = fused_nn.Chain.from_json(text)
    assert list(module.state_dict()) == ["a.b"]
    x = torch.randn(2, 3, 5)
    with torch.no_grad():
        assert torch.equal(module(x), torch.relu(x))


def test_slopes_are_initialised_as_pytorch_does():
    layers = [
        {"conv2d": {"name": "conv", "out_channels": 4, "kernel_size": 3}},
        {"group_norm": {"name": "norm", "num_groups": 2}},
        {"prelu": {"name": "each", "num_parameters": 4, "init": 0.5}},
        {"prelu": {"name": "all"}},
    ]
    module = fused_nn.Chain(3, layers)
    assert torch.equal(module.each.weight, torch.nn.PReLU(4, 0.5).weight)
    assert torch.equal(module.all.weight, torch.nn.PReLU().weight)


@pytest.mark.parametrize(
    ("layers", "widens"),
    [(["group_norm"], True), (["group_norm", "prelu"], False), (["prelu", "group_norm"], True)],
)
@pytest.mark.parametrize("device", DEVICES)
def test_under_autocast_the_last_layer_that_has_a_type_decides(layers, widens, device):
    attributes = {"group_norm": {"name": "norm", "num_groups": 2}, "prelu": {"name": "act"}}
    conv = {"conv2d": {"name": "conv", "out_channels": 4, "kernel_size": 3}}
    module = fused_nn.Chain(3, [conv, *({one: attributes[one]} for one in layers)]).to(device)
    x = torch.randn(2, 3, 7, 8, device=device)
    # Only on a GPU are group norms computed in float32.
    widens = widens and device == "cuda"
    with torch.no_grad(), torch.autocast(device, torch.bfloat16):
        assert module(x).dtype == (torch.float32 if widens else torch.bfloat16)
