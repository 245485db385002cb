"""Operators that are layers only in whole networks, with attributes drawn over everything that PyTorch
accepts: exported networks match the model, and everything else is refused."""

from __future__ import annotations

import copy
import re
from collections import Counter

import pytest
import torch
from network_draws import DRAWS, Part
from random_models import LARGEST, redraw
from test_export import ran
from test_random import UNITS, compare, disturbed, errors, one_thread  # noqa: F401
from torch import nn

import convfuse
from convfuse import _table

pytestmark = pytest.mark.filterwarnings("ignore")

EACH, MORE = 6, 14
"""How many draws there are of each operator, and of those with many conditions."""

WHOLE = list(_table.WHOLE)

aten = torch.ops.aten
MANY = {aten.constant_pad_nd.default, aten.permute.default, aten.mul.Tensor, aten.cat.default, aten.slice.Tensor, aten.view.default}

# Operators that only appear in other forms of graphs.
NOT_MADE = {aten.reshape.default, aten.flatten.using_ints, aten.native_channel_shuffle.default, aten.detach.default}


def part(target, number):
    """A random network part that contains an operator, with its input."""
    seed = 1000 * number + WHOLE.index(target)
    for attempt in range(30):
        drawn = Part(seed + 100_000 * attempt, number)
        try:
            DRAWS[target](drawn)
        except (RuntimeError, ValueError, IndexError, TypeError):
            continue
        if drawn.y.numel() and drawn.y.abs().max() < LARGEST:
            drawn.model.begin()
            redraw(drawn.model, seed)
            return drawn.model, drawn.values[0].half().double()
    raise AssertionError(f"no legal draw of {target}")


class Parts(nn.Module):
    """Several models with a shared input."""

    def __init__(self, parts):
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x):
        return tuple(one(x) for one in self.parts)


def exported(parts, x, path):
    """A network of the parts that can be exported, and their indices."""
    kept, refused = list(range(len(parts))), {}
    while kept:
        model = Parts([parts[one] for one in kept])
        try:
            return convfuse.export(model, x, path, check=False), kept, refused
        except convfuse.ExportError as error:
            found = {int(one): line for line in str(error).splitlines() for one in re.findall(r"^  parts\.(\d+)", line)}
            if not found:
                raise
            refused |= {kept[one]: line for one, line in found.items()}
            kept = [one for index, one in enumerate(kept) if index not in found]
    raise AssertionError(refused)


@pytest.fixture
def reached(monkeypatch):
    """Counts the operators that became layers."""
    counts = Counter()

    def counted(target, row):
        def run(node, path):
            row(node, path)
            counts[target] += 1

        return run

    for table in (_table.WHOLE, _table.ROWS):
        for target, row in table.items():
            monkeypatch.setitem(table, target, counted(target, row))
    return counts


def test_each_operator_has_a_draw():
    assert set(DRAWS) == set(WHOLE)


def test_exported_attributes_mean_the_same(tmp_path, reached):
    drawn = [part(target, number) for target in WHOLE for number in range(MORE if target in MANY else EACH)]
    for axes in (1, 2, 3):
        some = [(model.float(), x.float()) for model, x in drawn if x.dim() == axes + 2]
        parts, x = [model for model, _ in some], some[0][1]
        found, kept, refused = exported(parts, x, tmp_path / "net")
        assert len(kept) > len(parts) / 2, refused
        model, x = Parts([parts[one] for one in kept]), torch.cat([x, x[:1] + 1])
        with torch.no_grad():
            exact, bounds = disturbed(copy.deepcopy(model).double(), [x.double()], UNITS[torch.float32])
            bounds = [max(bound, 2 * error) for bound, error in zip(bounds, errors(model(x), exact))]
            for index, (y, *rest) in enumerate(zip(ran(found, x), exact, bounds)):
                compare("\n".join(model.parts[index].lines()), [y], *([one] for one in rest))
    assert {target for target in WHOLE if not reached[target]} <= NOT_MADE
