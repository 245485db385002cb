"""What only a GPU shows: streams, graphs, memory, host time, several devices."""

from __future__ import annotations

import os
import threading

import pytest
import torch
from support import BLOCKS, block, cuda, exact, expect_close, problem, redraw


pytestmark = cuda

# A call of a module may take the host this many times as long as one of the smallest layer of PyTorch.
MOST_OF_A_LAYER = 2.0


@pytest.mark.parametrize("number", [85, 79])
def test_full_size_problems_match_float64(number):
    module, _ = problem(number)
    shape = (128, 8, 128, 128) if number == 85 else (128, 3, 16, 32, 32)
    redraw(module)
    module, x = module.cuda(), torch.randn(shape, device="cuda")
    with torch.no_grad():
        y = module(x)
    few = [0, 63, 127]
    expect_close(y[few], exact(module, x[few]))


@pytest.mark.parametrize("name", BLOCKS)
def test_graphs_replay(name):
    module, inputs = block(name, "cuda")
    with torch.no_grad():
        module(*inputs)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = module(*inputs)
        for seed in range(3):
            torch.manual_seed(seed)
            for x in inputs:
                x.copy_(torch.randn_like(x))
            graph.replay()
            torch.cuda.synchronize()
            assert torch.equal(y, module(*inputs))


def test_a_stream_is_first_used_in_a_capture():
    module, (x,) = block("decoder", "cuda")
    outcome = []

    def capture():
        # Of streams each thread has a memory of its own.
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with torch.no_grad(), torch.cuda.graph(graph, stream=stream):
            y = module(x)
        graph.replay()
        stream.synchronize()
        outcome.append((graph, y))

    with torch.no_grad():
        expected = module(x)
    torch.cuda.synchronize()
    thread = threading.Thread(target=capture)
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert torch.equal(outcome[0][1], expected)


def test_graphs_outlive_changed_parameters():
    module, (x,) = block("decoder", "cuda")
    with torch.no_grad():
        expected = module(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = module(x)
        redraw(module)
        changed = module(x)
        # Takes memory that was given back.
        fill = [torch.full((1 << 20,), 7.0, device="cuda") for _ in range(16)]
        graph.replay()
        torch.cuda.synchronize()
        del fill
    assert torch.equal(y, expected) and not torch.equal(changed, expected)


def test_captures_without_a_warm_up_are_refused_in_words():
    module, (x,) = block("decoder", "cuda")
    with torch.no_grad():
        with pytest.raises(RuntimeError, match="before the capture"):
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                module(x)
        expect_close(module(x), exact(module, x))


def test_compiled_modules_replay_graphs():
    torch._dynamo.reset()
    module, inputs = block("decoder", "cuda")
    compiled = torch.compile(module, fullgraph=True, mode="reduce-overhead")
    with torch.no_grad():
        for seed in range(5):
            torch.manual_seed(seed)
            x = torch.randn_like(inputs[0])
            expect_close(compiled(x).clone(), exact(module, x))


def test_inductor_compiles_around_a_module():
    torch._dynamo.reset()
    module, (x,) = block("decoder", "cuda")
    compiled = torch.compile(lambda x: 2 * module(torch.sin(x)) + 1, fullgraph=True)
    with torch.no_grad():
        expect_close(compiled(x), 2 * exact(module, torch.sin(x)) + 1)


def test_side_streams_are_used_in_order():
    module, (x,) = block("decoder", "cuda")
    streams = [torch.cuda.Stream() for _ in range(3)]
    with torch.no_grad():
        expected = module(x)
        for _ in range(10):
            outputs = []
            for stream in streams:
                stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(stream):
                    torch.cuda._sleep(100_000)
                    late = x.clone()
                    outputs.append(module(late))
            for stream, y in zip(streams, outputs):
                stream.synchronize()
                assert torch.equal(y, expected)


def test_nothing_waits_for_the_device():
    module, (x,) = block("decoder", "cuda")
    with torch.no_grad():
        module(x)
        torch.cuda.synchronize()
        torch.cuda._sleep(200_000_000)
        module(x)
        assert not torch.cuda.current_stream().query()
        torch.cuda.synchronize()


@pytest.mark.parametrize("number", [85, 79])
def test_memory_is_that_of_pytorch(number):
    module, _ = problem(number)
    shape = (128, 8, 128, 128) if number == 85 else (128, 3, 16, 32, 32)
    module, x = module.cuda(), torch.randn(shape, device="cuda")
    with torch.no_grad():
        module(x)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        y = module(x)
        assert torch.cuda.memory_allocated() - before == -(-y.nbytes // 512) * 512
        peak = torch.cuda.max_memory_allocated() - before
    # The unfused convolution's output alone is 16 and 30 times the output.
    assert peak <= 1.1 * y.nbytes + 65536


def test_no_memory_is_kept_between_calls():
    module, (x,) = block("decoder", "cuda")
    before = torch.cuda.memory_allocated()
    with torch.no_grad():
        for _ in range(2):
            module(x)
    assert torch.cuda.memory_allocated() == before


def test_host_time_of_a_call():
    import time

    module, _ = problem(85)
    # One launch.
    module, x = module.cuda(), torch.randn(1, 8, 128, 128, device="cuda")

    def calls(call, count):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            call(x)
        return time.perf_counter() - start

    with torch.no_grad():
        ways = module, torch.nn.ReLU()
        for way in ways:
            calls(way, 300)
        # By turns, and the least of each: what other processes take of the host makes some rounds longer, and none shorter.
        rounds = [[calls(way, 100) for way in ways] for _ in range(20)]
    of_module, of_layer = map(min, zip(*rounds, strict=True))
    assert of_module <= MOST_OF_A_LAYER * of_layer


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU")
def test_a_second_device_is_used_whichever_is_current():
    module, (x,) = block("decoder", "cuda:1")
    with torch.no_grad():
        expect_close(module(x), exact(module, x))
        module = module.to("cuda:0")
        expect_close(module(x.to("cuda:0")), exact(module, x))
    assert torch.cuda.current_device() == 0


def test_a_fork_before_the_first_use_is_survived(child):
    code = """
import os, sys, torch
from convfuse import nn
module = nn.Chain(3, [{"conv2d": {"name": "conv", "out_channels": 8, "kernel_size": 3}}, {"relu": {}}])
child = os.fork()
if child == 0:
    with torch.no_grad():
        y = module.cuda()(torch.ones(2, 3, 8, 8, device="cuda"))
    os._exit(0 if y.isfinite().all().item() else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = child(code)
    assert done.returncode == 0, done.stderr


def test_the_gpu_is_refused_after_a_fork():
    module, (x,) = block("decoder", "cuda")
    with torch.no_grad():
        module(x)
        child = os.fork()
        if child == 0:
            words = ""
            try:
                torch.ops.convfuse.run([x], module._runner.parameters(), module.chain, False)
            except RuntimeError as error:
                words = str(error)
            os._exit(0 if "fork" in words else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
