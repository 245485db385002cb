"""Chains and networks on arrays of NumPy, CuPy, JAX, and other libraries with DLPack. Needs no PyTorch.

>>> import numpy as np
>>> from convfuse import arrays
>>> chain = {"in_channels": 3, "layers": [{"scale": {"name": "factor"}}, {"relu": {}}]}
>>> model = arrays.Model(chain, {"factor": np.array([1.0, -1.0, 2.0], np.float32)})
>>> model(np.ones((1, 3, 4), np.float32)).shape
(1, 3, 4)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from . import _native

__all__ = ["Model", "parameters"]

_CPU, _CUDA = 1, 2


def parameters(chain: str | Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The names and shapes of the parameters of a chain or a network, in their order."""
    return {name: tuple(shape) for name, shape, _ in _native.parameters(_text(chain))}


def _text(chain: str | Mapping[str, Any]) -> str:
    return chain if isinstance(chain, str) else json.dumps(chain)


def _place(array: Any) -> int | None:
    """The ordinal of the array's GPU; ``None`` for the CPU."""
    try:
        kind, ordinal = array.__dlpack_device__()
    except AttributeError:
        name = type(array).__name__
        raise TypeError(f"convfuse: {name} is no array that speaks DLPack") from None
    if int(kind) == _CUDA:
        return int(ordinal)
    if int(kind) != _CPU:
        raise ValueError(f"convfuse: an array is on a device of DLPack's type {int(kind)}")
    return None


def _capsule(array: Any, ordinal: int | None) -> Any:
    if _place(array) != ordinal:
        raise ValueError("convfuse: an array is on another device than the model")
    options = {} if ordinal is None else {"stream": _native.array_stream(ordinal)}
    try:
        return array.__dlpack__(**options, max_version=(1, 0))
    except TypeError:
        # A producer from before versioned DLPack.
        return array.__dlpack__(**options)


def _importer(array: Any) -> Any:
    """The function that creates arrays of this kind from DLPack."""
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__().from_dlpack
    import importlib

    return importlib.import_module(type(array).__module__.partition(".")[0]).from_dlpack


class Model:
    """A chain or a network with parameters on one device.

    ``chain`` is a chain or a network, as a dictionary or in JSON. ``parameters`` are arrays by name
    (:func:`parameters` lists them), all on the device that runs the model, and are rounded to ``dtype`` if
    they are wider. They are copied once: after changing them, make a new model. ``device`` is the ordinal of
    a GPU for a chain without parameters.
    """

    def __init__(
        self,
        chain: str | Mapping[str, Any],
        parameters: Mapping[str, Any] | None = None,
        *,
        dtype: Literal["float32", "float16", "bfloat16"] = "float32",
        precision: Literal["accurate", "fast"] = "accurate",
        device: int | None = None,
    ) -> None:
        if precision not in ("accurate", "fast"):
            raise ValueError(f"convfuse: precision is {precision!r}, must be accurate or fast")
        text, given = _text(chain), dict(parameters or {})
        names = [name for name, _, _ in _native.parameters(text)]
        wrong = set(names) ^ set(given)
        if wrong:
            raise ValueError(f"convfuse: parameters are {sorted(given)}, must be {names}")
        self._ordinal = _place(given[names[0]]) if names else device
        capsules = [_capsule(given[name], self._ordinal) for name in names]
        self._model = _native.ArrayModel(text, dtype, self._ordinal, capsules)
        self._fast = precision == "fast"

    def __call__(self, x: Any, *inputs: Any) -> Any:
        """Computes the output for ``x`` and further inputs, as an array of the same kind as ``x``, or a tuple
        of all outputs if a network has several.

        Nothing is copied, and on a GPU the host does not wait: the library's stream waits for the inputs, and
        the consumer of the output waits for the library's stream. The output must not be written to.
        """
        capsules = [_capsule(one, self._ordinal) for one in (x, *inputs)]
        outputs = tuple(map(_importer(x), self._model.run(capsules, self._fast)))
        return outputs[0] if len(outputs) == 1 else outputs
