"""The guide's table of layers names functions and modules that PyTorch has."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

_GUIDE = Path("docs/guide.md")


def _rows():
    """Pairs of an operator and the text about PyTorch of each row."""
    folders = Path(__file__).resolve().parents
    guide = next(folder / _GUIDE for folder in folders if (folder / _GUIDE).is_file())
    _, _, table = guide.read_text().partition("| JSON name |")
    rows = [line.strip("|").split("|") for line in table.split("\n\n")[0].splitlines()[2:]]
    return [(cells[0].strip(" `"), cells[5]) for cells in rows]


def test_the_objects_of_the_guides_table_exist():
    roots = {"nn": nn, "torch": torch, "F": F}
    rows = _rows()
    assert len(rows) > 50
    with_object = 0
    for operator, text in rows:
        names = re.findall(r"\b(nn|torch|F)\.(\w+)", text)
        # Further modules of the same place, without its name: `nn.ZeroPad2d`, `ReflectionPad2d`.
        names += [("nn", name) for name in re.findall(r"`([A-Z]\w+)`", text)]
        names += [("torch", name) for name in re.findall(r"`(chunk|split)`", text)]
        # Further ranks of a module: `nn.BatchNorm1d`, 2d, 3d.
        stem = re.search(r"nn\.(\w+)1d", text)
        names += [("nn", stem[1] + rank) for rank in re.findall(r"\b[23]d\b", text) if stem]
        for root, name in names:
            assert callable(getattr(roots[root], name, None)), f"{operator}: {root}.{name}"
        with_object += bool(names)
    # `scale` and `gate` are products.
    assert with_object == len(rows) - 2
