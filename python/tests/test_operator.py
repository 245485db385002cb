"""`torch.ops.convfuse.run`: results, layouts, types, refusals, and caches."""

from __future__ import annotations

import json

import pytest
import torch
from support import (
    BLOCKS,
    DEVICES,
    block,
    calls,
    chain_text,
    exact,
    exact_of,
    expect_close,
    fused,
    problem,
    redraw,
)
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from convfuse import _native, ops
from convfuse import nn as fused_nn
from convfuse._chain import evaluate, output_shape, parsed

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_match_float64(name, dtype, device):
    module, inputs = block(name, device, dtype)
    with torch.no_grad():
        y = module(*inputs)
    assert y.dtype == dtype and y.device == inputs[0].device and y.is_contiguous()
    expect_close(y, exact(module, *inputs))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("number", [85, 79])
@pytest.mark.parametrize("scale", [1.0, 3.0, 0.01, -1.0])
def test_problems_match_float64_for_scaled_inputs(number, scale, device):
    module, x = problem(number)
    redraw(module)
    module, x = module.to(device), (scale * x).to(device)
    with torch.no_grad():
        expect_close(module(x), exact(module, x))


CONV = {"conv2d": {"name": "conv", "out_channels": 12, "kernel_size": 3, "padding": 1}}

SHAPED = {
    "padded": [{"pad": {"padding": [1, 2, 0, 1]}}, CONV],
    "mirrored": [CONV, {"pad": {"padding": [2, 0, 3, 1], "padding_mode": "reflect"}}, {"relu": {}}],
    "reshaped": [CONV, {"reshape": {"shape": [4, -1, 7]}}],
    "channels": [
        {"layer_norm": {"name": "norm", "normalized_shape": [8], "dim": 1}},
        {"linear": {"name": "map", "in_features": 8, "out_features": 6, "dim": 1}},
        {"gelu": {}},
    ],
    "bins": [CONV, {"adaptive_avg_pool2d": {"output_size": [3, 7]}}],
    "places": [CONV, {"gate": {"input": "places", "dim": 1}}],
    "corners": [CONV, {"upsample": {"mode": "bilinear", "size": [9, 12], "align_corners": True}}],
    "centres": [CONV, {"upsample": {"mode": "bilinear", "scale_factor": [2.0, 1.5]}}],
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", SHAPED)
def test_shapes_of_values_are_those_of_the_layers(name, device):
    torch.manual_seed(5)
    module = fused_nn.Chain(8, SHAPED[name]).eval().to(device)
    inputs = [torch.randn(2, 8, 6, 7, device=device)]
    if name == "places":
        inputs.append(torch.rand(2, 1, 6, 7, device=device))
    with torch.no_grad():
        y = module(*inputs)
        expect_close(y, exact(module, *inputs))
    assert list(y.shape) == output_shape(parsed(module.chain), inputs[0].shape)
    x = inputs[0].requires_grad_()
    assert torch.autograd.grad(module(x, *inputs[1:]).sum(), x)[0].shape == x.shape


@pytest.mark.parametrize("device", DEVICES)
def test_inputs_may_lie_in_any_way(device):
    module, (x,) = block("decoder", device)
    wide = torch.randn(2, 32, 20, 48, device=device)
    lying = {
        "channels-last": x.to(memory_format=torch.channels_last),
        "strided": wide[..., ::2],
        "sliced": torch.randn(3, 32, 20, 24, device=device)[1:],
        "misaligned": torch.randn(1 + x.numel(), device=device)[1:].view(x.shape),
        "transposed": torch.randn(2, 32, 24, 20, device=device).mT,
        "expanded": torch.randn(1, 32, 20, 24, device=device).expand(2, -1, -1, -1),
    }
    with torch.no_grad():
        for how, one in lying.items():
            same = module(one.clone(memory_format=torch.contiguous_format))
            assert torch.equal(module(one), same), how


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_channels_last_inputs_give_the_bits_of_contiguous_ones_in_16_bits(device, dtype):
    torch.manual_seed(1)
    layers = [
        {"conv2d": {"name": "conv", "out_channels": 128, "kernel_size": 3, "padding": 1}},
        {"group_norm": {"name": "norm", "num_groups": 8}},
        {"relu": {}},
    ]
    module = fused_nn.Chain(128, layers).eval().to(device, dtype)
    x = torch.randn(2, 128, 13, 19, device=device, dtype=dtype)
    with torch.no_grad():
        assert torch.equal(module(x.to(memory_format=torch.channels_last)), module(x))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_filters_may_be_stored_wider_than_the_input(dtype, device):
    module, (x,) = block("decoder", device)
    x, values = x.to(dtype), module.chain_parameters()
    rounded = [value.to(dtype) for value in values[:2]]
    with torch.no_grad():
        y = ops.run([x], values, module.chain)
        assert torch.equal(y, ops.run([x], [*rounded, *values[2:]], module.chain))
    assert y.dtype == dtype


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["decoder", "segmentation", "classifier"])
def test_parameters_of_norms_stay_float32(name, device):
    """With values beyond 65504, which overflow in f16. They cancel."""
    module, (x,) = block(name, device)
    with torch.no_grad():
        for one, value in zip(parsed(module.chain).names, module.chain_parameters()):
            if one == "norm.running_var":
                value.fill_(1e6)
            elif one == "norm.weight" and name == "classifier":
                value.fill_(1e5)
        y = ops.run([x.half()], module.chain_parameters(), module.chain)
    expect_close(y, exact(module, x), torch.float16)


@pytest.mark.parametrize("device", DEVICES)
def test_changed_parameters_are_noticed(device):
    module, (x,) = block("decoder", device)
    with torch.no_grad():
        module(x)
        module.conv.weight.mul_(-0.5)
        expect_close(module(x), exact(module, x))
        module.load_state_dict({k: v + 0.25 for k, v in module.state_dict().items()})
        expect_close(module(x), exact(module, x))
        module.norm.bias.data = module.norm.bias.data + 1.0
        expect_close(module(x), exact(module, x))
        module.conv.weight = torch.nn.Parameter(2 * module.conv.weight)
        expect_close(module(x), exact(module, x))
        # Writes that PyTorch's version counter does not see.
        module.conv.weight.data.mul_(-0.5)
        expect_close(module(x), exact(module, x))
        torch._foreach_mul_([one.data for one in module.parameters()], 0.5)
        expect_close(module(x), exact(module, x))
        other = torch.nn.Parameter(module.conv.weight.detach().flip(0))
        torch.utils.swap_tensors(module.conv.weight, other)
        expect_close(module(x), exact(module, x))
        # Filters with another memory order.
        module.to(memory_format=torch.channels_last)
        expect_close(module(x), exact(module, x))


@pytest.mark.parametrize("device", DEVICES)
def test_plans_are_bounded(device):
    module, _ = block("decoder", device)
    _native.clear()
    assert _native.kept_plans() == 0
    with torch.no_grad():
        for height in range(8, 300):
            module(torch.randn(1, 32, height, 1, device=device))
    assert _native.kept_plans() == 256


@pytest.mark.parametrize("device", DEVICES)
def test_refusals_say_what_is_wrong(device):
    module, (x,) = block("decoder", device)
    values, chain = module.chain_parameters(), module.chain
    with torch.no_grad():
        with pytest.raises(RuntimeError, match=r"conv2d: input\[1\] is 31, expected 32"):
            module(x[:, :31])
        with pytest.raises(RuntimeError, match="another element type .* convert it"):
            ops.run([x.double()], values, chain)
        with pytest.raises(RuntimeError, match="there are 1 parameters, the model has 4"):
            ops.run([x], values[:1], chain)
        with pytest.raises(RuntimeError, match=r"norm.bias: shape is \[63\], expected \[64\]"):
            ops.run([x], [*values[:3], values[3][:63]], chain)
        with pytest.raises(RuntimeError, match="further inputs"):
            ops.run([x, x], values, chain)
        residual, (y, shortcut) = block("residual", device)
        for ours, theirs in ((y.half(), shortcut), (y, shortcut.bfloat16())):
            with pytest.raises(RuntimeError, match="another element type than the first"):
                ops.run([ours, theirs], residual.chain_parameters(), residual.chain)
        with pytest.raises(RuntimeError, match="convfuse: chain: "):
            ops.run([x], values, "{}")
        with pytest.raises(ValueError, match="unknown field"):
            _native.parameters(chain_text(3, {"relu": {"slope": 1}}))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_parameters_on_another_device_are_refused():
    module, (x,) = block("decoder", "cpu")
    with torch.no_grad(), pytest.raises(RuntimeError, match="move the module there"):
        ops.run([x.cuda()], module.chain_parameters(), module.chain)


@pytest.mark.parametrize("device", DEVICES)
def test_empty_batches_and_single_images(device):
    module, (x,) = block("classifier", device)
    with torch.no_grad():
        assert module(x[:0]).shape == (0, *module(x).shape[1:])


@pytest.mark.parametrize("device", DEVICES)
def test_nan_stays_where_it_is(device):
    module, (x,) = block("classifier", device)
    x[0, 3, 5, 5] = float("nan")
    with torch.no_grad():
        y = module(x).double().cpu()
    expected = exact(module, x)
    assert torch.equal(y.isnan(), expected.isnan())


NORMS = {
    "instance_norm": {},
    "group_norm": {"num_groups": 4, "affine": False},
    "batch_norm": {"track_running_stats": False, "affine": False},
    "layer_norm": {"normalized_shape": [9, 8], "elementwise_affine": False},
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("norm", NORMS)
def test_what_overflows_in_front_of_a_norm_is_nan_as_in_pytorch(norm, device):
    torch.manual_seed(0)
    convolution = {"name": "conv", "out_channels": 16, "kernel_size": 3, "padding": 1, "bias": False}
    layers = [{"conv2d": convolution}, {norm: {"name": "norm"} | NORMS[norm]}, {"relu": {}}]
    chain = json.dumps({"in_channels": 16, "layers": layers})
    weight, x = torch.rand(16, 16, 3, 3) / 8, torch.rand(2, 16, 9, 8)
    weight[5, 5, 1, 1] = 2.0
    for value in (32_000.0, 33_008.0):
        x[1, 5, 4, 3] = value
        half = [one.half().to(device) for one in (x, weight)]
        y = ops.run([half[0]], [half[1]], chain)
        plain = evaluate(parsed(chain), half[0], half[1:])
        assert torch.equal(y.isnan(), plain.isnan())
        assert y.isnan().any() == (value > 32_752.0)
        # Nothing overflows in other types.
        assert not ops.run([half[0].bfloat16()], [half[1].bfloat16()], chain).isnan().any()


@pytest.mark.parametrize("device", DEVICES)
def test_opcheck_is_content(device):
    module, (x,) = block("residual", device)[0], block("residual", device)[1][:1]
    values = module.chain_parameters()
    arguments = ([x, torch.randn_like(x)], values, module.chain, False)
    outcome = torch.library.opcheck(torch.ops.convfuse.run.default, arguments)
    assert set(outcome.values()) == {"SUCCESS"}


def lying(x):
    """An input's values in several layouts."""
    axes = [0, *range(2, x.dim()), 1]
    last = x.permute(axes).contiguous().permute([0, x.dim() - 1, *range(1, x.dim() - 1)])
    wide = x.repeat_interleave(2, -1)[..., ::2]
    return {"dense": x, "channels last": last, "strided": wide, "transposed": x.mT.contiguous().mT}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", BLOCKS)
def test_what_is_known_beforehand_comes(name, dtype, device):
    """Compiled code relies on the fake implementations' output properties, including strides."""
    module, inputs = block(name, device, dtype)
    values = module.chain_parameters()

    def facts(inputs, values):
        y = torch.ops.convfuse.run(inputs, values, module.chain, False)
        return y.shape, y.stride(), y.dtype, y.device

    for how in lying(inputs[0]):
        given = [lying(one)[how] for one in inputs]
        real = facts(given, values)
        with FakeTensorMode() as mode:
            fake = [[*map(mode.from_tensor, some)] for some in (given, values)]
            assert facts(*fake) == real, how


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_of_wider_parameters_have_their_type(dtype):
    module, (x,) = block("decoder", "cpu")
    values = [one.detach().requires_grad_() for one in module.chain_parameters()]
    y = ops.run([x.to(dtype)], values, module.chain)
    assert y.dtype is dtype
    expect_close(y, exact(module, x), dtype)
    for one, gradient in zip(values, torch.autograd.grad(y.float().square().sum(), values)):
        assert gradient.dtype is one.dtype is torch.float32


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", BLOCKS)
def test_gradients_are_those_of_the_layers(name, device):
    module, inputs = block(name, device)
    inputs = [x.requires_grad_() for x in inputs]
    wanted = [*inputs, *module.parameters()]
    y = module(*inputs)
    gradients = torch.autograd.grad(y.square().sum(), wanted)
    chain = parsed(module.chain)
    differentiable = [not name.endswith(("running_mean", "running_var")) for name in chain.names]
    values = [
        value.detach().double().cpu().requires_grad_(may)
        for value, may in zip(module.chain_parameters(), differentiable)
    ]
    doubles = [x.detach().double().cpu().requires_grad_() for x in inputs]
    named = dict(zip(chain.names, values))
    wanted = [*doubles, *(named[name] for name, _ in module.named_parameters())]
    y = evaluate(chain, doubles[0], values, doubles[1:])
    expected = torch.autograd.grad(y.square().sum(), wanted)
    largest = max(one.abs().max() for one in expected)
    for ours, one in zip(gradients, expected, strict=True):
        assert (ours.double().cpu() - one).abs().max() <= 1e-4 * largest


@pytest.mark.parametrize("name", BLOCKS)
def test_floating_point_operations_are_counted(name):
    module, inputs = block(name, "cpu")
    arguments = (inputs, module.chain_parameters(), module.chain, False)
    with torch.no_grad(), FlopCounterMode(display=False) as ours:
        torch.ops.convfuse.run(*arguments)
    with torch.no_grad(), FlopCounterMode(display=False) as theirs:
        evaluate(parsed(module.chain), inputs[0], module.chain_parameters(), inputs[1:])
    assert ours.get_total_flops() == theirs.get_total_flops() > 0


@pytest.mark.parametrize(
    "layer", [{"hardsigmoid": {}}, {"hardtanh": {}}, {"sub": {"name": "b"}}, {"instance_norm": {"name": "n"}}]
)
@pytest.mark.parametrize("shape", [(2, 3, 9), (3, 9), (2, 3, 9, 7), (3, 9, 7)])
def test_functions_with_defaults_match_float64(layer, shape):
    axes = len(shape) - (1 if shape[0] == 3 else 2)
    chain = chain_text(
        3, {f"conv{axes}d": {"name": "a", "out_channels": 4, "kernel_size": 1}}, layer
    )
    torch.manual_seed(5)
    x, values = torch.randn(shape), [torch.rand(one) for _, one, _ in parsed(chain).parameters]
    exact = evaluate(parsed(chain), x.double(), [one.double() for one in values])
    expect_close(torch.ops.convfuse.run([x], values, chain, False), exact)


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("size", [7, 8, 13])
def test_shapes_are_known_beforehand(name, size):
    shape, channels, layers = BLOCKS[name]
    pools = [
        {"max_pool2d": {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}},
        {"avg_pool2d": {"kernel_size": [2, 3], "ceil_mode": True}},
    ]
    for more in ([], pools if len(shape) == 4 and name != "reductions" else []):
        text = chain_text(channels, *layers, *more)
        for given in ([*shape[:2], *[size] * (len(shape) - 2)], shape):
            assert output_shape(parsed(text), given) == _native.output_shape(text, list(given))


def test_the_cpu_is_refused_after_a_fork_of_what_used_it_alone(child):
    code = """
import os, sys, torch
from convfuse import nn
torch.set_num_threads(1)
module, x = nn.Chain(3, [{"scale": {"name": "a"}}, {"relu": {}}]), torch.ones(2, 3, 8)

def is_refused():
    child = os.fork()
    if child == 0:
        words = ""
        try:
            module(x)
        except RuntimeError as error:
            words = str(error)
        os._exit(1 if "is a fork" in words else 2 if words else 0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

with torch.no_grad():
    before = is_refused()
    module(x)
    print(before, is_refused())
"""
    done = child(code)
    assert done.returncode == 0 and done.stdout.split() == ["0", "1"], done.stderr


def test_profiles_have_names_of_regions():
    module, (x,) = block("decoder", "cpu")
    with torch.no_grad(), torch.profiler.profile() as profile:
        module(x)
    names = [one.key for one in profile.key_averages()]
    assert {"convfuse::run", "convfuse: conv2d group_norm silu"} <= set(names)


@pytest.mark.parametrize("is_invariant", [False, True])
def test_batch_invariance_is_handed_on(is_invariant, monkeypatch):
    seen, model = [], torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.GroupNorm(2, 8)).eval()
    x = torch.randn(2, 3, 8, 8)
    ours = fused(model, batch_invariant=is_invariant)
    with torch.no_grad():
        expect_close(ours(x), exact_of(model, x))
    assert [one.args[4] for graph in calls(ours) for one in graph] == [is_invariant]
    module, (x,) = block("decoder", "cpu")
    module.batch_invariant = is_invariant
    real = fused_nn.RUN
    monkeypatch.setattr(fused_nn, "RUN", lambda *given: seen.append(given[4]) or real(*given))
    with torch.no_grad():
        expect_close(module(x), exact(module, x))
    assert seen == [is_invariant]


def test_outputs_are_channels_last_where_that_is_asked_for():
    chain = chain_text(3, CONV)
    x, weight, bias = torch.randn(2, 3, 6, 7), torch.randn(12, 3, 3, 3), torch.randn(12)
    arguments = [x], [weight, bias], chain, False
    dense = ops.RUN(*arguments)
    last = ops.RUN(*arguments, channels_last=True)
    assert dense.is_contiguous() and last.stride() == (504, 1, 84, 12)
    assert torch.equal(dense, last)
    with FakeTensorMode() as mode:
        fake = [mode.from_tensor(x)], [mode.from_tensor(one) for one in (weight, bias)], chain, False
        assert ops.RUN(*fake, channels_last=True).stride() == last.stride()
