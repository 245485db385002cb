"""Graphs of modules' code, by ``torch.fx``, and code of graphs in which chains were put."""

from __future__ import annotations

import inspect
import linecache
import operator
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch
from torch import fx, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ._layers import begins_a_chain, is_plain, kind_of
from ._match import Candidate
from .nn import ChainModule

__all__ = ["STATE", "NotTraced", "code", "count_arguments", "is_layer", "replace", "trace"]

# The attribute of a fused module that has what it has beside what it had.
STATE = "_convfuse_state"

_MOST_ARGUMENTS = 6


class NotTraced(Exception):
    """A module's code cannot be traced."""


def is_layer(module: nn.Module) -> bool:
    """Whether it has no modules in it."""
    return not any(True for _ in module.children())


def _switches() -> tuple[int, bool, bool]:
    """What code may switch that no graph has: how many autocasts it is in, and whether gradients are recorded."""
    nesting = torch.autocast_increment_nesting()
    torch.autocast_decrement_nesting()
    return nesting, torch.is_grad_enabled(), torch.is_inference_mode_enabled()


def _writing(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The function of an assignment like ``+=``, to be called in the code of a graph: written as a statement it would change the variable of
    a value that cannot be written into."""

    def write(value: Any, other: Any) -> Any:
        return function(value, other)

    write.__name__ = f"_convfuse_{function.__name__}"
    return write


_ASSIGNMENTS = (
    "iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift imatmul".split()
)
_WRITING = {getattr(operator, name): _writing(getattr(operator, name)) for name in _ASSIGNMENTS}


class _Proxy(fx.Proxy):
    """A value that is traced, for which ``+=`` is what it is for tensors; ``fx`` would make a new value."""

    def __getattr__(self, name: str) -> fx.Proxy:
        return _Attribute(self, name)


class _Attribute(fx.proxy.Attribute):
    """The same of what a value has: the values of a maximum, for example."""


def _assignment(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def assign(self: fx.Proxy, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (self, other), {})

    return assign


for _name in _ASSIGNMENTS:
    for _kind in (_Proxy, _Attribute):
        setattr(_kind, f"__{_name}__", _assignment(getattr(operator, _name)))


class _Tracer(fx.Tracer):
    """Looks into all modules but layers, those that are fused by themselves, and those that somebody listens to."""

    traced_func_name = "_convfuse_entry"

    def __init__(self, opaque: Sequence[nn.Module]) -> None:
        super().__init__()
        self.opaque = {id(module) for module in opaque}
        self.switches = _switches()

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Proxy(node, self)

    def create_node(self, *arguments: Any, **named: Any) -> fx.Node:
        if _switches() != self.switches:
            raise NotTraced("its code switches autocast or the recording of gradients")
        return super().create_node(*arguments, **named)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if isinstance(m, ChainModule) or id(m) in self.opaque or not is_plain(m):
            return True
        return super().is_leaf_module(m, module_qualified_name)


class _Nothing(TorchDispatchMode):
    """Computes nothing: what code computes of other tensors than its arguments and parameters would be computed now, once and for all."""

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        raise NotTraced("its code makes tensors, or computes of buffers")


_SHALLOW = (list, dict, set)


@contextmanager
def _nothing_kept(root: nn.Module) -> Iterator[None]:
    """Raises where code keeps something on a module, as it would be kept now alone, and takes it away again."""
    before = []
    for module in root.modules():
        content = module.__dict__
        lists = [(one, one.copy()) for one in content.values() if type(one) in _SHALLOW]
        before.append((content, content.copy(), lists))
    numbers = random.getstate()
    changed = False
    try:
        yield
    finally:
        for content, copy, lists in before:
            if not _is_same(content, copy):
                content.clear()
                content.update(copy)
                changed = True
            for one, kept in lists:
                if not _is_same(one, kept):
                    one.clear()
                    (one.extend if isinstance(one, list) else one.update)(kept)
                    changed = True
        if random.getstate() != numbers:
            random.setstate(numbers)
            changed = True
    if changed:
        raise NotTraced("its code keeps what it computes, or draws numbers")


def _is_same(one: Any, other: Any) -> bool:
    if len(one) != len(other):
        return False
    if isinstance(one, dict):
        return all(key in other and value is other[key] for key, value in one.items())
    return all(a is b for a, b in zip(one, other)) if isinstance(one, list) else one == other


def count_arguments(module: nn.Module) -> int:
    """How many arguments ``forward`` must be given."""
    try:
        parameters = list(inspect.signature(kind_of(module).forward).parameters.values())[1:]
    except (TypeError, ValueError) as error:
        raise NotTraced(str(error)) from None
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    count = sum(p.kind in positional and p.default is p.empty for p in parameters)
    if any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters):
        raise NotTraced("forward needs an argument by name")
    if not 1 <= count <= _MOST_ARGUMENTS:
        raise NotTraced(f"forward needs {count} arguments")
    return count


# fx counts a function's arguments by its code.
_ENTRIES = [
    lambda self, a: self._convfuse_forward(a),
    lambda self, a, b: self._convfuse_forward(a, b),
    lambda self, a, b, c: self._convfuse_forward(a, b, c),
    lambda self, a, b, c, d: self._convfuse_forward(a, b, c, d),
    lambda self, a, b, c, d, e: self._convfuse_forward(a, b, c, d, e),
    lambda self, a, b, c, d, e, f: self._convfuse_forward(a, b, c, d, e, f),
]


# What asks whether something is a tensor, or of which type it is.
_ASKING = re.compile(r"isinstance\([^)]*Tensor|is_tensor\(|(?<![\w.])type\((?!self\b)")


def _asks(function: Any, owner: type, seen: set[Any]) -> bool:
    """Whether a function of a class asks, or one that it calls by name, of the class or of its file; PyTorch's are known not to."""
    function = inspect.unwrap(function)
    if not isinstance(function, FunctionType) or function in seen:
        return False
    seen.add(function)
    if function.__module__.partition(".")[0] == "torch":
        return False
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        source = ""
    if _ASKING.search(source):
        return True
    names = function.__code__.co_names
    called = [(function.__globals__.get(name), getattr(owner, name, None)) for name in names]
    return any(_asks(one, owner, seen) for some in called for one in some if callable(one))


def _asks_for_tensors(module: nn.Module, opaque: Sequence[nn.Module]) -> bool:
    """Whether code that is traced asks what is a tensor: of values that are traced the answer would be wrong."""
    kind = kind_of(module)
    if _asks(kind.forward, kind, set()):
        return True
    for child in module.children():
        is_list = isinstance(child, (nn.Sequential, nn.ModuleList, nn.ModuleDict))
        is_of_pytorch = child.__module__.startswith("torch.nn") and not is_list
        if is_of_pytorch or any(child is one for one in opaque):
            continue
        if _asks_for_tensors(child, opaque):
            return True
    return False


def _of_layer() -> fx.Graph:
    """The graph of a layer by itself, which calls it: the module that has the graph."""
    graph = fx.Graph()
    graph.output(graph.call_module("", (graph.placeholder("a"),)))
    return graph


def trace(module: nn.Module, opaque: Sequence[nn.Module], count: int) -> fx.Graph:
    """What the module computes of ``count`` arguments; modules that are ``opaque`` are not looked into."""
    if is_layer(module) and begins_a_chain(module):
        return _of_layer()
    own = kind_of(module)
    if _asks_for_tensors(module, opaque):
        raise NotTraced("its code asks whether values are tensors")
    # The original code of this module and of all in it that are fused.
    entry = {"_convfuse_entry": _ENTRIES[count - 1], "_convfuse_forward": own.forward}
    kinds = [(one, type(one)) for one in module.modules() if type(one) is not kind_of(one)]
    kinds.append((module, type(module)))
    try:
        for one, _ in kinds:
            one.__class__ = kind_of(one)
        module.__class__ = type(own.__name__, (own,), entry)
        with torch.inference_mode(False), torch.enable_grad(), _nothing_kept(module), _Nothing():
            return _Tracer(opaque).trace(module)
    except NotTraced:
        raise
    except Exception as error:  # whatever the module's code raises for values that have no numbers
        words = str(error).strip().splitlines() or [type(error).__name__]
        raise NotTraced(words[0].split(". ")[0]) from None
    finally:
        for one, kind in kinds:
            one.__class__ = kind


def replace(graph: fx.Graph, found: Candidate) -> None:
    """Puts a call of the chain where its last node is."""
    name = f"{STATE}.runners[{found.start.name!r}]"
    with graph.inserting_before(found.last):
        call = graph.create_node("get_attr", f"_convfuse__{found.start.name}")
        call.meta["convfuse"] = name
        calling = _call_rounding if found.rounds else _call
        value = graph.create_node("call_function", calling, (call, found.x, *found.residuals))
    found.last.replace_all_uses_with(value)
    for node in reversed(found.nodes):
        graph.erase_node(node)


def _call(chain: Callable[..., Any], x: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
    return chain(x, *inputs)


def _call_rounding(
    chain: Callable[..., Any], x: torch.Tensor, *inputs: torch.Tensor
) -> torch.Tensor:
    return chain(x, *inputs, rounds=True)


def code(graph: fx.Graph) -> Callable[..., Any]:
    """The function that a graph is, of a module and its arguments."""
    for node in graph.nodes:
        if node.op == "call_function" and node.target in _WRITING:
            node.target = _WRITING[node.target]
    written = graph.python_code("self")
    text = written.src
    for node in graph.nodes:
        if "convfuse" in node.meta:
            written_as = rf"self\.{re.escape(node.target)}\b"
            text = re.sub(written_as, f"self.{node.meta['convfuse']}", text)
    file = f"<convfuse {id(graph):x}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = dict(written.globals)
    exec(compile(text, file, "exec"), names)
    return names["forward"]
