"""Two GPUs: models on one while the other is current, replicas, processes with a GPU each. All results are
compared with PyTorch."""

from __future__ import annotations

import copy
import threading
import time

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from support import (
    ResidualBlock,
    at_once,
    block,
    chains,
    exact,
    expect_close,
    products_in_full,
    redraw,
)
from torch import nn

import convfuse
from convfuse import _choice

pytestmark = [
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are fewer than two GPUs"),
    pytest.mark.usefixtures("products_in_full"),
]
assert products_in_full

DEVICES = ("cuda:0", "cuda:1")

# The time limit for two processes, in seconds.
_LIMIT = 80

TAKEN = [
    "conv2d",
    "group_norm silu conv2d group_norm silu",
    "conv2d add group_norm silu",
    "conv_transpose2d",
]


def network(seed=0):
    torch.manual_seed(seed)
    layers = [nn.Conv2d(3, 8, 3, padding=1), ResidualBlock(), nn.GroupNorm(2, 8), nn.SiLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(8, 4, 2, 2)).eval()


def images(device, batch=2, size=32, seed=1):
    torch.manual_seed(seed)
    return torch.randn(batch, 3, size, size).to(device)


def fused(model):
    return convfuse.fuse(copy.deepcopy(model), choice="all")


def compiled(model):
    return torch.compile(copy.deepcopy(model), backend="convfuse", options={"choice": "all"})


def expect_as_plain(y, expected):
    """Expects PyTorch's result on the same device, up to the order of sums."""
    assert y.device == expected.device
    bound = {torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 1e-1}[expected.dtype]
    torch.testing.assert_close(y, expected, rtol=bound, atol=bound)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_fused_model_runs_on_the_device_that_is_not_current(dtype):
    plain, x = network().to("cuda:1", dtype), images("cuda:1").to(dtype)
    ours = fused(plain)
    with torch.no_grad():
        for current in (0, 1, 0):
            with torch.cuda.device(current):
                expect_as_plain(ours(x), plain(x))
                assert torch.cuda.current_device() == current
    assert chains(ours) == TAKEN


def test_a_compiled_model_runs_on_the_device_that_is_not_current():
    plain, x = network().to("cuda:1"), images("cuda:1")
    ours = compiled(plain)
    with torch.no_grad():
        for seed in range(3):
            redraw(plain)
            ours._orig_mod.load_state_dict(plain.state_dict())
            x = images("cuda:1", seed=seed)
            expect_as_plain(ours(x), plain(x))
    assert torch.cuda.current_device() == 0
    assert chains(ours._orig_mod) == TAKEN


def test_copies_of_a_fused_model_run_on_both_devices():
    plain = network().to(DEVICES[0])
    ours = fused(plain)
    with torch.no_grad():
        ours(images(DEVICES[0]))
        copies = [copy.deepcopy(ours).to(device) for device in DEVICES]
        for step in range(3):
            for model, device in zip(copies, DEVICES, strict=True):
                x = images(device, batch=1 + step)
                expect_as_plain(model(x), copy.deepcopy(plain).to(device)(x))


def test_a_model_moves_from_device_to_device():
    plain = network()
    ours = fused(plain)
    with torch.no_grad():
        for device in (*DEVICES, *DEVICES):
            x = images(device)
            expect_as_plain(ours.to(device)(x), copy.deepcopy(plain).to(device)(x))


def test_a_module_moves_from_device_to_device():
    with torch.no_grad():
        for device in (*DEVICES, *DEVICES):
            module, (x,) = block("decoder", device)
            y = module(x)
            assert y.device == x.device
            expect_close(y, exact(module, x))


class OnBoth(nn.Module):
    """A model with a half on each device."""

    def __init__(self):
        super().__init__()
        self.first, self.last = network().to(DEVICES[0]), nn.Conv2d(4, 3, 1).to(DEVICES[1])
        self.again = network().to(DEVICES[1])

    def forward(self, x):
        return self.again(self.last(self.first(x).to(DEVICES[1])))


def test_a_model_may_be_on_both_devices():
    plain = OnBoth().eval()
    ours, x = fused(plain), images(DEVICES[0])
    with torch.no_grad():
        for _ in range(2):
            expect_as_plain(ours(x), plain(x))
    assert len(chains(ours)) >= 2 * len(TAKEN)


def test_threads_use_both_devices_at_once():
    plain = [network().to(device) for device in DEVICES]
    ours = [fused(one) for one in plain]
    modules = [block("decoder", device) for device in DEVICES]
    with torch.no_grad():
        for device, model in zip(DEVICES, ours, strict=True):
            model(images(device))

    def work(number):
        which = number % 2
        module, (y,) = modules[which]
        device = torch.device(DEVICES[which])
        # New threads have device 0 as current device; half of them change it.
        with torch.no_grad(), torch.cuda.device(device if number < 2 else 0):
            stream = torch.cuda.Stream(device)
            with torch.cuda.stream(stream):
                for step in range(8):
                    x = images(device, batch=1 + step % 3, seed=number)
                    expect_as_plain(ours[which](x), plain[which](x))
                    expect_close(module(y), exact(module, y))
            stream.synchronize()

    at_once(work)


def test_streams_of_both_devices_are_used_in_order():
    streams = {device: [torch.cuda.Stream(device) for _ in range(2)] for device in DEVICES}
    modules = {device: block("decoder", device) for device in DEVICES}
    models = {device: fused(network().to(device)) for device in DEVICES}
    with torch.no_grad():
        x = {device: images(device) for device in DEVICES}
        known = {one: (modules[one][0](*modules[one][1]), models[one](x[one])) for one in DEVICES}
        for one in DEVICES:
            torch.cuda.synchronize(one)
        results = []
        for _ in range(5):
            for one in DEVICES:
                for stream in streams[one]:
                    with torch.cuda.stream(stream):
                        torch.cuda._sleep(2_000_000)
                        late, also = modules[one][1][0].clone(), x[one].clone()
                        results.append((one, stream, modules[one][0](late), models[one](also)))
        assert torch.cuda.current_device() == 0
        for one, stream, y, z in results:
            stream.synchronize()
            assert torch.equal(y, known[one][0])
            expect_as_plain(z, known[one][1])


def test_tensors_on_the_wrong_device_are_refused_as_pytorch_refuses_them():
    plain, right, wrong = network().to("cuda:1"), images("cuda:1"), images("cuda:0")
    ours = fused(plain)
    with torch.no_grad():
        for was_called in (False, True):
            if was_called:
                expect_as_plain(ours(right), plain(right))
            for x in (wrong, wrong.cpu()):
                with pytest.raises(RuntimeError) as theirs:
                    plain(x)
                with pytest.raises(type(theirs.value)) as mine:
                    ours(x)
                assert str(mine.value) == str(theirs.value)
        expect_as_plain(ours(right), plain(right))


def test_operators_and_modules_refuse_tensors_of_two_devices_in_words():
    module, (x,) = block("decoder", "cuda:1")
    values = module.chain_parameters()
    run = torch.ops.convfuse.run
    with torch.no_grad():
        for wrong in (x.to("cuda:0"), x.cpu()):
            with pytest.raises(RuntimeError, match="device|move"):
                module(wrong)
            with pytest.raises(RuntimeError, match="device|move"):
                run([wrong], values, module.chain, False)
        expect_close(module(x), exact(module, x))


@pytest.mark.parametrize("current", [0, 1])
def test_graphs_of_the_second_device_replay(current):
    plain, x = network().to("cuda:1"), images("cuda:1")
    ours = fused(plain)
    module, (z,) = block("decoder", "cuda:1")
    with torch.no_grad(), torch.cuda.device(1):
        for _ in range(2):
            ours(x), module(z)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y, of_module = ours(x), module(z)
    with torch.no_grad(), torch.cuda.device(current):
        for seed in range(3):
            x.copy_(images("cuda:1", seed=seed))
            z.copy_(torch.randn_like(z))
            redraw(plain)
            ours.load_state_dict(plain.state_dict())
            torch.cuda.synchronize(1)
            # A graph runs on the current stream of the current device.
            with torch.cuda.device(1):
                graph.replay()
                torch.cuda.synchronize()
            expect_as_plain(y, plain(x))
            expect_close(of_module, exact(module, z))


def test_a_clock_times_the_device_of_the_example():
    a = torch.randn(6144, 6144, device="cuda:1")
    times = _choice.measure(lambda: a @ a, a.device)
    # These products take longer than that on any GPU, and their launches less.
    assert times.call > 0.5 and times.graph is not None and times.graph > 0.5
    assert torch.cuda.current_device() == 0
    plain, x = network().to("cuda:1"), images("cuda:1", batch=8)
    ours = convfuse.fuse(copy.deepcopy(plain), x)
    report = convfuse.report(ours)
    assert report.plain.call > 0 and report.plain.graph > 0
    with torch.no_grad():
        expect_as_plain(ours(x), plain(x))


def test_replicas_of_data_parallel_compute_with_the_parameters_of_the_moment():
    plain = network().to("cuda:0")
    ours = fused(plain)
    parallel = nn.DataParallel(ours, device_ids=[0, 1])
    with torch.no_grad():
        for batch in (4, 5, 1, 8):
            redraw(plain)
            ours.load_state_dict(plain.state_dict())
            x = images("cuda:0", batch=batch)
            expect_as_plain(parallel(x), plain(x))
        expect_as_plain(parallel(x), nn.DataParallel(plain, device_ids=[0, 1])(x))


def data_parallel(rank, device):
    """DDP replicas, between training steps and collectives that write to parameters."""
    plain = network(seed=rank).to(device)
    parallel = nn.parallel.DistributedDataParallel
    # Compiled before and after DDP, and through both entry points. DDP broadcasts the parameters of the
    # first process.
    pairs = [parallel(one, device_ids=[rank]) for one in (plain, fused(plain))]
    behind = torch.compile(pairs[0].module, backend="convfuse", options={"choice": "all"})
    optimisers = [torch.optim.SGD(one.parameters(), 0.05) for one in pairs]
    for step in range(3):
        x = images(device, seed=10 * step + rank)
        with torch.no_grad():
            expected = pairs[0](x)
            expect_as_plain(pairs[1](x), expected)
            expect_as_plain(behind(x), expected)
        for model, optimiser in zip(pairs, optimisers, strict=True):
            optimiser.zero_grad()
            model(x).square().mean().backward()
            optimiser.step()
    with torch.no_grad():
        for model in pairs:
            for one in model.parameters():
                dist.all_reduce(one)
                one.mul_(0.4)
        x = images(device, seed=rank)
        expect_as_plain(pairs[1](x), pairs[0](x))
    taken = convfuse.report(pairs[1].module).replaced
    assert taken >= len(TAKEN), taken


def sharded(rank, device):
    """Parameters sharded by FSDP2, before and after ``fuse``, with writes between calls."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import distribute_tensor

    mesh = init_device_mesh("cuda", (2,))
    plain = network().to(device)
    for order in ("before", "behind"):
        ours = copy.deepcopy(plain)
        if order == "before":
            convfuse.fuse(ours, choice="all")
        for one in ours:
            if list(one.parameters()):
                fully_shard(one, mesh=mesh)
        fully_shard(ours, mesh=mesh)
        if order == "behind":
            convfuse.fuse(ours, choice="all")
        with torch.no_grad():
            for step in range(3):
                x = images(device, seed=10 * step + rank)
                expect_as_plain(ours(x), plain(x))
                ours.reshard()
                torch.manual_seed(step)
                for mine, theirs in zip(ours.parameters(), plain.parameters(), strict=True):
                    new = torch.randn(theirs.shape).to(device).mul_(0.2)
                    theirs.copy_(new)
                    mine.copy_(distribute_tensor(new, mesh, mine.placements))
        # Also with recorded gradients.
        x = images(device, seed=rank)
        ours(x).square().mean().backward()
        assert all(one.grad is not None for one in ours.parameters())


def work(rank, store, task):
    """The work of a process that owns one of the devices."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    begin = {"init_method": f"file://{store}", "rank": rank, "world_size": 2}
    dist.init_process_group("nccl", device_id=device, **begin)
    try:
        task(rank, device)
        torch.cuda.synchronize()
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("task", [data_parallel, sharded])
def test_processes_have_a_device_each(task, tmp_path, monkeypatch):
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    context = mp.spawn(work, (str(tmp_path / "store"), task), nprocs=2, join=False)
    until = time.monotonic() + _LIMIT
    try:
        # Raises the error of a process with its message.
        while not context.join(timeout=1):
            assert time.monotonic() < until, f"they took more than {_LIMIT} s"
    finally:
        for process in context.processes:
            process.kill()


def test_a_new_thread_computes_on_the_device_of_its_tensors():
    plain, x = network().to("cuda:1"), images("cuda:1")
    ours, found = fused(plain), []

    def call():
        with torch.no_grad():
            found.append((ours(x), torch.cuda.current_device()))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    ((y, current),) = found
    with torch.no_grad():
        expect_as_plain(y, plain(x))
    assert current == 0
