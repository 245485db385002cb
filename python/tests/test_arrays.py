"""Chains on arrays of NumPy, by DLPack, without PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from convfuse import arrays

CHAIN = {
    "in_channels": 4,
    "layers": [
        {"conv2d": {"name": "conv", "out_channels": 6, "kernel_size": 3, "padding": 1}},
        {"group_norm": {"name": "norm", "num_groups": 2}},
        {"add": {"input": "shortcut"}},
        {"relu": {}},
    ],
}


def drawn(seed=0):
    generator = np.random.default_rng(seed)
    values = {
        name: generator.standard_normal(shape).astype(np.float32)
        for name, shape in arrays.parameters(CHAIN).items()
    }
    x = generator.standard_normal((2, 4, 7, 9)).astype(np.float32)
    return values, x, generator.standard_normal((2, 6, 7, 9)).astype(np.float32)


def exact(values, x, shortcut):
    """The chain in float64, computed in the simplest way."""
    values = {name: value.astype(np.float64) for name, value in values.items()}
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    y = np.einsum("nchwrs,kcrs->nkhw", windows, values["conv.weight"])
    y += values["conv.bias"][:, None, None]
    groups = y.reshape(2, 2, -1)
    groups = groups - groups.mean(-1, keepdims=True)
    groups /= np.sqrt((groups**2).mean(-1, keepdims=True) + 1e-5)
    y = groups.reshape(y.shape) * values["norm.weight"][:, None, None]
    return np.maximum(y + values["norm.bias"][:, None, None] + shortcut, 0.0)


def test_numpy_matches_float64():
    values, x, shortcut = drawn()
    y = arrays.Model(CHAIN, values)(x, shortcut)
    assert type(y) is np.ndarray and y.dtype == np.float32
    np.testing.assert_allclose(y, exact(values, x, shortcut), atol=2e-5)


def test_arrays_may_lie_in_any_way():
    values, x, shortcut = drawn()
    model = arrays.Model(CHAIN, values)
    expected = model(x, shortcut)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    assert np.array_equal(model(last, shortcut), expected)
    wide = np.zeros((2, 4, 7, 18), np.float32)
    wide[..., ::2] = x
    assert np.array_equal(model(wide[..., ::2], shortcut), expected)


def test_types_are_rounded_once():
    values, x, shortcut = drawn()
    model = arrays.Model(CHAIN, values, dtype="float16")
    y = model(x.astype(np.float16), shortcut.astype(np.float16))
    assert y.dtype == np.float16
    np.testing.assert_allclose(y, exact(values, x, shortcut), atol=5e-2)


def test_outputs_keep_their_memory():
    values, x, shortcut = drawn()
    model = arrays.Model(CHAIN, values)
    first = model(x, shortcut)
    kept = first.copy()
    for _ in range(50):
        model(-x, shortcut)
    del model
    assert np.array_equal(first, kept)


ASKED = {
    "nothing": ({}, None),
    "no stream": ({"stream": None}, None),
    "a version": ({"max_version": (1, 0)}, None),
    "no copy": ({"copy": False}, None),
    "a copy": ({"copy": True}, "uncopied"),
    "its own device": ({"dl_device": (1, 0)}, None),
    "a GPU": ({"dl_device": (2, 0)}, "where it is"),
    "another number": ({"dl_device": (1, 1)}, "where it is"),
    "its device, copied": ({"dl_device": (1, 0), "copy": True}, "uncopied"),
}


@pytest.mark.parametrize("what", ASKED)
def test_outputs_are_given_as_they_are_or_not_at_all(what):
    asked, refusal = ASKED[what]
    values, x, shortcut = drawn()
    model = arrays.Model(CHAIN, values)
    given = []

    class Asks:
        """An array whose library imports a model's output through its own function."""

        def __init__(self, array):
            self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__

        def __array_namespace__(self):
            return self

        def from_dlpack(self, y):
            given.append(y)
            return y.__dlpack__(**asked)

    if refusal is None:
        assert "dltensor" in repr(model(Asks(x), shortcut))
    else:
        with pytest.raises(BufferError, match=refusal):
            model(Asks(x), shortcut)
    assert given[0].__dlpack_device__() == (1, 0) and tuple(given[0].shape) == (2, 6, 7, 9)


def test_refusals_say_what_is_wrong():
    values, x, shortcut = drawn()
    model = arrays.Model(CHAIN, values)
    with pytest.raises(ValueError, match="parameters are .* must be"):
        arrays.Model(CHAIN, {"conv.weight": values["conv.weight"]})
    for more in ("conv.bia", "norm", ""):
        with pytest.raises(ValueError, match="parameters are .* must be"):
            arrays.Model(CHAIN, values | {more: values["conv.bias"]})
    with pytest.raises(ValueError, match="there are 1 inputs"):
        model(x)
    with pytest.raises(RuntimeError, match=r"input\[1\] is 3, expected 4"):
        model(x[:, :3], shortcut)
    with pytest.raises(RuntimeError, match="convfuse: "):
        model(x.astype(np.float64), shortcut)
    with pytest.raises(TypeError, match="speaks DLPack"):
        model([1.0], shortcut)
    with pytest.raises(ValueError, match="unknown field|must be"):
        arrays.parameters('{"in_channels": 3, "layers": [{"relu": {"slope": 1}}]}')


def test_import_works_without_torch(child):
    code = (
        "import sys; sys.modules['torch'] = None; import convfuse, convfuse.arrays\n"
        "try: convfuse.fuse\n"
        "except ImportError as error: print(error)"
    )
    done = child(code)
    assert done.returncode == 0, done.stderr
    assert "convfuse.fuse needs PyTorch 2.10" in done.stdout
