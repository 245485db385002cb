"""Fused models in several processes: sharded parameters, collectives that write to them, replicas."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available(), reason="this PyTorch has no torch.distributed"
)

BEGIN = """
import copy, os, socket, sys, warnings
import torch, convfuse
import torch.distributed as dist
from torch import nn
warnings.simplefilter("ignore")
torch.set_num_threads(1)
def block(c, f):
    return nn.Sequential(nn.Conv2d(c, f, 3, padding=1), nn.GroupNorm(2, f), nn.SiLU())
def begin(rank, world, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world))
    dist.init_process_group("gloo", rank=rank, world_size=world)
def free():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
def same(y, z):
    assert torch.allclose(y, z, atol=1e-4), (y - z).abs().max()
x = torch.ones(2, 3, 8, 8).mul_(0.5)
"""

SHARDED = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
begin(0, 1, free())
mesh = init_device_mesh("cpu", (1,))
torch.manual_seed(0)
plain = nn.Sequential(block(3, 8), block(8, 8)).eval()
for order in ("before", "behind"):
    ours = copy.deepcopy(plain)
    if order == "before":
        convfuse.fuse(ours, cpu=True, precision="accurate")
    for one in ours:
        fully_shard(one, mesh=mesh)
    fully_shard(ours, mesh=mesh)
    if order == "behind":
        convfuse.fuse(ours, cpu=True, precision="accurate")
    reference = copy.deepcopy(plain)
    with torch.no_grad():
        for step in range(4):
            same(ours(x), reference(x))
            ours.reshard()
            for mine, theirs in zip(ours.parameters(), reference.parameters()):
                new = torch.randn(theirs.shape)
                mine.to_local().copy_(new), theirs.copy_(new)
dist.destroy_process_group()
print("done")
"""

COLLECTIVES = """
import torch.multiprocessing as mp
def worker(rank, port):
    begin(rank, 2, port)
    for collective in (lambda p: dist.broadcast(p, 0), dist.all_reduce):
        torch.manual_seed(rank)
        plain = block(3, 8).eval()
        ours = convfuse.fuse(copy.deepcopy(plain), cpu=True, precision="accurate")
        with torch.no_grad():
            ours(x)
            collective(ours[0].weight)
            plain.load_state_dict(ours.state_dict())
            same(ours(x), plain(x))
            parallel = nn.parallel.DistributedDataParallel(ours)
            same(parallel(x), nn.parallel.DistributedDataParallel(plain)(x))
    dist.destroy_process_group()
mp.start_processes(worker, (free(),), nprocs=2, start_method="fork")
print("done")
"""


@pytest.mark.parametrize("code", [SHARDED, COLLECTIVES], ids=["sharded", "collectives"])
def test_parameters_are_those_of_the_moment(child, code):
    done = child(BEGIN + code, timeout=300)
    assert done.returncode == 0 and "done" in done.stdout, done.stderr[-3000:]
