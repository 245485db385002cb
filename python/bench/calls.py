#!/usr/bin/env python3
"""What a call costs the host, and what fused problems cost the GPU beside PyTorch, on this machine.

    python bench/calls.py

Host times are medians over rounds of calls on one sample of problem 85, which is a single launch; a round has
fewer calls than fit into the GPU's queue. GPU times are medians of events around single calls, after a write
of 256 MiB that evicts the caches. Needs a GPU.
"""

import argparse
import statistics
import time

import torch
from torch import nn

import convfuse
from convfuse import nn as fused_nn

SHAPES = {85: (128, 8, 128, 128), 79: (128, 3, 16, 32, 32)}


def problem(number, precision="accurate"):
    """Problem 85 or 79 of KernelBench on the GPU."""
    torch.manual_seed(42)
    if number == 85:
        module = fused_nn.Conv2dGroupNormScaleMaxPoolClamp(
            8, 64, 3, 16, (64, 1, 1), 4, 0.0, 1.0, precision=precision
        )
    else:
        module = fused_nn.Conv3dMultiplyInstanceNormClampMultiplyMax(
            3, 16, 3, (16, 1, 1, 1), -1.0, 1.0, precision=precision
        )
    return module.cuda()


def network():
    """A small network whose call time is dominated by the host."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(8, 8, 3, 1, 1), nn.GroupNorm(2, 8), nn.SiLU()] * 2
    return nn.Sequential(*layers, nn.ConvTranspose2d(8, 8, 2, 2), nn.Tanh()).eval().cuda()


def layers(module):
    """The same computation with PyTorch's own layers."""
    from convfuse._chain import evaluate, parsed

    chain, values = parsed(module.chain), module.chain_parameters()
    return lambda x: evaluate(chain, x, values)


def host(call, rounds=40, calls=100):
    """Host microseconds per call."""
    for _ in range(300):
        call()
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - start) / calls * 1e6)
    torch.cuda.synchronize()
    return statistics.median(times)


def device(call, rounds=60):
    """GPU microseconds per call with cold caches."""
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    for _ in range(5):
        call()
    times = []
    for _ in range(rounds):
        flush.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        # Keeps the GPU busy during the host's part of the call.
        torch.cuda._sleep(200_000)
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times)


def host_times():
    """Rows of the table of host times."""
    module = problem(85)
    x = torch.randn(1, 8, 128, 128, device="cuda")
    y = torch.empty(1, 64, 31, 31, device="cuda")
    values, chain = module.chain_parameters(), module.chain
    run = torch.ops.convfuse.run.default
    relu = '{"in_channels":64,"layers":[{"relu":{}}]}'
    with torch.no_grad():
        yield "torch.ones_like", host(lambda: torch.ones_like(y))
        yield "y.fill_", host(lambda: y.fill_(1.0))
        yield "torch.nn.ReLU()(y)", host(lambda m=torch.nn.ReLU(): m(y))
        yield "operator, a chain without parameters", host(lambda: run([y], [], relu, False))
        yield "operator, problem 85", host(lambda: run([x], values, chain, False))
        yield "module, problem 85", host(lambda: module(x))
        small = torch.randn(1, 8, 14, 14, device="cuda")
        yield "module, an image of 14 by 14, several launches", host(lambda: module(small))
        plain = layers(module)
        yield "PyTorch's layers, problem 85", host(lambda: plain(x))
    with torch.inference_mode():
        yield "module, in inference mode", host(lambda: module(x))
    model, x = network(), torch.randn(1, 8, 32, 32, device="cuda")
    with torch.no_grad():
        yield "a network of 8 layers by PyTorch", host(lambda: model(x))
        convfuse.fuse(model)
        yield "the network, fused", host(lambda: model(x))


def device_times(compile_too):
    """Rows of the table of GPU times: problem, implementation, microseconds, error against float64, peak
    memory beyond the input."""
    for number, shape in SHAPES.items():
        x = torch.randn(shape, device="cuda")
        module = problem(number)
        few = [0, 64, 127]
        exact = layers(problem(number).double().cpu())(x[few].double().cpu())
        ways = {"PyTorch": layers(module), "convfuse": module, "convfuse, fast": problem(number, "fast")}
        if compile_too:
            ways["torch.compile"] = torch.compile(layers(module))
        for name, call in ways.items():
            with torch.no_grad():
                y = call(x)
                error = (y[few].double().cpu() - exact).abs().max().item()
                del y
                torch.cuda.synchronize()
                torch.cuda.reset_peak_memory_stats()
                before = torch.cuda.memory_allocated()
                call(x)
                peak = torch.cuda.max_memory_allocated() - before
                yield number, name, device(lambda: call(x)), error, peak


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--host", action="store_true", help="host times alone")
    arguments.add_argument("--compile", action="store_true", help="time torch.compile, too")
    options = arguments.parse_args()
    if not torch.cuda.is_available():
        arguments.error("PyTorch finds no GPU here, and GPUs are what this measures")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}\n")
    print("| call | host, us |\n|---|---:|")
    for name, microseconds in host_times():
        print(f"| {name} | {microseconds:.1f} |", flush=True)
    if options.host:
        return
    print("\n| problem | | GPU, us | largest error | memory, bytes |\n|---|---|---:|---:|---:|")
    for number, name, microseconds, error, peak in device_times(options.compile):
        print(f"| {number} | {name} | {microseconds:.1f} | {error:.1e} | {peak} |", flush=True)


if __name__ == "__main__":
    main()
