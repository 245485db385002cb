"""Processes for the stages of a comparison with PyTorch: whoever is stuck loses one problem, not the rest."""

import os
import signal
import subprocess
import sys
import time

POLL_SECONDS = 0.2


def stop(process):
    """Ends a process that was started in a session of its own, and its children."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it ended by itself in between
    process.wait()


def supervise(start, titles, finished, seconds, deadline):
    """Runs `start(remaining titles)` until all are finished, each within `seconds`; returns those that were
    not.

    `finished()` gives the titles that are done. They are taken in their order. A process that is stuck or
    dies loses the problem it is at; another is started for the rest.
    """
    wanted, remaining = titles, titles
    while remaining and time.monotonic() < deadline:
        process = start(remaining)
        done, since = len(finished()), time.monotonic()
        while process.poll() is None:
            time.sleep(POLL_SECONDS)
            now = time.monotonic()
            if len(finished()) > done:
                done, since = len(finished()), now
            if now - since > seconds or now > deadline:
                stop(process)
        last = max((remaining.index(t) for t in finished() if t in remaining), default=-1)
        remaining = remaining[last + 1 :]
        if remaining:
            print(f"gave up on {remaining[0]}", file=sys.stderr)
            remaining = remaining[1:]
    return [title for title in wanted if title not in finished()]


def wait_for_compilers(workers, limit, cache):
    """Waits for processes that fill the cache of torch.compile, until `limit` at most."""
    for worker in workers:
        try:
            worker.wait(max(0.0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            # What it did not get to is compiled when it is timed.
            stop(worker)
    # The workers disturb each other's autotuning; the process that times is to repeat it.
    for path in cache.rglob("*.best_config"):
        path.unlink()
