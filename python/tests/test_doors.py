"""``torch.compile(model, backend="convfuse")``: dynamic shapes, mutation, derivatives, options; programs that are exported."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from support import BLOCKS, block, exact, exact_of, expect_close, expect_near
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn import functional as F

from convfuse import _backend
from convfuse._table import ROWS
from convfuse.ops import RUN

OPTIONS = {"cpu": True, "precision": "accurate", "choice": "all"}


class Net(nn.Module):
    """Regions, what is none, and norms that inductor is to compile."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8)
        self.up = nn.ConvTranspose2d(8, 8, 2, 2)
        self.last, self.act = nn.BatchNorm2d(8), nn.PReLU()

    def forward(self, x):
        y = F.silu(self.norm(self.conv(x)), inplace=True)
        z = F.interpolate(self.act(self.last(self.up(y))), scale_factor=0.5)
        return y + z, F.layer_norm(y, y.shape[3:]).mean()


def net():
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture
def programs(monkeypatch):
    """The programs that are made of graphs."""
    made, of = [], _backend.Program.of

    def noted(*arguments):
        made.append(of(*arguments))
        return made[-1]

    monkeypatch.setattr(_backend.Program, "of", noted)
    return made


def taken(programs):
    return [[" ".join(one.operators) for one in program.regions] for program in programs]


def test_inductor_compiles_the_rest(programs):
    plain, x = net(), torch.randn(2, 3, 8, 10)
    compiled = torch.compile(plain, backend="convfuse", options=OPTIONS)
    with torch.no_grad():
        for one in (x, x.to(memory_format=torch.channels_last)):
            for y, z in zip(compiled(one), exact_of(plain, one)):
                expect_near(y, z)
        plain.conv.weight.data.mul_(-2)
        expect_near(compiled(x)[0], exact_of(plain, x)[0])
    assert taken(programs)[0] == ["conv2d group_norm silu", "batch_norm prelu"]
    # With gradients the graph is inductor's alone.
    count, found = len(programs), []
    for call in (compiled, plain):
        plain.zero_grad(set_to_none=True)
        call(x)[0].square().mean().backward()
        found.append([one.grad for one in plain.parameters()])
    assert len(programs) == count
    for ours, theirs in zip(*found):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_inductor_is_given_its_own_options(programs, monkeypatch):
    from torch._inductor import compile_fx

    seen = []

    def inner(graph, examples, **named):
        seen.append((torch._inductor.config.max_autotune, named.get("cudagraphs").value))
        return graph.forward

    monkeypatch.setattr(compile_fx, "compile_fx_inner", inner)
    x = torch.randn(1, 3, 8, 8)
    ways = [
        {"options": OPTIONS | {"max_autotune": True}},
        {"options": OPTIONS},
        {"mode": "reduce-overhead"},
    ]
    for way in ways:
        torch._dynamo.reset()
        with torch.no_grad():
            torch.compile(net(), backend="convfuse", **way)(x)
    assert [one[0] for one in seen] == [True, False, False]
    assert [one[1] for one in seen] == [False, False, True]
    with pytest.raises(Exception, match="must be one of"):
        torch.compile(net(), backend="convfuse", options={"precision": "high"})(x.clone())


@pytest.fixture
def kernels(programs, monkeypatch):
    """The backend by name with PyTorch's own kernels in inductor's place, which takes a minute a graph."""
    from torch._inductor import compile_fx
    from torch._functorch.aot_autograd import make_boxed_func

    def inner(graph, examples, **named):
        return make_boxed_func(graph.forward)

    monkeypatch.setattr(compile_fx, "compile_fx_inner", inner)
    return programs


def compiled(model, **named):
    return torch.compile(model, backend="convfuse", options=OPTIONS, **named)


def test_operators_that_were_kept_whole_are_inductors_again(programs, monkeypatch):
    from torch._inductor import compile_fx
    from torch._inductor.decomposition import select_decomp_table

    graphs, table = [], select_decomp_table()

    def inner(graph, examples, **named):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(compile_fx, "compile_fx_inner", inner)
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        torch.compile(net(), backend="convfuse")(x)
    (graph,) = graphs
    targets = [one.target for one in graph.graph.nodes if one.op == "call_function"]
    # Which is decomposed for complex numbers alone.
    whole = set(targets) & set(table) & set(ROWS) - {torch.ops.aten.add.Tensor}
    assert RUN not in targets and not whole
    assert not any("group_norm" in str(one) or "silu" in str(one) for one in targets)


def test_shapes_that_are_marked_are_compiled_once(kernels):
    plain = net()
    ours = compiled(plain)
    x = torch.randn(2, 3, 8, 10)
    for axis in (0, 2, 3):
        torch._dynamo.mark_dynamic(x, axis)
    with torch.no_grad(), torch._dynamo.config.patch(error_on_recompile=True):
        for shape in (x.shape, (3, 3, 12, 8), (5, 3, 6, 14)):
            one = x if shape == x.shape else torch.randn(shape)
            expect_near(ours(one)[0], exact_of(plain, one)[0])
    assert taken(kernels) == [["conv2d group_norm silu", "batch_norm prelu"]]


LAYERS = {
    "pools": [nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2)],
    "instance norm": [nn.InstanceNorm2d(8, affine=True), nn.ReLU(inplace=True)],
    "padding": [nn.Conv2d(8, 4, 3, padding=1, padding_mode="reflect"), nn.GroupNorm(2, 4)],
}


@pytest.mark.parametrize("name", LAYERS)
def test_regions_do_not_depend_on_the_shape(kernels, name):
    plain = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), *LAYERS[name]).eval()
    ours = compiled(plain, dynamic=True)
    with torch.no_grad(), torch._dynamo.config.patch(error_on_recompile=True):
        for shape in ((2, 3, 15, 17), (3, 3, 23, 25)):
            x = torch.randn(shape)
            expect_near(ours(x), exact_of(plain, x))
    (regions,) = taken(kernels)
    assert sum(len(one.split()) for one in regions) == 2 + len(LAYERS[name])


def test_extents_within_a_region_may_be_read(kernels):
    """Of a value that does not stay; they are those of the output, too."""

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 8, 3, 2), nn.GroupNorm(2, 8)

        def forward(self, x):
            y = self.conv(x)
            height, width = y.shape[2:]
            y = F.relu(self.norm(y))
            return F.interpolate(x, (height, width)).mean() + y.reshape(-1, 8, height * width)

    plain = Twice().eval()
    ours = compiled(plain, dynamic=True)
    with torch.no_grad(), torch._dynamo.config.patch(error_on_recompile=True):
        for shape in ((2, 3, 15, 17), (3, 3, 23, 25)):
            x = torch.randn(shape)
            expect_near(ours(x), exact_of(plain, x))
    assert taken(kernels)[0] in ([], ["conv2d group_norm relu"])


def test_what_is_written_to_is_written_to(kernels):
    def function(model, x, total):
        y = model[:3](x)
        total.add_(y.mean())
        x.mul_(2)
        return y.add_(1), model(x)

    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.MaxPool2d(2)).eval()
    ours, results = compiled(function), []
    x = torch.randn(2, 3, 8, 8)
    for call in (function, ours):
        mine, total = x.clone(), torch.zeros(())
        with torch.no_grad():
            results.append([*call(model, mine, total), mine, total])
    for one, other in zip(*results):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_autocast_and_inference_mode_are_seen(kernels):
    plain, x = net(), torch.randn(2, 3, 8, 8)
    ours = compiled(plain)
    with torch.inference_mode():
        expect_near(ours(x)[0], exact_of(plain, x)[0])
    for dtype in (torch.bfloat16, torch.float16):
        with torch.no_grad(), torch.autocast("cpu", dtype):
            y, z = ours(x)[0], plain(x)[0]
        assert y.dtype is z.dtype
        expect_close(y, exact_of(plain, x)[0], dtype)
    with torch.no_grad():
        expect_near(ours(x)[0], exact_of(plain, x)[0])


def test_transforms_are_left_to_pytorch(kernels):
    plain = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU()).eval()
    plain.requires_grad_(False)
    x = torch.randn(2, 3, 8, 8)

    def each(x):
        return torch.func.vmap(lambda one: plain(one[None]))(x)

    with torch.no_grad():
        torch.testing.assert_close(compiled(each)(x), each(x), rtol=1e-4, atol=1e-4)


def test_chains_are_calls_in_compiled_code(kernels):
    module, inputs = block("residual", "cpu")
    counter = CompileCounterWithBackend("aot_eager")
    with torch.no_grad():
        for backend in ("convfuse", counter):
            y = torch.compile(module, backend=backend, fullgraph=True)(*inputs)
            expect_close(y, exact(module, *inputs))
    assert counter.frame_count == 1


@pytest.mark.parametrize("name", BLOCKS)
def test_exported_programs_have_the_operator(name):
    module, inputs = block(name, "cpu")
    with torch.no_grad():
        program = torch.export.export(module, tuple(inputs))
        assert [one.target for one in program.graph.nodes].count(RUN) == 1
        buffer = io.BytesIO()
        torch.export.save(program, buffer)
        buffer.seek(0)
        expect_close(torch.export.load(buffer).module()(*inputs), exact(module, *inputs))


def test_exported_shapes_may_be_dynamic():
    module, (x,) = block("classifier", "cpu")
    size = torch.export.Dim("size", min=9, max=64)
    with torch.no_grad():
        program = torch.export.export(module, (x,), dynamic_shapes=({2: size},)).module()
        for height in (11, 15, 20):
            one = torch.randn(2, 16, height, 17)
            expect_close(program(one), exact(module, one))


def test_models_of_torch_compile_can_be_copied(kernels):
    plain, x = net(), torch.randn(2, 3, 8, 8)
    ours = compiled(plain)
    with torch.no_grad():
        ours(x)
        copied = copy.deepcopy(ours)
        copied.conv.weight.mul_(3)
        expect_near(copied(x)[0], exact_of(copied._orig_mod, x)[0])
        expect_near(ours(x)[0], exact_of(plain, x)[0])
