"""Timing of models, and reports."""

from __future__ import annotations

import contextlib

import torch
from torch import nn

from convfuse import _choice
from convfuse._report import Report, compiled, note


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


def test_reports_are_of_parameters_that_are_there():
    report, kept = Report(), nn.Linear(2, 2)
    note(report, kept.parameters())
    assert compiled(kept) is not None
    # As with another model's parameter at the address of a freed one.
    kept.weight.data, kept.bias = torch.ones(2, 2), None
    assert compiled(kept) is None
