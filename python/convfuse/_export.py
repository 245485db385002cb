"""Export of whole models as network files: ``torch.export`` traces a model, and the table maps each operator
to a layer.

The files are a graph of layers in JSON and parameters under the names of the model's ``state_dict``. The
library runs them without Python.
"""

from __future__ import annotations

import copy
import json
import os
import struct
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path as File
from typing import Any, NamedTuple

import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

from . import _native, arrays
from ._layers import Layers
from ._regions import tidy, where
from ._table import ROWS, SPLITS, WHOLE, Path, Refused, readers, value

__all__ = ["ExportError", "Exported", "export"]

aten = torch.ops.aten

_LARGEST_ERROR = 1e-3
"""How far a result may be off, in parts of the largest value of PyTorch's: float32 sums in another order, through many layers."""

_MOST_LISTED = 20

_TYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
"""Element types by their names in safetensors files."""


class ExportError(ValueError):
    """A model contains an operator without a layer in the library, or its network gives a different
    result."""


class Exported(NamedTuple):
    """The files written by :func:`export`."""

    network: File
    """The graph of layers, JSON."""
    parameters: File
    """The parameters, a safetensors file."""
    error: float | None
    """The largest difference to what PyTorch gives for the example, in parts of its largest value; none without the check."""


def export(
    model: nn.Module,
    example: torch.Tensor | Sequence[torch.Tensor],
    path: str | os.PathLike[str],
    *,
    check: bool = True,
) -> Exported:
    """Writes a model as a network, ``path`` with the suffix ``.json``, and its parameters, with
    ``.safetensors``.

    ``example`` is an input of the model, or a tuple of them; further inputs are those that the network adds
    somewhere. Batch and spatial extents of the network are free, unless the model upsamples to a size or
    reshapes values. Values that Python code computes from the input's extents, such as TensorFlow's padding
    ``same``, are fixed to those of the example. Several results of the model, in tuples, lists and
    dictionaries, become the network's outputs in their order. The model is exported for inference: without
    dropout, and with the running statistics of batch norms. Parameters have the names of
    ``model.state_dict()``, so later checkpoints of the model load without another export. Values computed
    only from parameters are computed once, and stored under the name of the layer that uses them.

    With ``check`` the network runs on the CPU, in float32, and is compared with the model.

    ``convfuse run --network NAME.json --parameters NAME.safetensors`` runs it, and
    ``serde_json::from_str::<Graph>`` reads it in Rust.

    Raises :class:`ExportError` with module and operator of each place that has no layer in the library, and
    if the check fails.
    """
    examples = (example,) if isinstance(example, torch.Tensor) else tuple(example)
    with _evaluating(model), torch.no_grad():
        program = torch.export.export(model, examples, strict=False)
        table = torch.export.default_decompositions()
        for one in (*ROWS, *WHOLE, *SPLITS):
            table.pop(one, None)
        program = program.run_decompositions(table)
        network = _Network(program, model)
        text, values = network.build()
        error = _compare(model, examples, network.taken_inputs, text, values) if check else None
    base = File(path)
    base = base.with_suffix("") if base.suffix == ".json" else base
    files = Exported(*(base.with_name(base.name + one) for one in (".json", ".safetensors")), error)
    _write(files.parameters, _safetensors(values))
    _write(files.network, [_in_lines(text).encode()])
    return files


@contextmanager
def _evaluating(model: nn.Module):
    """Temporarily switches the model to evaluation mode."""
    were = [(one, one.training) for one in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for one, training in were:
            one.training = training


class _Network(Layers):
    """A network under construction."""

    def __init__(self, program: torch.export.ExportedProgram, model: nn.Module) -> None:
        super().__init__()
        self.graph = program.graph
        self.classes = {name: type(one).__name__ for name, one in model.named_modules()}
        self.is_leaf = {name for name, one in model.named_modules() if not list(one.children())}
        signature = program.graph_signature
        given = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        constants = getattr(signature, "inputs_to_lifted_tensor_constants", {})
        self.names = {**given, **constants}
        """What placeholders of parameters are called in the ``state_dict``."""
        self.held = {**program.state_dict, **program.constants}
        self.user_inputs = set(signature.user_inputs)
        self.constants: set[fx.Node] = set()
        self.tensors: dict[str, torch.Tensor] = {}
        self.refused: list[str] = []
        self.taken_inputs: list[int] = []
        """Which inputs of the model the network has. What no operator reads is left out, but for the first one."""

    def build(self) -> tuple[str, dict[str, torch.Tensor]]:
        """The network in the library's JSON form, and its parameters."""
        tidy(self.graph)
        inputs, output, count = [], None, 0
        for node in self.graph.nodes:
            if node.op == "placeholder" and node.name in self.user_inputs:
                count += 1
                if inputs and not readers(node):
                    continue
                inputs.append(node)
                self.taken_inputs.append(count - 1)
                self.values[node] = self.fresh(node.name)
                self.further.update(inputs[1:])
            elif node.op in ("placeholder", "get_attr"):
                self.constants.add(node)
            elif node.op == "output":
                output = node.args[0]
            elif node.target in _CHECKS:
                continue
            elif all(one in self.constants for one in node.all_input_nodes):
                self.constants.add(node)
            elif node not in self.values:
                self.add(node)
        if self.refused:
            raise ExportError(_listed(self.refused))
        results = [one for one in output if one is not None]
        if not results or any(one not in self.values for one in results):
            raise ExportError("convfuse: export: the model gives no tensors, or one that does not depend on its input")
        if not inputs or not self.layers:
            raise ExportError("convfuse: export: the model has no layers")
        known = value(inputs[0]).shape
        content = {
            "version": 1,
            "input": {"name": self.values[inputs[0]], "channels": known[1]},
            "inputs": [self.values[one] for one in inputs[1:]],
            "layers": _read(self.layers, {self.values[one] for one in results}),
            "output": self.values[results[0]],
            "outputs": [self.values[one] for one in results[1:]],
        }
        try:
            text = _native.network(json.dumps(content))
            table = _native.parameters(text)
        except ValueError as error:
            raise ExportError(str(error).replace("convfuse: network", "convfuse: export", 1)) from None
        return text, {name: self.tensors[name].reshape(shape) for name, shape, _ in table}

    def must_fit(self, path: Path) -> None:
        for one in path.parameters.values():
            if one not in self.constants:
                raise Refused("an operand that depends on the input, where a layer has a parameter")
        for one in path.inputs[1:]:
            if one in self.constants:
                raise Refused("together with a constant tensor that is not broadcast by channels")

    def base(self, node: fx.Node, layer: str) -> str:
        module = where(node)
        return module if module in self.is_leaf and module else f"{module}.{layer}".removeprefix(".")

    def prefix(self, given: dict[str, fx.Node], path: Path, layer: str) -> str:
        """The name of the module that owns these parameters, or else of the operator's module."""
        prefix = self.common_prefix(given)
        if prefix is None:
            prefix = self.fresh(f"{where(path.nodes[0]) or layer}.constant")
        for suffix, one in given.items():
            self.tensors[prefix + suffix] = self.tensor(one)
        return prefix

    def common_prefix(self, given: dict[str, fx.Node]) -> str | None:
        """The common prefix of these parameters' names, if there is one and their suffixes are those of a
        module."""
        prefixes = set()
        for suffix, one in given.items():
            known = self.names.get(one.name)
            if known is None or not known.endswith(suffix):
                return None
            prefixes.add(known.removesuffix(suffix))
        return prefixes.pop() if len(prefixes) == 1 else None

    def tensor(self, node: fx.Node) -> torch.Tensor:
        """The value of a constant node."""
        if node.op == "placeholder":
            return self.held[self.names[node.name]].detach()
        if node.op == "get_attr":
            return getattr(self.graph.owning_module, node.target).detach()
        arguments, named = fx.map_arg((node.args, node.kwargs), self.tensor)
        return node.target(*arguments, **named)

    def refuse(self, node: fx.Node, why: str) -> None:
        """Records that a node has no layer, and continues after it."""
        module = where(node)
        kind = self.classes.get(module)
        place = f"{module or 'the model'} ({kind})" if kind else module or "the model"
        self.refused.append(f"{place}: {node.target}: {why}")
        self.values[node] = self.fresh(node.name)


_CHECKS = (aten._assert_tensor_metadata.default,)
"""What gives no value, and holds for all inputs that a network takes."""

def _read(layers: list[dict[str, Any]], values: set[str]) -> list[dict[str, Any]]:
    """The layers that these values depend on. An empty operand of ``cat`` is not read."""
    kept, values = [], set(values)
    for layer in reversed(layers):
        if layer["name"] in values:
            (attributes,) = layer["layer"].values()
            values.update((layer["input"], attributes.get("input"), *attributes.get("inputs", [])))
            kept.append(layer)
    return kept[::-1]


def _listed(refused: list[str]) -> str:
    count = len(refused)
    what = "an operator is no layer" if count == 1 else f"{count} operators are no layers"
    lines = refused[:_MOST_LISTED] + (["..."] if count > _MOST_LISTED else [])
    return f"convfuse: export: {what} of a network:\n  " + "\n  ".join(lines)


def _compare(
    model: nn.Module,
    examples: Sequence[torch.Tensor],
    taken: Sequence[int],
    text: str,
    values: dict[str, torch.Tensor],
) -> float:
    """The largest error of the network's outputs for the example, relative to the largest value of the
    model's."""

    def plain(one: torch.Tensor) -> torch.Tensor:
        return one.detach().to("cpu", torch.float32).contiguous()

    def tensors(results: Any) -> list[torch.Tensor]:
        return [one for one in pytree.tree_leaves(results) if isinstance(one, torch.Tensor)]

    wide = model
    if any(one.device.type != "cpu" or one.dtype is not torch.float32 for one in values.values()):
        wide = copy.deepcopy(model).to("cpu", torch.float32)
    given = [plain(one) for one in examples]
    wanted = [plain(one) for one in tensors(wide(*given))]
    network = arrays.Model(text, {name: plain(one) for name, one in values.items()})
    found = network(*(given[one] for one in taken))
    found = [torch.from_dlpack(one) for one in (found if isinstance(found, tuple) else (found,))]
    if len(found) != len(wanted):
        raise ExportError(f"convfuse: export: the network gives {len(found)} tensors, the model {len(wanted)}")
    return max(_error(got, want) for got, want in zip(found, wanted))


def _error(got: torch.Tensor, want: torch.Tensor) -> float:
    """The relative error of one output."""
    if got.shape != want.shape:
        raise ExportError(f"convfuse: export: the network gives {tuple(got.shape)}, the model {tuple(want.shape)}")
    largest = want.nan_to_num(0, 0, 0).abs().max().item() if want.numel() else 0.0
    difference = torch.where(torch.isclose(got, want, 0, 0, equal_nan=True), 0.0, (got - want).abs())
    error = difference.max().item() / (largest or 1.0) if want.numel() else 0.0
    if not error <= _LARGEST_ERROR:
        raise ExportError(
            f"convfuse: export: the network differs from the model by {error:.2g} of the largest value, limit {_LARGEST_ERROR}"
        )
    return error


def _in_lines(text: str) -> str:
    """Formats JSON with one line per layer."""
    content = json.loads(text)
    layers = ",\n".join(f"  {json.dumps(one)}" for one in content.pop("layers"))
    tail = {key: content.pop(key) for key in ("output", "outputs") if key in content}
    tail = ",\n".join(f" {json.dumps(key)}: {json.dumps(one)}" for key, one in tail.items())
    head = ",\n".join(f" {json.dumps(key)}: {json.dumps(one)}" for key, one in content.items())
    return f'{{\n{head},\n "layers": [\n{layers}\n ],\n{tail}\n}}\n'


def _safetensors(values: dict[str, torch.Tensor]) -> Iterable[bytes]:
    """The bytes of a safetensors file."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, one in values.items():
        start, end = end, end + one.numel() * one.element_size()
        shape = list(one.shape)
        header[name] = {"dtype": _TYPES[one.dtype], "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield struct.pack("<Q", len(text)) + text
    for one in values.values():
        plain = one.detach().cpu().contiguous().reshape(-1)
        yield plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b""


def _write(path: File, parts: Iterable[bytes]) -> None:
    """Writes a file atomically."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            for part in parts:
                file.write(part)
            file.close()
            os.chmod(file.name, 0o666 & ~_umask())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _umask() -> int:
    """The permission bits that new files lack."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
