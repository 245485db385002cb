"""Refusals of rows for what PyTorch computes on some devices only, of graphs without a device."""

from __future__ import annotations

from operator import getitem

import pytest
import torch
from torch import fx

from convfuse._table import ROWS, Path, Refused

aten = torch.ops.aten
HALF = torch.float16


def meta(*shape, dtype=HALF, device="meta", **options):
    return torch.empty(shape, dtype=dtype, device=device, **options)


def path_of(target, arguments, result, *, of=None, **named):
    """The path of an operator's node. Its arguments that are tensors are other inputs, and ``"x"`` is the path's
    value."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = meta(2, 4, 8, 9) if of is None else of

    def node(one):
        if not isinstance(one, torch.Tensor):
            return x if one == "x" else one
        other = graph.placeholder("other")
        other.meta["val"] = one
        return other

    call = graph.call_function(target, tuple(map(node, arguments)), {name: node(one) for name, one in named.items()})
    call.meta["val"] = result
    if isinstance(result, tuple):
        item = graph.call_function(getitem, (call, 0))
        item.meta["val"] = result[0]
    path = Path(x)
    ROWS[target](call, path)
    return path


WIDE = meta(2, 4, 8, 9, dtype=torch.float32)
SAME = meta(2, 4, 8, 9)
CASES = {
    "softmax": (aten._softmax.default, ("x", 1, False), SAME, (aten._softmax.default, ("x", 1, True), WIDE)),
    "log_softmax": (aten._log_softmax.default, ("x", 1, False), SAME, (aten._log_softmax.default, ("x", 1, True), WIDE)),
    "add": (
        aten.add.Tensor, ("x", meta(4, 1, 1)), SAME, (aten.add.Tensor, ("x", meta(4, 1, 1, device="cpu")), SAME),
    ),
    "sub": (
        aten.sub.Tensor, ("x", meta(2, 4, 8, 9)), SAME, (aten.sub.Tensor, ("x", meta(2, 4, 8, 9, device="cpu")), SAME),
    ),
    "mul": (
        aten.mul.Tensor, ("x", meta(4, 1, 1)), SAME,
        (aten.mul.Tensor, ("x", meta(4, 1, 1, dtype=torch.bfloat16)), SAME),
    ),
    "norm": (
        aten.native_group_norm.default, ("x", meta(4), meta(4), 2, 4, 72, 2, 1e-5), (SAME, meta(2, 2), meta(2, 2)),
        (
            aten.native_group_norm.default, ("x", meta(4), meta(4, dtype=torch.bfloat16), 2, 4, 72, 2, 1e-5),
            (SAME, meta(2, 2), meta(2, 2)),
        ),
    ),
    "batches": (
        aten.native_group_norm.default, ("x", meta(4), meta(4), 2, 4, 72, 2, 1e-5), (SAME, meta(2, 2), meta(2, 2)),
        (aten.native_group_norm.default, ("x", meta(8), meta(8), 1, 8, 72, 2, 1e-5), (SAME, meta(1, 2), meta(1, 2))),
    ),
    "reduction": (aten.sum.dim_IntList, ("x", [1]), meta(2, 8, 9), (aten.sum.dim_IntList, ("x", [0, 1]), meta(8, 9))),
    "conversion": (
        aten._to_copy.default, ("x",), WIDE, (aten._to_copy.default, ("x",), meta(2, 4, 8, 9, dtype=torch.bfloat16)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_rows_refuse_what_no_cpu_computes(name):
    target, arguments, result, other = CASES[name]
    options = {"dtype": result.dtype} if name == "conversion" else {}
    path = path_of(target, arguments, result, **options)
    assert path.last.meta["val"].shape == (result[0] if isinstance(result, tuple) else result).shape
    target, arguments, result = other
    options = {"dtype": result.dtype} if name == "conversion" else {}
    with pytest.raises(Refused):
        path_of(target, arguments, result, **options)


@pytest.mark.parametrize("changed", [{"device": "cpu"}, {"layout": torch.strided}, {"pin_memory": True}])
def test_conversions_that_do_more_are_refused(changed):
    path_of(aten._to_copy.default, ("x",), WIDE, dtype=torch.float32)
    with pytest.raises(Refused, match="a conversion"):
        path_of(aten._to_copy.default, ("x",), WIDE, dtype=torch.float32, **changed)


def test_there_are_paths_of_the_types_of_kernels_alone():
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        known = meta(2, 4, 8, 9, dtype=dtype)
        assert path_of(aten.relu.default, ("x",), known, of=known).operators == ["relu"]
    for dtype in (torch.float64, torch.int32, torch.complex64, torch.bool):
        with pytest.raises(Refused, match="there are no kernels"):
            path_of(aten.relu.default, ("x",), SAME, of=meta(2, 4, 8, 9, dtype=dtype))
