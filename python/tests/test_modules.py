"""Modules: initialisation, copies, moves, compilation, autocast."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from support import (
    BLOCKS,
    DEVICES,
    at_once,
    block,
    exact,
    expect_close,
    problem,
    products_in_full,
    redraw,
)
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn.modules import module as _module

from convfuse import nn as fused_nn
from convfuse._chain import evaluate, parsed

assert products_in_full


class Reference85(torch.nn.Module):
    """Problem 85 as defined by KernelBench."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(8, 64, 3)
        self.group_norm = torch.nn.GroupNorm(16, 64)
        self.scale = torch.nn.Parameter(torch.ones(64, 1, 1))
        self.maxpool = torch.nn.MaxPool2d(kernel_size=4)


class Reference79(torch.nn.Module):
    """Problem 79 as defined by KernelBench."""

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
def test_whole_graphs_compile(name, grad, device, products_in_full):
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
def test_under_autocast_a_module_gives_what_the_layers_give(name, dtype, device):
    module, (x,) = block(name, device)
    for one in (x, x.to(dtype)):
        with torch.no_grad(), torch.autocast(device, dtype):
            y = module(one)
            layers = evaluate(parsed(module.chain), one, module.chain_parameters())
        assert y.dtype == layers.dtype and torch.equal(y, layers)


@pytest.mark.parametrize("variance", [4e4, 1e6])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_statistics_beyond_16_bits_stay_under_autocast(dtype, variance):
    chain = fused_nn.Chain(3, [conv(), {"batch_norm": {"name": "norm"}}])
    chain.norm.running_var.fill_(variance)
    x = 400 * torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        exact = chain(x)
        with torch.autocast("cpu", dtype):
            y = chain(x).float()
    assert exact.abs().max() > 1e-2
    torch.testing.assert_close(y, exact, rtol=5e-2, atol=2e-2 * exact.abs().max().item())


def test_checkpoints_of_batch_norms_load():
    plain = torch.nn.Sequential(torch.nn.Conv2d(6, 8, 3), torch.nn.BatchNorm2d(8))
    layers = [conv(name="0"), {"batch_norm": {"name": "1"}}]
    chain = fused_nn.Chain(6, layers)
    assert list(chain.state_dict()) == list(plain.state_dict())
    chain.load_state_dict(plain.state_dict())
    # The library's files do not contain the number of batches.
    counted = {name: one for name, one in plain.state_dict().items() if "num_batches" not in name}
    chain.load_state_dict(counted)


@pytest.mark.parametrize("name", BLOCKS)
def test_derivatives_are_those_of_the_layers(name):
    module, inputs = block(name, "cpu")

    def layers(*inputs):
        return evaluate(parsed(module.chain), inputs[0], module.chain_parameters(), inputs[1:])

    found = []
    for call in (module, layers):
        leaves = [one.clone().requires_grad_() for one in inputs]
        (slope,) = torch.autograd.grad(call(*leaves).square().mean(), leaves[0], create_graph=True)
        slope.square().sum().backward()
        found.append([one.grad for one in (*leaves, *module.parameters())])
        module.zero_grad(set_to_none=True)
    for ours, theirs in zip(*found):
        assert (ours is None) == (theirs is None)
        assert ours is None or torch.equal(ours, theirs)


def test_transforms_and_tangents_see_the_layers():
    module, (x,) = block("decoder", "cpu")
    module.requires_grad_(False)

    def layers(x):
        return evaluate(parsed(module.chain), x, module.chain_parameters())

    direction = torch.randn_like(x)
    for ask in (
        lambda f: torch.func.jvp(f, (x,), (direction,))[1],
        lambda f: torch.func.vmap(f)(x[None]),
        lambda f: torch.func.grad(lambda x: f(x).square().sum())(x),
    ):
        assert torch.equal(ask(module), ask(layers))
    with torch.autograd.forward_ad.dual_level():
        make, take = torch.autograd.forward_ad.make_dual, torch.autograd.forward_ad.unpack_dual
        tangents = [take(call(make(x, direction))).tangent for call in (module, layers)]
    assert torch.equal(*tangents)


@pytest.mark.parametrize("device", DEVICES)
def test_replicas_compute_with_their_own_parameters(device):
    module, (x,) = block("decoder", device)
    replica = module._replicate_for_data_parallel()
    for name, child in module._modules.items():
        other = child._replicate_for_data_parallel()
        for key, value in child._parameters.items():
            setattr(other, key, 3 * value.detach())
        replica._modules[name] = other
    with torch.no_grad():
        values = [3 * one for one in module.chain_parameters()]
        expected = evaluate(parsed(module.chain), x, values)
        assert not torch.equal(module(x), replica(x))
        torch.testing.assert_close(replica(x), expected, rtol=1e-3, atol=1e-4)


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


def test_modules_that_are_compiled_in_place_run_compiled():
    module, (x,) = block("decoder", "cpu")
    counter = CompileCounterWithBackend("aot_eager")
    module.compile(backend=counter)
    with torch.no_grad():
        expect_close(module(x), exact(module, x))
    assert counter.frame_count == 1


HOOKS = ["forward_pre_hook", "forward_hook", "full_backward_pre_hook", "full_backward_hook"]


@pytest.mark.parametrize("of_all", [False, True])
@pytest.mark.parametrize("hook", HOOKS)
def test_hooks_are_called(hook, of_all):
    module, (x,) = block("decoder", "cpu")
    called = []
    register = getattr(_module if of_all else module, f"register_{'module_' * of_all}{hook}")
    handle = register(lambda one, *_: called.append(one))
    try:
        module(x.requires_grad_()).sum().backward()
        assert module in called
    finally:
        handle.remove()
    called.clear()
    module(x).sum().backward()
    assert not called


@pytest.mark.parametrize("device", DEVICES)
def test_threads_share_a_module(device):
    module, (x,) = block("decoder", device)
    with torch.no_grad():
        expected = [module(torch.full_like(x, value)) for value in range(4)]

    def work(value):
        with torch.no_grad():
            for _ in range(20):
                assert torch.equal(module(torch.full_like(x, value)), expected[value])

    at_once(work)


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


CONV = {"name": "conv", "out_channels": 8, "kernel_size": 3}


def conv(**attributes):
    return {"conv2d": CONV | attributes}


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (
            [conv(groups=3)],
            "in_channels is 6, which is not a multiple|out_channels is 8, which is not",
        ),
        ([conv(stride=0)], r"stride\[0\] is 0, minimum 1"),
        ([conv(kernel_size=[3, 0])], r"kernel_size\[1\] is 0, minimum 1"),
        ([conv(padding="same", stride=2)], "expected 1 with padding same"),
        ([conv(padding_mode="mirror")], "unknown variant `mirror`"),
        ([conv(strides=2)], "unknown field `strides`"),
        (
            [conv(), {"group_norm": {"name": "norm", "num_groups": 3}}],
            "not a multiple of num_groups 3",
        ),
        (
            [conv(), {"group_norm": {"name": "norm", "num_groups": 2, "eps": float("nan")}}],
            "not finite",
        ),
        (
            [conv(), {"layer_norm": {"name": "norm", "normalized_shape": [4, 7, 7]}}],
            "is 4, expected 8",
        ),
        (
            [conv(), {"prelu": {"name": "act", "num_parameters": 3}}],
            "expected 1 or 8, the number of channels",
        ),
        ([conv(), {"max_pool3d": {"kernel_size": 2}}], "spatial dimensions are 2, expected 3"),
        ([{"max_pool2d": {"kernel_size": 2, "padding": 2}}], r"padding\[0\] is 2, limit"),
        ([{"avg_pool2d": {"kernel_size": 2, "divisor_override": 0}}], "divisor_override is 0"),
        ([{"max": {"dim": 1}}, conv()], "the input has no channels"),
        (
            [conv(), {"scale": {"name": "conv"}}],
            "no parameter can be called conv: 'conv' is empty or taken",
        ),
        ([{"scale": {"name": "chain"}}], "no parameter can be called chain"),
        ([{"scale": {"name": "a..b"}}], "no parameter can be called a..b"),
        ([], "layers are none"),
    ],
)
def test_constructors_refuse_what_no_input_could_be_right_for(layers, words):
    with pytest.raises(ValueError, match=words):
        fused_nn.Chain(6, layers)


def test_constructors_refuse_types_and_shapes_without_kernels():
    with pytest.raises(ValueError, match="parameters are of torch.float64, must be of one of"):
        fused_nn.Chain(6, [conv()], dtype=torch.float64)
    with pytest.raises(TypeError, match="layers are a list of dictionaries"):
        fused_nn.Chain(6, conv())
    with pytest.raises(TypeError, match="layers are a list of dictionaries"):
        fused_nn.Chain(6, ["relu"])
    for text in (
        "{",
        "[]",
        '{"layers": []}',
        '{"in_channels": 3, "layers": [{"relu": {}}], "more": 1}',
    ):
        with pytest.raises(ValueError, match="convfuse: chain: "):
            fused_nn.Chain.from_json(text)
    with pytest.raises(ValueError, match=r"scale has shape \(1,\), must be \(64, 1, 1\)"):
        fused_nn.Conv2dGroupNormScaleMaxPoolClamp(8, 64, 3, 16, (1,), 4, 0.0, 1.0)
    with pytest.raises(ValueError, match=r"multiplier has shape \(8, 1, 1, 1\), must be"):
        fused_nn.Conv3dMultiplyInstanceNormClampMultiplyMax(3, 16, 3, (8, 1, 1, 1), -1.0, 1.0)


@pytest.mark.parametrize("device", DEVICES)
def test_calls_refuse_what_is_no_tensor_of_theirs(device):
    module, (x,) = block("residual_unit", device)
    with torch.no_grad():
        for one in ([1.0], None, x.cpu().numpy()):
            with pytest.raises(TypeError, match="must be a torch.Tensor"):
                module(one)
        # The same errors as PyTorch's convolutions.
        for one in (x.double(), x.int(), x.bool(), x.to(torch.complex64), x.half()):
            with pytest.raises(RuntimeError, match="should be the same|must be|expected"):
                module(one)
        with pytest.raises(RuntimeError):
            module(x.to("meta"))
        with pytest.raises(RuntimeError, match="rank 0"):
            module(x.sum())
        assert module.to("meta")(x.to("meta")).shape == (2, 16, *x.shape[2:])


@pytest.mark.parametrize("device", DEVICES)
def test_views_are_read_as_they_are_meant(device):
    module, (x,) = block("decoder", device)
    with torch.no_grad():
        imaginary = torch.complex(torch.zeros_like(x), x).conj().imag
        assert imaginary.is_neg() and torch.equal(module(imaginary), module(-x))
        assert torch.equal(module(x.flip(3)), module(x.flip(3).contiguous()))
        assert torch.equal(module.train()(x), module.eval()(x))
