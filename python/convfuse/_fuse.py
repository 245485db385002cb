"""``fuse``: calls of a model run regions of its graphs as single operators, and the rest with PyTorch's own
kernels.

The model stays the same object. Its calls go through Dynamo, as after ``model.compile()``, to the backend of
:mod:`convfuse._backend`. With gradients, while another tool traces the model, and under dispatch modes, its own code runs.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FunctionType
from typing import Any

import torch
from torch import nn
from torch._dynamo import config as dynamo
from torch._dynamo.exc import TorchDynamoException
from torch.autograd import forward_ad
from torch.fx._symbolic_trace import is_fx_symbolic_tracing
from torch.utils._pytree import tree_leaves

from ._backend import Kernels, Options
from ._choice import Choice, better_in_calls, choose, measure
from ._inductor import convfuse
from ._precision import Precision
from ._report import Entry, Report, Times, compiled

__all__ = ["Entry", "Report", "fuse", "report", "unfuse"]

_STATE = "_convfuse"

# Attributes that PyTorch looks up in a module: the replacement of its own code, and the function that makes
# replicas.
_CALLED, _REPLICATED = "_compiled_call_impl", "_replicate_for_data_parallel"


# The numbers of functions that are compiled.
_numbers = itertools.count()


def _call(module: nn.Module, arguments: Any, named: Any) -> Any:
    return module._call_impl(*arguments, **named)


class _Fused:
    """The state of a fused model. It is called in place of the model's own code."""

    def __init__(self, module: nn.Module, options: Options) -> None:
        self.module, self.options = module, options
        self.is_left = False
        """Whether the model is faster without us."""
        self.notes: list[str] = []
        self.plain: Times | None = None
        self.fused: Times | None = None
        self.begin(Kernels(options, whole=options.choice == "networks"))

    def begin(self, kernels: Kernels) -> None:
        self.kernels = kernels
        # Dynamo limits compilations per code object, and treats extents as symbols that have changed between
        # calls of functions of one name. A copy with its own name keeps other models from counting here.
        name = f"{_call.__name__}_{next(_numbers)}"
        own = FunctionType(_call.__code__.replace(co_name=name), _call.__globals__, name)
        self.compiled = torch.compile(own, backend=convfuse, options={"kernels": kernels})

    def put(self) -> None:
        """Redirects calls of the module to this object, unless the model is left to PyTorch."""
        self.module.__dict__[_STATE] = self
        if not self.is_left:
            self.module.__dict__.update({_CALLED: self, _REPLICATED: self.replicate})

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        module = self.module
        if _is_left_alone(module):
            return module._call_impl(*arguments, **named)
        if self.kernels.was_called:
            try:
                return self.compiled(module, arguments, named)
            except TorchDynamoException:
                # Raised for a call unlike earlier ones, before anything has run.
                pass
        return self.run(*arguments, **named)

    def run(self, *arguments: Any, **named: Any) -> Any:
        """Calls the model. Python runs the parts that Dynamo cannot compile or refuses, so errors are
        PyTorch's own."""
        with _errors_are_left_to_python():
            result = self.compiled(self.module, arguments, named)
        self.kernels.was_called = True
        return result

    def replicate(self) -> nn.Module:
        """A replica for another device with its own parameters, as ``DataParallel`` makes one in each
        call."""
        replica = type(self.module)._replicate_for_data_parallel(self.module)
        other = _Fused.__new__(_Fused)
        other.__dict__.update(self.__dict__ | {"module": replica})
        other.put()
        return replica

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["compiled"]
        state["kernels"] = self.kernels.refused, self.kernels.whole
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        refused, whole = state["kernels"]
        self.begin(Kernels(self.options, set(refused), whole))
        self.put()

    def keep_the_faster(self, example: tuple[Any, ...], device: torch.device) -> None:
        """Leaves regions to PyTorch if the model is faster without them on this example."""

        def plain() -> Any:
            return self.module._call_impl(*example)

        def ours() -> Any:
            return self.compiled(self.module, example, {})

        def build(refused: set[Any], whole: bool = False) -> None:
            self.kernels.refused, self.kernels.whole = set(refused), whole
            self.kernels.build()

        def taken(refused: set[Any]) -> Times:
            build(refused)
            return measure(ours, device)

        with torch.no_grad(), _unchanged(self.module, device):
            self.plain = measure(plain, device)
            self.run(*example)
            regions = [one for program in self.kernels.programs for one in program.regions]
            units = list(dict.fromkeys(one.key for one in regions))
            refused, self.fused = choose(units, taken)
            build(refused)
            if any(program.networks for program in self.kernels.programs):
                build(refused, whole=True)
                whole = measure(ours, device)
                if better_in_calls(whole, self.fused):
                    self.fused = whole
                else:
                    build(refused)
        reason = "the model is as fast without it"
        if not units or not better_in_calls(self.fused, self.plain):
            self.is_left, self.fused, refused = True, None, units
            build(set(units))
            reason = "the model is as fast by PyTorch's own operators"
            self.notes.append(f"{reason}, which run it")
        for program in self.kernels.programs:
            program.tell(refused, reason)

    def report(self) -> Report:
        found = self.kernels.report()
        found.notes = list(self.notes)
        if not self.kernels.programs and not self.kernels.left:
            found.notes.append("no call was compiled yet; the first one without gradients will be")
        found.plain, found.fused = self.plain, self.fused
        return found


def _is_left_alone(module: nn.Module) -> bool:
    """Whether PyTorch's own code must run: for gradients, or while another tool traces the model or inspects
    its operators."""
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return True
    if torch._C._functorch.maybe_current_level() is not None or forward_ad._current_level >= 0:
        return True
    # Dynamo refuses a call while another thread traces, which it also does while compiling.
    if torch._C._len_torch_dispatch_stack() > 0 or is_fx_symbolic_tracing():
        return True
    return torch.is_grad_enabled() and any(one.requires_grad for one in module.parameters())


class _Suppressed:
    """The number of threads that suppress Dynamo's errors, and the setting before the first one."""

    lock, count, before = threading.Lock(), 0, False


@contextmanager
def _errors_are_left_to_python() -> Iterator[None]:
    """Runs code as written if Dynamo fails on it. The setting is global to the process."""
    with _Suppressed.lock:
        if _Suppressed.count == 0:
            _Suppressed.before, dynamo.suppress_errors = dynamo.suppress_errors, True
        _Suppressed.count += 1
    try:
        yield
    finally:
        with _Suppressed.lock:
            _Suppressed.count -= 1
            if _Suppressed.count == 0:
                dynamo.suppress_errors = _Suppressed.before


@contextmanager
def _unchanged(module: nn.Module, device: torch.device) -> Iterator[None]:
    """Restores buffers, which norms in training write to, and random number generators after calls."""
    buffers = [(one, one.clone()) for one in module.buffers()]
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        try:
            yield
        finally:
            for one, before in buffers:
                one.copy_(before)


def _devices(example: Any) -> Iterator[torch.device]:
    for one in tree_leaves(example):
        if isinstance(one, torch.Tensor):
            yield one.device


def _expect_module(model: Any, name: str) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"convfuse: {name} takes a torch.nn.Module, not {type(model).__name__}")


def fuse(
    model: nn.Module,
    example_input: torch.Tensor | tuple[Any, ...] | None = None,
    *,
    precision: Precision = "auto",
    cpu: bool = False,
    choice: Choice = "time",
    batch_invariant: bool = False,
) -> nn.Module:
    """Makes calls of ``model`` run convolutions and norms with their following layers as single operators, in
    place, and returns it.

    The model stays the same object of the same class, with its parameters, hooks and submodules. It can be
    copied, pickled, moved and exported. Dynamo compiles the first call without gradients, in one or a few
    seconds, and recompiles when its guards fail. Use it with ``torch.no_grad()`` or
    ``torch.inference_mode()``; in all other cases the model's own code runs. Only calls of the model itself
    are fused, not those of its methods or submodules: for ``vae.decode``, fuse ``vae.decoder``.

    With ``example_input`` (a tensor, or a tuple of arguments), regions are kept only if they make the whole
    model faster, in calls and in a CUDA graph; the model is left unchanged if nothing makes it faster. Call
    ``fuse`` under the autocast that the model will run in. Without it, and with ``choice="estimate"``,
    regions are taken on a GPU where PyTorch is known to be slower. ``choice="all"`` takes each region with a
    norm or a softmax, or with a convolution and more.

    ``precision`` is the math mode of float32 convolutions: ``"accurate"``, ``"fast"`` (tf32 class), or
    ``"auto"``, which follows PyTorch's settings for convolutions at the time of the call. ``"auto"`` is fast
    on a GPU if the caller allows tf32 for convolutions, as PyTorch's defaults do
    (``torch.backends.cudnn.allow_tf32``, ``torch.backends.cudnn.conv.fp32_precision``), or for matrix
    products. With ``cpu``, this library also replaces PyTorch's operators for tensors on the CPU. Kernels may
    depend on the batch size, as in PyTorch, unless ``batch_invariant`` is true. Then regions give the same
    bits for a sample in any batch.

    :func:`report` describes the result, and :func:`unfuse` undoes it. A model that is already fused is fused anew.
    """
    _expect_module(model, "fuse")
    if not isinstance(example_input, (torch.Tensor, tuple, list, type(None))):
        kind = type(example_input).__name__
        raise TypeError(f"convfuse: example_input is a tensor or a tuple of arguments, not {kind}")
    options = Options(precision, cpu, choice, batch_invariant)
    unfuse(model)
    is_one = isinstance(example_input, torch.Tensor)
    example = (example_input,) if is_one else tuple(example_input or ())
    ours = [one for one in _devices(example) if one.type == "cuda" or (cpu and one.type == "cpu")]
    is_timed = choice == "time" and bool(ours)
    if choice == "time" and not is_timed:
        options = replace(options, choice="estimate")
    fused = _Fused(model, options)
    if is_timed:
        fused.keep_the_faster(example, ours[0])
    elif example and choice == "time":
        fused.notes.append("the example is on no GPU, so nothing was timed")
    fused.put()
    return model


def unfuse(model: nn.Module) -> nn.Module:
    """Restores a model to its state before :func:`fuse`, in place, and returns it."""
    _expect_module(model, "unfuse")
    for module in model.modules():
        fused = module.__dict__.pop(_STATE, None)
        for name in (_CALLED, _REPLICATED):
            if fused is not None and getattr(module.__dict__.get(name), "__self__", None) is fused:
                del module.__dict__[name]
            elif fused is not None and module.__dict__.get(name) is fused:
                del module.__dict__[name]
    return model


def report(model: nn.Module) -> Report:
    """The result of :func:`fuse` for this model, or of ``torch.compile(model, backend="convfuse")`` so far:
    the regions taken and not taken, the reasons, and the times."""
    _expect_module(model, "report")
    fused = model.__dict__.get(_STATE)
    found = compiled(model) if fused is None else fused.report()
    if found is None:
        raise ValueError(
            "convfuse: the model was not given to fuse, or unfuse has undone it, and the backend has compiled no call of it with the memory "
            "that its parameters have now"
        )
    return found
