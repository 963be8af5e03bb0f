"""Functions of a shape that give variables their initial values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kit.tf1.graph.graph import get_default_graph
from kit.tf1.ops.random import random_normal, random_uniform, truncated_normal
from kit.tf1.ops.shape import reshape, transpose
from kit.tf1.tensor.constant import spread, to_constant
from kit.tf1.tensor.convert import convert_to_tensor, create
from kit.tf1.tensor.dtypes import DType, as_dtype, float32
from kit.tf1.tensor.shape import TensorShape

# Smaller constants travel as they are; larger ones are filled where they live.
_SMALL = 1000


class Initializer:
    """A function of shape and dtype that returns a tensor."""

    def __init__(self, dtype: Any = float32) -> None:
        self.dtype = as_dtype(dtype)

    def __call__(
        self, shape: Any, dtype: Any = None, partition_info: Any = None
    ) -> Any:
        """Return the values for a shape; `dtype` overrides that of the initializer."""
        chosen = self.dtype if dtype is None else as_dtype(dtype).base_dtype
        return self._values(_sizes(shape), chosen)

    def _values(self, shape: list[int], dtype: DType) -> Any:
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Return the arguments with which it was made."""
        plain = {k: v for k, v in vars(self).items() if k != "dtype"}
        return {**plain, "dtype": self.dtype.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Initializer:
        """Return an initializer made with these arguments."""
        return cls(**config)


class Zeros(Initializer):
    """Zeros, False, or empty texts."""

    def _values(self, shape: list[int], dtype: DType) -> Any:
        zeros: dict[str, Any] = {"string": b"", "bool": False}
        return _filled(shape, zeros.get(dtype.name, 0), dtype, "zeros")


class Ones(Initializer):
    """Ones."""

    def _values(self, shape: list[int], dtype: DType) -> Any:
        return _filled(shape, True if dtype.is_bool else 1, dtype, "ones")


class Constant(Initializer):
    """One value, or a list of values, of which the last fills what is missing."""

    def __init__(
        self, value: Any = 0, dtype: Any = float32, verify_shape: bool = False
    ) -> None:
        """Take the values: a number, list or array; raises `TypeError` for others."""
        super().__init__(dtype)
        if not (np.isscalar(value) or isinstance(value, list | tuple | np.ndarray)):
            raise TypeError(
                f"Invalid type for initial value: {type(value)} (expected Python "
                f"scalar, list or tuple of values, or numpy.ndarray)."
            )
        self.value, self.verify_shape = value, verify_shape

    def get_config(self) -> dict[str, Any]:
        """Return the value and the dtype."""
        return {"value": self.value, "dtype": self.dtype.name}

    def _values(self, shape: list[int], dtype: DType) -> Any:
        array = to_constant(self.value, dtype)
        if self.verify_shape and list(array.shape) != shape:
            raise TypeError(f"Expected Tensor's shape: {shape}, got {array.shape}.")
        return _const(spread(array, shape), "Const")


class RandomUniform(Initializer):
    """Evenly distributed values from `minval` up to but not including `maxval`.

    Without `maxval` they are below 1.
    """

    def __init__(
        self,
        minval: Any = 0,
        maxval: Any = None,
        seed: Any = None,
        dtype: Any = float32,
    ) -> None:
        super().__init__(dtype)
        self.minval, self.maxval, self.seed = minval, maxval, seed

    def _values(self, shape: list[int], dtype: DType) -> Any:
        return random_uniform(shape, self.minval, self.maxval, dtype, seed=self.seed)


class RandomNormal(Initializer):
    """Normally distributed values."""

    def __init__(
        self,
        mean: Any = 0.0,
        stddev: Any = 1.0,
        seed: Any = None,
        dtype: Any = float32,
    ) -> None:
        super().__init__(floating(dtype))
        self.mean, self.stddev, self.seed = mean, stddev, seed

    def _values(self, shape: list[int], dtype: DType) -> Any:
        return random_normal(shape, self.mean, self.stddev, dtype, seed=self.seed)


class TruncatedNormal(RandomNormal):
    """Normally distributed values, drawn again beyond two standard deviations."""

    def _values(self, shape: list[int], dtype: DType) -> Any:
        return truncated_normal(shape, self.mean, self.stddev, dtype, seed=self.seed)


class VarianceScaling(Initializer):
    """Values whose variance is `scale` over the number of inputs, outputs or both.

    Raises `ValueError` for a scale that is not positive, and for another mode than
    fan_in, fan_out, fan_avg or distribution than normal, truncated_normal,
    untruncated_normal, uniform.
    """

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: Any = None,
        dtype: Any = float32,
    ) -> None:
        super().__init__(floating(dtype))
        if scale <= 0.0:
            raise ValueError("`scale` must be positive float.")
        if mode not in _FANS:
            raise ValueError(f"Invalid `mode` argument: {mode}")
        if distribution.lower() not in _DISTRIBUTIONS:
            raise ValueError(f"Invalid `distribution` argument: {distribution}")
        self.scale, self.mode, self.seed = scale, mode, seed
        self.distribution = distribution.lower()

    def __call__(
        self, shape: Any, dtype: Any = None, partition_info: Any = None
    ) -> Any:
        """Return the values for a shape; a part is scaled as the whole is."""
        whole = shape if partition_info is None else partition_info.full_shape
        variance = self.scale / max(1.0, _FANS[self.mode](*_fans(_sizes(whole))))
        chosen = self.dtype if dtype is None else as_dtype(dtype).base_dtype
        return self._drawn(variance, _sizes(shape), chosen)

    def _drawn(self, variance: float, shape: list[int], dtype: DType) -> Any:
        if self.distribution == "uniform":
            limit = math.sqrt(3.0 * variance)
            return RandomUniform(-limit, limit, self.seed)(shape, dtype)
        if self.distribution == "untruncated_normal":
            return RandomNormal(0.0, math.sqrt(variance), self.seed)(shape, dtype)
        # Truncation at two deviations makes the distribution narrower by this factor.
        deviation = math.sqrt(variance) / 0.87962566103423978
        return TruncatedNormal(0.0, deviation, self.seed)(shape, dtype)


def _scaled(scale: float, mode: str, distribution: str, doc: str) -> Any:
    def function(seed: Any = None) -> VarianceScaling:
        return VarianceScaling(scale, mode, distribution, seed)

    function.__doc__ = f"Return an initializer with {doc}."
    return function


he_normal = _scaled(2.0, "fan_in", "truncated_normal", "He's normal values")
he_uniform = _scaled(2.0, "fan_in", "uniform", "He's even values")
lecun_normal = _scaled(1.0, "fan_in", "truncated_normal", "LeCun's normal values")
lecun_uniform = _scaled(1.0, "fan_in", "uniform", "LeCun's even values")


class UniformUnitScaling(Initializer):
    """Uniform values that keep the scale of what is multiplied with them.

    They are below `factor` times the root of 3 over the product of all sizes but the
    last.
    """

    def __init__(
        self, factor: float = 1.0, seed: Any = None, dtype: Any = float32
    ) -> None:
        super().__init__(floating(dtype))
        self.factor, self.seed = factor, seed

    def __call__(
        self, shape: Any, dtype: Any = None, partition_info: Any = None
    ) -> Any:
        """Return the values for a shape; a part is scaled as the whole is."""
        whole = shape if partition_info is None else partition_info.full_shape
        limit = self.factor * math.sqrt(3.0 / max(1.0, math.prod(_sizes(whole)[:-1])))
        chosen = self.dtype if dtype is None else as_dtype(dtype).base_dtype
        return RandomUniform(-limit, limit, self.seed)(shape, chosen)


class GlorotUniform(VarianceScaling):
    """Uniform values scaled by the number of inputs and outputs; the usual default."""

    def __init__(self, seed: Any = None, dtype: Any = float32) -> None:
        super().__init__(1.0, "fan_avg", "uniform", seed, dtype)

    def get_config(self) -> dict[str, Any]:
        """Return the seed and the dtype."""
        return {"seed": self.seed, "dtype": self.dtype.name}


class GlorotNormal(VarianceScaling):
    """Normal values scaled by the number of inputs and outputs."""

    def __init__(self, seed: Any = None, dtype: Any = float32) -> None:
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, dtype)

    def get_config(self) -> dict[str, Any]:
        """Return the seed and the dtype."""
        return {"seed": self.seed, "dtype": self.dtype.name}


class Orthogonal(Initializer):
    """A matrix with orthogonal rows or columns, of all axes but the last, times `gain`.

    Of normal numbers, the first factor of their QR decomposition.
    """

    def __init__(
        self, gain: float = 1.0, seed: Any = None, dtype: Any = float32
    ) -> None:
        super().__init__(floating(dtype))
        self.gain, self.seed = gain, seed

    def _values(self, shape: list[int], dtype: DType) -> Any:
        if len(shape) < 2:
            raise ValueError("The tensor to initialize must be at least 2-dimensional")
        rows, columns = math.prod(shape[:-1]), shape[-1]
        lengths = [max(rows, columns), min(rows, columns)]
        drawn = random_normal(lengths, dtype=dtype, seed=self.seed)
        made = create("Orthogonal", drawn, name=None)
        turned = transpose(made) if rows < columns else made
        return reshape(turned, shape) * self.gain


class Identity(Initializer):
    """A matrix with `gain` on its diagonal; raises `ValueError` for other shapes."""

    def __init__(self, gain: float = 1.0, dtype: Any = float32) -> None:
        super().__init__(floating(dtype))
        self.gain = gain

    def __call__(
        self, shape: Any, dtype: Any = None, partition_info: Any = None
    ) -> Any:
        """Return the values for a shape, or for a part of it."""
        sizes = _sizes(shape if partition_info is None else partition_info.full_shape)
        if len(sizes) != 2:
            raise ValueError(f"an identity is a matrix, not of shape {sizes}.")
        chosen = self.dtype if dtype is None else as_dtype(dtype).base_dtype
        whole = np.eye(*sizes, dtype=chosen.as_numpy_dtype) * self.gain
        if partition_info is not None:
            pairs = zip(partition_info.var_offset, _sizes(shape), strict=True)
            whole = whole[tuple(slice(begin, begin + n) for begin, n in pairs)]
        return convert_to_tensor(whole.astype(chosen.as_numpy_dtype))


def floating(dtype: Any) -> DType:
    """Return a type of floating point numbers; `ValueError` for others."""
    float_dtype = as_dtype(dtype)
    if not float_dtype.is_floating:
        raise ValueError(f"Expected floating point type, got {float_dtype!r}.")
    return float_dtype


def default_initializer(dtype: DType) -> Initializer:
    """Return the default initializer of a variable of this dtype."""
    return GlorotUniform() if dtype.is_floating or dtype.is_complex else Zeros()


_FANS = {
    "fan_in": lambda inputs, outputs: inputs,
    "fan_out": lambda inputs, outputs: outputs,
    "fan_avg": lambda inputs, outputs: (inputs + outputs) / 2.0,
}
_DISTRIBUTIONS = ("normal", "truncated_normal", "untruncated_normal", "uniform")


def _fans(shape: Sequence[int]) -> tuple[float, float]:
    """Return the numbers of inputs and outputs of a layer with weights of a shape."""
    if len(shape) < 2:
        both = float(shape[0]) if shape else 1.0
        return both, both
    window = math.prod(shape[:-2])
    return float(shape[-2] * window), float(shape[-1] * window)


def _sizes(shape: Any) -> list[int]:
    static_shape = TensorShape(shape)
    static_shape.assert_is_fully_defined()
    return [size or 0 for size in static_shape.as_list()]


def _filled(shape: list[int], value: Any, dtype: DType, name: str) -> Any:
    array = to_constant(value, dtype)
    if math.prod(shape) < _SMALL:
        return _const(np.full(tuple(shape), array, array.dtype), name)
    graph = get_default_graph()
    with graph.name_scope(name) as scope:
        return create("Fill", _const(array, "Const"), shape=tuple(shape), name=scope)


def _const(array: Any, name: str) -> Any:
    return get_default_graph().create("Const", name=name, value=array).outputs[0]
