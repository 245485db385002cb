"""Who reads a value of a graph: whether under autocast all of them round it to 16 bits."""

from __future__ import annotations

import operator

import torch
from torch import fx, nn
from torch.nn import functional as F

from ._layers import is_plain, kind_of

__all__ = ["round_it"]

# What autocast gives operands of 16 bits to, on GPUs and on CPUs.
_ROUNDING_MODULES = frozenset(
    {
        nn.Conv1d,
        nn.Conv2d,
        nn.Conv3d,
        nn.ConvTranspose1d,
        nn.ConvTranspose2d,
        nn.ConvTranspose3d,
        nn.Linear,
    }
)
_ROUNDING_FUNCTIONS = frozenset(
    {
        F.conv1d,
        F.conv2d,
        F.conv3d,
        F.conv_transpose1d,
        F.conv_transpose2d,
        F.conv_transpose3d,
        F.linear,
        F.scaled_dot_product_attention,
        operator.matmul,
        torch.bmm,
        torch.einsum,
        torch.matmul,
        torch.mm,
    }
)
_ROUNDING_METHODS = frozenset({"bmm", "matmul", "mm"})

# What gives the values that it is given, some of them, or the largest of some, so that it is the same whether they are rounded before or behind.
_PASSING_MODULES = frozenset(
    {
        nn.Flatten,
        nn.Identity,
        nn.MaxPool1d,
        nn.MaxPool2d,
        nn.MaxPool3d,
        nn.PixelShuffle,
        nn.Unflatten,
        nn.UpsamplingNearest2d,
        nn.ZeroPad1d,
        nn.ZeroPad2d,
        nn.ZeroPad3d,
    }
)
_DROPOUTS = frozenset({nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d})
_NEAREST = frozenset({"nearest", "nearest-exact"})
_PASSING_FUNCTIONS = frozenset(
    {
        F.pixel_shuffle,
        torch.cat,
        torch.chunk,
        torch.concat,
        torch.flatten,
        torch.permute,
        torch.reshape,
        torch.split,
        torch.squeeze,
        torch.transpose,
        torch.unsqueeze,
    }
)
_PASSING_METHODS = frozenset(
    {
        "chunk",
        "clone",
        "contiguous",
        "detach",
        "expand",
        "flatten",
        "float",
        "permute",
        "reshape",
        "split",
        "squeeze",
        "transpose",
        "unflatten",
        "unsqueeze",
        "view",
    }
)

# What reads no value.
_ASKING_METHODS = frozenset({"dim", "numel", "size"})
_ASKED_ATTRIBUTES = frozenset({"device", "ndim", "shape"})


def round_it(root: nn.Module, node: fx.Node) -> bool:
    """Whether every reader of this value rounds it to autocast's 16 bits before anything else, or passes it on to such readers. In all of a
    graph autocast is what it is where the graph begins: code that switches it is not traced."""
    return all(_rounds(root, user, node) for user in node.users)


def _rounds(root: nn.Module, user: fx.Node, node: fx.Node) -> bool:
    if user.op == "call_module":
        return _module_rounds(root, user)
    if user.op == "call_method":
        if user.target in _ROUNDING_METHODS or user.target in _ASKING_METHODS:
            return True
        return user.target in _PASSING_METHODS and round_it(root, user)
    if user.op != "call_function":
        return False
    if user.target in _ROUNDING_FUNCTIONS:
        return True
    if user.target is getattr and user.args[1] in _ASKED_ATTRIBUTES:
        return True
    return _function_passes(user, node) and round_it(root, user)


def _module_rounds(root: nn.Module, user: fx.Node) -> bool:
    module = root.get_submodule(user.target)
    kind = kind_of(module)
    # Hooks see what goes in.
    if not is_plain(module):
        return False
    if kind in _ROUNDING_MODULES:
        return True
    passes = kind in _PASSING_MODULES and not getattr(module, "return_indices", False)
    passes = passes or (kind in _DROPOUTS and not module.training)
    passes = passes or (kind is nn.Upsample and module.mode in _NEAREST)
    return passes and round_it(root, user)


def _function_passes(user: fx.Node, node: fx.Node) -> bool:
    if user.target in _PASSING_FUNCTIONS or user.target is operator.getitem:
        return True
    if user.target is F.interpolate:
        mode = user.args[3] if len(user.args) > 3 else user.kwargs.get("mode", "nearest")
        return mode in _NEAREST
    if user.target in (F.max_pool2d, F.max_pool3d):
        return len(user.args) < 7 and not user.kwargs.get("return_indices", False)
    if user.target is F.dropout:
        return user.kwargs.get("training", True) is False
    if user.target is F.pad:
        return len(user.args) < 3 and user.kwargs.get("value") in (None, 0, 0.0)
    return False
