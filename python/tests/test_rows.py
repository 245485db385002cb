"""Each row of the table at the bounds of what it takes, compared with PyTorch in float64."""

from __future__ import annotations

import copy
from collections import Counter, defaultdict

import pytest
import torch
from row_cases import NETWORKS, REGIONS, SHAPES
from support import expect_close, fused
from torch import nn
from torch.nn import functional as F

import convfuse
from convfuse import _table

pytestmark = pytest.mark.filterwarnings("ignore")


ROWS = dict(_table.ROWS)

UNREFUSED = {"_negation", "_gelu", "_prelu"}
"""Rows that refuse nothing of the expressions that PyTorch itself takes in float32."""

ELSEWHERE = {"_batch_norm_in_training"}
"""Rows of training, which other tests reach."""


class Case(nn.Module):
    """An expression of two inputs and of parameters."""

    def __init__(self, text):
        super().__init__()
        self.text = text
        self.function = eval(f"lambda x, r, c, {', '.join(SHAPES)}: {text}", {"torch": torch, "F": F})

    def forward(self, x, r, values):
        return self.function(x, r, lambda y: F.conv2d(y, values["w"], None, 1, 1), **values)


class Cases(nn.Module):
    """Many expressions with inputs of their own."""

    def __init__(self, texts):
        super().__init__()
        self.cases = nn.ModuleList(map(Case, texts))
        generator = torch.Generator().manual_seed(1)
        for name, shape in SHAPES.items():
            drawn = torch.rand(shape, generator=generator) + 0.5
            drawn[drawn > 1] -= 1.75 if name != "q" else 0
            self.register_buffer(name, drawn)

    def forward(self, *inputs):
        values = {name: getattr(self, name) for name in SHAPES}
        return tuple(case(x, r, values) for case, x, r in zip(self.cases, inputs[::2], inputs[1::2]))


def found(texts, laid=lambda one: one, **options):
    """The chains taken from each expression, after its value was compared."""
    model = Cases(texts)
    generator = torch.Generator().manual_seed(2)
    inputs = [laid(torch.randn(2, 4, 8, 9, generator=generator)) for _ in texts for _ in range(2)]
    ours = fused(model, **options)
    with torch.no_grad():
        actual, plain = ours(*inputs), model(*inputs)
        exact = copy.deepcopy(model).double()(*(one.double() for one in inputs))
    report = convfuse.report(ours)
    assert not report.not_traced, report.not_traced
    for text, one, other, wide in zip(texts, actual, plain, exact, strict=True):
        try:
            assert one.dtype is other.dtype and one.shape == other.shape
            is_half = "half" in text
            expect_close(one, wide.double(), torch.float16 if is_half else torch.float32)
        except AssertionError as error:
            raise AssertionError(f"{text}: {error}") from None
    taken = defaultdict(list)
    for entry in report.entries:
        if entry.taken:
            _, _, network = entry.reason.partition("part of a network of ")
            taken[int(entry.module.rpartition(".")[2])].append(network or entry.chain)
    if options["choice"] == "networks":
        # A network is told by each of its regions.
        taken = {index: list(dict.fromkeys(some)) for index, some in taken.items()}
    return ["; ".join(taken.get(index, [])) for index in range(len(texts))]


@pytest.fixture
def reached(monkeypatch):
    """Counts how often each row took a node, and how often it refused one."""
    counts = Counter()

    def counted(row):
        def run(node, path):
            try:
                row(node, path)
            except _table.Refused:
                counts[row.__name__, "refused"] += 1
                raise
            counts[row.__name__, "taken"] += 1

        return run

    for target, row in _table.ROWS.items():
        monkeypatch.setitem(_table.ROWS, target, counted(row))
    return counts


def test_regions_are_taken_up_to_the_bounds_of_each_row(reached):
    rows = {row.__name__ for row in ROWS.values()}
    texts = list(REGIONS)
    assert dict(zip(texts, found(texts, choice="all"))) == REGIONS
    taken, refused = ({row for row in rows if reached[row, what]} for what in ("taken", "refused"))
    assert rows - taken == ELSEWHERE, "rows without an expression that they take"
    assert rows - refused == ELSEWHERE | UNREFUSED, "rows without an expression that they refuse"


def test_networks_are_taken_up_to_the_bounds_of_each_row():
    texts = list(NETWORKS)
    assert dict(zip(texts, found(texts, choice="networks"))) == NETWORKS


@pytest.mark.parametrize("texts", [REGIONS, NETWORKS], ids=["regions", "networks"])
def test_rows_mean_the_same_of_channels_last(texts):
    def laid(x):
        return x.to(memory_format=torch.channels_last)

    # PyTorch itself refuses these views.
    found([one for one in texts if ".view(" not in one], laid, choice="all" if texts is REGIONS else "networks")
