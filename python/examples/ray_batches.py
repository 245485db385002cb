#!/usr/bin/env python3
"""Ray Data's `map_batches` with a fused model in each worker.

    pip install "ray[data]"
    python ray_batches.py [--images 256]
"""

import argparse

import numpy as np
import ray
import torch

import convfuse
from decoder import Decoder


class Decode:
    """A worker: it creates, fuses and warms up the model once, and then processes batches."""

    def __init__(self, batch, size):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(0)
        self.model = Decoder(filters=(128, 128, 64, 64)).eval().to(self.device)
        example = torch.zeros(batch, 4, size, size, device=self.device)
        convfuse.fuse(self.model, example, cpu=self.device.type == "cpu")

    def __call__(self, batch):
        with torch.inference_mode():
            latents = torch.tensor(batch["latents"], device=self.device)
            images = self.model(latents).clamp(-1.0, 1.0)
        return {"mean": images.mean((1, 2, 3)).cpu().numpy()}


def main():
    """Decodes random latents."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--images", type=int, default=256)
    arguments.add_argument("--batch", type=int, default=16)
    arguments.add_argument("--size", type=int, default=16)
    options = arguments.parse_args()
    gpus = torch.cuda.device_count()
    latents = np.random.default_rng(0).standard_normal(
        (options.images, 4, options.size, options.size), dtype=np.float32
    )
    decoded = ray.data.from_numpy(latents).rename_columns({"data": "latents"}).map_batches(
        Decode,
        fn_constructor_args=(options.batch, options.size),
        batch_size=options.batch,
        concurrency=max(1, gpus),
        num_gpus=1 if gpus else 0,
    )
    print(f"{decoded.count()} images, mean {decoded.mean('mean'):.4f}")


if __name__ == "__main__":
    main()
