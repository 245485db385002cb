#!/usr/bin/env python3
"""A process for each GPU, with a fused model of its own: no communication, so twice the rate on two.

    torchrun --nproc-per-node 2 serve.py [--seconds 5] [--batch 16]

Each process answers requests from its own queue, here random ones. Without `torchrun` there is one process;
without a GPU it uses the CPU.
"""

import argparse
import os
import time

import torch

import convfuse
from segmentation import UNet


def main():
    """Serves for a while, and prints the rate of this process."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--seconds", type=float, default=5.0)
    arguments.add_argument("--batch", type=int, default=16)
    arguments.add_argument("--size", type=int, default=64)
    options = arguments.parse_args()
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    torch.manual_seed(0)
    model = UNet(filters=(16, 32, 64)).eval().to(device)
    requests = torch.randn(options.batch, 1, *[options.size] * 3, device=device)
    with torch.inference_mode():
        convfuse.fuse(model, requests, cpu=not on_gpu)
        model(requests)
        served, start = 0, time.perf_counter()
        while time.perf_counter() - start < options.seconds:
            answers = model(requests).argmax(1)
            # The result must be complete before it is sent to a client.
            answers.to("cpu", torch.uint8)
            served += options.batch
        rate = served / (time.perf_counter() - start)
    print(f"process {rank} on {device}: {rate:.1f} volumes a second", flush=True)


if __name__ == "__main__":
    main()
