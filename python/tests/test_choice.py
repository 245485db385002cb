"""Timing of models, and reports."""

from __future__ import annotations

import contextlib

import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from convfuse import _choice
from convfuse._backend import Options, Program
from convfuse._report import Report, Times, compiled, note


def test_the_device_of_the_example_is_waited_for(monkeypatch):
    current, seen = [0], []

    @contextlib.contextmanager
    def device(one):
        before, current[0] = current[0], one.index
        yield
        current[0] = before

    def refuse(graph):
        raise RuntimeError("no graph")

    monkeypatch.setattr(torch.cuda, "device", device)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: seen.append(current[0]))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: None)
    monkeypatch.setattr(torch.cuda, "graph", refuse)
    assert _choice.measure(lambda: None, torch.device("cuda:1"), 0.01).call > 0
    assert set(seen) == {1} and current == [0]


def test_regions_alone_are_timed_for_each_of_their_shapes(monkeypatch):
    """Regions with the same layers are left out together, by the sum of their times."""

    def function(x, weight):
        y = torch.relu(F.conv2d(x, weight, padding=1))
        return torch.relu(F.conv2d(F.interpolate(y, scale_factor=2.0), weight, padding=1))

    for small, large, is_slower in ((1.0, -3.0, False), (3.0, -1.0, True), (-3.0, 1.0, False), (-1.0, 3.0, True)):
        differences = [small, 0.0, large, 0.0]
        monkeypatch.setattr(_choice, "measure", lambda *_, times=differences: Times(times.pop(0)))
        graph = make_fx(function, tracing_mode="fake")(torch.randn(1, 3, 4, 4), torch.randn(3, 3, 3, 3))
        program = Program.of(graph, Options("accurate", cpu=True))
        keys = {one.key for one in program.regions}
        assert len(program.regions) == 2 and len(keys) == 1
        assert _choice.slower_alone(program.regions, False, False, ()) == (keys if is_slower else set())
        assert differences == []


def test_reports_are_of_parameters_that_are_there():
    report, kept = Report(), nn.Linear(2, 2)
    note(report, kept.parameters())
    assert compiled(kept) is not None
    # As with another model's parameter at the address of a freed one.
    kept.weight.data, kept.bias = torch.ones(2, 2), None
    assert compiled(kept) is None


def test_models_are_better_if_calls_or_graphs_are_faster_and_neither_is_slower():
    one = _choice.Times(1.0, 1.0)
    for call, graph, is_better in [
        (0.9, 1.0, True),
        (1.0, 0.9, True),
        (0.9, 1.1, False),
        (1.1, 0.9, False),
        (0.99, 0.99, False),
        (0.9, 1.02, True),
    ]:
        assert _choice.better(_choice.Times(call, graph), one) is is_better, (call, graph)
    # Without graphs, calls decide.
    assert _choice.better(_choice.Times(0.9), one)
    assert not _choice.better(_choice.Times(0.99), _choice.Times(1.0))


def test_calls_that_are_much_faster_outweigh_graphs_that_are_a_little_slower():
    one = _choice.Times(1.0, 1.0)
    for call, graph, is_better in [
        (0.9, 1.0, True),
        (0.5, 1.2, True),
        (0.5, 1.3, False),
        (0.7, 1.2, False),
        (1.1, 0.5, False),
        (1.0, 1.0, False),
    ]:
        assert _choice.better_in_calls(_choice.Times(call, graph), one) is is_better, (call, graph)
    assert not _choice.better_in_calls(_choice.Times(0.99), _choice.Times(1.0))


def test_units_that_make_a_model_slower_are_left_out():
    """Units take 1 each, and as much as PyTorch's kernels if left out, but slow ones take 3."""
    for slow in [set(), {0}, {7}, {2, 3, 6}, set(range(8))]:
        tried = []

        def taken(refused, slow=slow, tried=tried):
            tried.append(refused)
            return _choice.Times(sum(3.0 if one in slow and one not in refused else 1.0 for one in range(8)))

        refused, times = _choice.choose(range(8), taken)
        assert refused >= slow and times == _choice.Times(8.0), (slow, refused)
        assert tried[0] == set() and len(tried) <= 1 + _choice._TRIES


def test_durations_are_lower_quartiles(monkeypatch):
    clock = [0.0]
    durations = iter([9.0, 1.0, 2.0, 8.0, 7.0, 6.0, 5.0, 4.0])

    def call():
        clock[0] += next(durations)

    monkeypatch.setattr(_choice.time, "perf_counter", lambda: clock[0])
    assert _choice.duration(call, 40.0) == 4e3
