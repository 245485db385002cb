"""GPU timing for the programs of this folder and of ../kernelbench."""

import statistics
import time

import torch

WARM_UPS = 3
FEWEST_CALLS, MOST_CALLS = 8, 200


def milliseconds(call, seconds, before=lambda: None):
    """The median time of a call by device events, after warm-up, for some seconds. `before` runs before each
    call, untimed."""
    for _ in range(WARM_UPS):
        call()
    torch.cuda.synchronize()
    times, until = [], time.perf_counter() + seconds
    while len(times) < FEWEST_CALLS or (time.perf_counter() < until and len(times) < MOST_CALLS):
        before()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)
