"""The pretended device computes as numpy does, and refuses what a device refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cases import for_each
from tests.strict_arrays import StrictArray, StrictGpu, strict

HOST = np.arange(6.0).reshape(2, 3)


def device() -> Any:
    return strict.asarray(HOST)


def test_values_go_there_and_come_back_as_copies() -> None:
    host = HOST.copy()
    x = strict.asarray(host)
    host[0, 0] = 99

    back, out = x.get(), np.empty((2, 3))
    back[0, 1] = 99

    assert x.tolist() == HOST.tolist()
    assert np.array_equal(strict.asnumpy(x), HOST)
    assert strict.asarray(x) is x
    assert x.get(out=out) is out
    assert np.array_equal(out, HOST)


def added_in_place(to: Any, what: Any) -> None:
    to += what


def assigned(to: Any, what: Any) -> None:
    to[0] = what


MIXTURES: dict[str, Callable[[Any], Any]] = {
    "device + host": lambda x: x + HOST,
    "host + device": lambda x: HOST + x,
    "host @ device": lambda x: HOST.T @ x,
    "device in place": lambda x: added_in_place(x, HOST),
    "host in place": lambda x: added_in_place(HOST.copy(), x),
    "out on the host": lambda x: strict.exp(x, out=HOST.copy()),
    "function of the module": lambda x: strict.add(x, HOST),
    "keyword": lambda x: strict.where(x > 0, x, HOST),
    "list": lambda x: strict.concatenate([x, HOST]),
    "numpy's ufunc": lambda x: np.add(x, HOST),
    "numpy's function": lambda x: np.concatenate([x, HOST]),
    "index": lambda x: x[np.array([0])],
    "assignment": lambda x: assigned(x, HOST[0]),
    "assignment to the host": lambda x: assigned(HOST.copy(), x),
    "method": lambda x: x.dot(HOST.T),
    "conversion": lambda x: np.asarray(x),
    "conversion in a list": lambda x: np.array([x, x]),
    "copy to the host": lambda x: np.copyto(HOST.copy(), x),
    "index of a list": lambda x: [1, 2][x.argmax()],
}


@for_each("mix", MIXTURES.values(), ids=MIXTURES)
def test_mixture_with_the_host_is_refused(mix: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError):
        mix(device())


SAME: dict[str, Callable[[Any, Any], Any]] = {
    "operators": lambda xp, x: (2 * x - 1) ** 2 / 3 + np.float64(2),
    "comparison": lambda xp, x: (x > 2) & ~(x == 4),
    "matrix product": lambda xp, x: x @ x.T,
    "reduction": lambda xp, x: x.sum(axis=0, keepdims=True),
    "function": lambda xp, x: xp.concatenate([x, xp.zeros_like(x)]),
    "nested module": lambda xp, x: xp.linalg.norm(x, axis=1),
    "strided view": lambda xp, x: xp.lib.stride_tricks.as_strided(x, (2, 2), (24, 16)),
    "method of a ufunc": lambda xp, x: xp.add.reduce(x, axis=1),
    "numpy's function": lambda xp, x: np.tanh(x),
    "index by array": lambda xp, x: x[xp.asarray([1, 0, 1]), ::2],
    "index by condition": lambda xp, x: x[x > 2],
    "new axis": lambda xp, x: x[:, None, ..., -1],
    "attributes": lambda xp, x: x.T.reshape(-1).astype("int32"),
    "einsum": lambda xp, x: xp.einsum("ij,ij->i", x, x),
    "split": lambda xp, x: xp.split(x, 3, axis=1)[2],
    "several results": lambda xp, x: xp.divmod(x, 2)[1],
    "named results": lambda xp, x: xp.linalg.qr(x).R,
    "generator": lambda xp, x: xp.random.default_rng(1).normal(size=3),
}


@for_each("compute", SAME.values(), ids=SAME)
def test_results_are_those_of_numpy_and_stay_on_the_device(
    compute: Callable[[Any, Any], Any],
) -> None:
    made, wanted = compute(strict, device()), compute(np, HOST)

    assert isinstance(made, StrictArray)
    assert np.array_equal(made.get(), wanted)
    assert (made.shape, made.dtype, made.ndim) == (
        wanted.shape,
        wanted.dtype,
        wanted.ndim,
    )


def test_reduction_to_one_number_is_an_array_without_axes() -> None:
    total = device().sum()

    assert isinstance(total, StrictArray)
    assert total.shape == ()
    assert (float(total), int(total), bool(total), total.item()) == (15, 15, True, 15)


def test_change_through_a_view_or_in_place_reaches_the_array() -> None:
    x = device()
    same = x

    x += 1
    x[0] = -5
    x[:, 1:][1] = x[0, 0]
    strict.negative(x, out=x)

    assert x is same
    assert x.tolist() == [[5, 5, 5], [-4, 5, 5]]


def test_types_constants_and_rows_are_those_of_numpy_but_what_devices_lack() -> None:
    for name in ("errstate", "nditer", "no_such_name"):
        assert not hasattr(strict, name)
    assert [row.tolist() for row in device()] == HOST.tolist()
    assert len(device()) == 2
    assert strict.float32 is np.float32
    assert strict.inf == np.inf
    assert strict.newaxis is None
    assert isinstance(device(), strict.ndarray)
    assert not hasattr(device(), "no_such_name")
    assert device().device == "strict:0"
    assert repr(strict.zeros(1)) == "strict.array([0.])"


ACROSS: dict[str, Callable[[Any, Any], Any]] = {
    "operator": lambda x, y: x + y,
    "index": lambda x, y: y[x > 0],
    "assignment": lambda x, y: assigned(y, x[0]),
    "view": lambda x, y: x.T,
    "method": lambda x, y: x.sum(),
    "function": lambda x, y: strict.concatenate([y, x]),
    "way in": lambda x, y: strict.asarray(x),
}


@for_each("mix", ACROSS.values(), ids=ACROSS)
def test_array_of_one_pretended_gpu_is_refused_on_another(
    mix: Callable[[Any, Any], Any],
) -> None:
    x, y = StrictGpu(0).put(HOST), StrictGpu(1).put(HOST)

    with StrictGpu(1).entered(), pytest.raises(TypeError, match="move it there first"):
        mix(x, y)


def test_arrays_of_a_pretended_gpu_stay_there_and_come_back() -> None:
    gpu = StrictGpu(1)
    x = gpu.put(HOST)
    with gpu.entered():
        y = x * 2

    assert (x.device, y.device) == ("strict:1", "strict:1")
    assert np.array_equal(gpu.get(y), HOST * 2)
    assert (gpu.n_put, gpu.n_got) == (1, 1)
    with pytest.raises(TypeError, match="strict:1 was taken for"):
        StrictGpu(0).get(y)
