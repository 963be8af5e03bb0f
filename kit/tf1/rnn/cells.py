"""Cells of recurrent networks: from an input and a state to an output and the next.

A cell makes its variables when it is first called, `kernel` and `bias` in a scope of
its own, and uses them again at each later time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from kit.tf1.layers.layer import Layer, size_of_axis
from kit.tf1.ops import nn_layer
from kit.tf1.ops.arithmetic import cast, less, matmul, sigmoid, tanh
from kit.tf1.ops.clip import clip_by_value
from kit.tf1.ops.creation import zeros
from kit.tf1.ops.index import gather
from kit.tf1.ops.join import concat, split, stack
from kit.tf1.ops.random import random_uniform
from kit.tf1.tensor.convert import convert_to_tensor
from kit.tf1.tensor.shape import TensorShape
from kit.tf1.variables.initial_values import Constant, Zeros
from kit.tf1.variables.scopes import name_scope, variable_scope

# --------------------------------------------------------------------------------------
# Structures of tensors: states of cells, which may be tuples of tuples.


class LSTMStateTuple(NamedTuple):
    """The state of an LSTM cell: what it keeps, and its last output."""

    c: Any
    h: Any

    @property
    def dtype(self) -> Any:
        """The dtype of both."""
        return self.c.dtype


def like(structure: Any, parts: Any) -> Any:
    """Return parts in a tuple or list of the kind of `structure`."""
    if hasattr(structure, "_fields"):
        return type(structure)(*parts)
    return type(structure)(parts)


def mapped(function: Callable[..., Any], first: Any, *others: Any) -> Any:
    """Return a structure with the function's results for the tensors of structures."""
    if not isinstance(first, list | tuple):
        return function(first, *others)
    rows = zip(first, *others, strict=True)
    return like(first, [mapped(function, *row) for row in rows])


# --------------------------------------------------------------------------------------
# Random numbers of a cell that a loop runs, drawn before the loop for all times.
#
# The gradient of a loop runs it again, so what is random in it must be the same then.
# The first call of the cell, before the loop, tells how many numbers each time needs.


class LoopNoise:
    """What a cell draws, in the order of its calls."""

    def __init__(self, n_times: Any, batch_size: Any) -> None:
        self._n_times, self._batch_size = n_times, batch_size
        self._rows: list[Any] = []
        self._time: Any = None
        self._n_taken = 0

    @contextmanager
    def drawn(self, time: Any = None) -> Iterator[None]:
        """Give cells their numbers: new ones for all times, or those of one time."""
        self._time, self._n_taken = time, 0
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def like(self, value: Any, seed: int | None) -> Any:
        """Return numbers from 0 to 1, one for each element of a value."""
        if self._time is None:
            batch, *sizes = value.shape.as_list()
            batch = self._batch_size if batch is None else batch
            shape = stack([self._n_times, batch, *sizes])
            self._rows.append(random_uniform(shape, dtype=value.dtype, seed=seed))
            return self._rows[-1][0]
        rows = self._rows[self._n_taken]
        self._n_taken += 1
        return gather(rows, self._time)


_current: ContextVar[LoopNoise | None] = ContextVar("noise of a loop", default=None)


def noise_like(value: Any, seed: int | None) -> Any:
    """Return what was drawn for a value, None outside of a loop."""
    current = _current.get()
    return None if current is None else current.like(value, seed)


# --------------------------------------------------------------------------------------
# The cells.


class RNNCell(Layer):
    """Base class: `call(inputs, state)` returns the output and the next state."""

    @property
    def state_size(self) -> Any:
        """The size of the state, or a tuple of sizes."""
        raise NotImplementedError

    @property
    def output_size(self) -> Any:
        """The size of the output."""
        raise NotImplementedError

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        """Return the output and the next state."""
        return super().__call__(inputs, state, scope=scope)

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Return a state of zeros for so many examples."""
        with name_scope(f"{type(self).__name__}ZeroState"):
            return mapped(lambda n: _zeros(batch_size, n, dtype), self.state_size)


def _zeros(batch_size: Any, size: Any, dtype: Any) -> Any:
    sizes = size.as_list() if isinstance(size, TensorShape) else [int(size)]
    made = zeros([batch_size, *sizes], dtype)
    made.set_shape([made.shape.as_list()[0], *sizes])
    return made


class _Cell(RNNCell):
    """A cell whose state and output have `num_units` numbers."""

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, dtype=dtype, _reuse=reuse, **kwargs)
        self._num_units, self._activation = int(num_units), activation or tanh

    @property
    def state_size(self) -> Any:
        """The number of units."""
        return self._num_units

    @property
    def output_size(self) -> Any:
        """The number of units."""
        return self._num_units


def _product(kernel: Any, bias: Any, *parts: Any) -> Any:
    return nn_layer.bias_add(matmul(concat(list(parts), 1), kernel), bias)


class BasicRNNCell(_Cell):
    """activation([inputs, state] @ kernel + bias), the output and the next state."""

    def build(self, input_shape: Any) -> None:
        """Make kernel and bias."""
        n = size_of_axis(self, input_shape, -1) + self._num_units
        self._kernel = self.add_variable("kernel", [n, self._num_units])
        self._bias = self.add_variable("bias", [self._num_units], Zeros)

    def call(self, inputs: Any, state: Any) -> Any:
        """Return the output twice."""
        output = self._activation(_product(self._kernel, self._bias, inputs, state))
        return output, output


class GRUCell(_Cell):
    """A gated recurrent unit: gates r and u, and a candidate for the next state.

    r, u = sigmoid([inputs, state] @ gates); c = activation([inputs, r * state] @
    candidate); the output and next state is u * state + (1 - u) * c.
    """

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype, **kwargs)
        self._of_kernel, self._of_bias = kernel_initializer, bias_initializer

    def build(self, input_shape: Any) -> None:
        """Make a kernel and a bias for the gates, and for the candidate."""
        n_units = self._num_units
        n = size_of_axis(self, input_shape, -1) + n_units
        made = []
        for part, width, start in (
            ("gates", 2 * n_units, Constant(1.0)),
            ("candidate", n_units, Zeros()),
        ):
            made += [
                self.add_variable(f"{part}/kernel", [n, width], self._of_kernel),
                self.add_variable(f"{part}/bias", [width], self._of_bias or start),
            ]
        self._gates, self._candidate = made[:2], made[2:]

    def call(self, inputs: Any, state: Any) -> Any:
        """Return the next state twice."""
        r, u = split(sigmoid(_product(*self._gates, inputs, state)), 2, axis=1)
        candidate = self._activation(_product(*self._candidate, inputs, r * state))
        new = u * state + (1 - u) * candidate
        return new, new


class LSTMCell(_Cell):
    """Long short-term memory; may have peepholes, clipping and a projection.

    i, j, f, o = [inputs, h] @ kernel + bias, and c = sigmoid(f + forget_bias) * c +
    sigmoid(i) * activation(j); the output is h = sigmoid(o) * activation(c).
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int | None = None,
        num_proj_shards: int | None = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype, **kwargs)
        self._has_peepholes, self._initializer = use_peepholes, initializer
        self._num_proj, self._clips = num_proj, (cell_clip, proj_clip)
        self._forget_bias, self._is_tuple = forget_bias, state_is_tuple

    @property
    def state_size(self) -> Any:
        """The sizes of c and h: a tuple of the two, or their sum."""
        sizes = LSTMStateTuple(self._num_units, self.output_size)
        return sizes if self._is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        """The size of the projection, or the number of units."""
        return self._num_proj or self._num_units

    def build(self, input_shape: Any) -> None:
        """Make kernel and bias, and those of peepholes and projection."""
        n, n_units = size_of_axis(self, input_shape, -1), self._num_units
        start = self._initializer
        self._kernel = self.add_variable(
            "kernel", [n + self.output_size, 4 * n_units], start
        )
        self._bias = self.add_variable("bias", [4 * n_units], Zeros)
        self._peepholes: dict[str, Any] = {}
        for gate in "fio" if self._has_peepholes else "":
            name = f"w_{gate}_diag"
            self._peepholes[gate] = self.add_variable(name, [n_units], start)
        if self._num_proj is not None:
            self._projection = self.add_variable(
                "projection/kernel", [n_units, self._num_proj], start
            )

    def call(self, inputs: Any, state: Any) -> Any:
        """Return h, and the next state."""
        sizes = [self._num_units, self.output_size]
        c, h = state if self._is_tuple else split(state, sizes, axis=1)
        i, j, f, o = split(_product(self._kernel, self._bias, inputs, h), 4, axis=1)
        of_cell, of_projection = self._clips
        kept = sigmoid(self._seeing("f", f + self._forget_bias, c)) * c
        c = kept + sigmoid(self._seeing("i", i, c)) * self._activation(j)
        if of_cell is not None:
            c = clip_by_value(c, -of_cell, of_cell)
        h = sigmoid(self._seeing("o", o, c)) * self._activation(c)
        if self._num_proj is not None:
            h = matmul(h, self._projection)
            if of_projection is not None:
                h = clip_by_value(h, -of_projection, of_projection)
        return h, LSTMStateTuple(c, h) if self._is_tuple else concat([c, h], 1)

    def _seeing(self, gate: str, value: Any, c: Any) -> Any:
        weights = self._peepholes.get(gate)
        return value if weights is None else value + weights * c


class BasicLSTMCell(LSTMCell):
    """Long short-term memory without options; see `LSTMCell`."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_units,
            forget_bias=forget_bias,
            state_is_tuple=state_is_tuple,
            activation=activation,
            reuse=reuse,
            name=name,
            dtype=dtype,
            **kwargs,
        )


class MultiRNNCell(RNNCell):
    """Cells of which each takes the output of the one before.

    Raises `TypeError` for anything but a list, `ValueError` for none.
    """

    def __init__(self, cells: Any, state_is_tuple: bool = True) -> None:
        super().__init__()
        if not isinstance(cells, list | tuple):
            raise TypeError(f"cells must be a list or tuple, but saw: {cells}.")
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell.")
        self._cells, self._is_tuple = list(cells), state_is_tuple

    @property
    def state_size(self) -> Any:
        """The sizes of the states of the cells: a tuple, or their sum."""
        sizes = tuple(cell.state_size for cell in self._cells)
        return sizes if self._is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        """The size of the last output."""
        return self._cells[-1].output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Return the states of the cells."""
        if not self._is_tuple:
            return super().zero_state(batch_size, dtype)
        return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)

    def call(self, inputs: Any, state: Any) -> Any:
        """Return the last output, and the next states."""
        sizes = [cell.state_size for cell in self._cells]
        states = state if self._is_tuple else split(state, sizes, axis=1)
        new = []
        for i, (cell, own) in enumerate(zip(self._cells, states, strict=True)):
            with variable_scope(f"cell_{i}"):
                inputs, own = cell(inputs, own)
            new.append(own)
        return inputs, tuple(new) if self._is_tuple else concat(new, 1)


class DropoutWrapper(RNNCell):
    """A cell with dropout of its inputs, outputs and states."""

    def __init__(
        self,
        cell: Any,
        input_keep_prob: Any = 1.0,
        output_keep_prob: Any = 1.0,
        state_keep_prob: Any = 1.0,
        variational_recurrent: bool = False,
        input_size: Any = None,
        dtype: Any = None,
        seed: int | None = None,
        dropout_state_filter_visitor: Any = None,
    ) -> None:
        super().__init__()
        if variational_recurrent or dropout_state_filter_visitor is not None:
            raise ValueError(
                "DropoutWrapper takes no variational_recurrent and no "
                "dropout_state_filter_visitor here; leave them out."
            )
        self.wrapped_cell, self._seed = cell, seed
        self._kept = (input_keep_prob, output_keep_prob, state_keep_prob)

    @property
    def state_size(self) -> Any:
        """That of the cell."""
        return self.wrapped_cell.state_size

    @property
    def output_size(self) -> Any:
        """That of the cell."""
        return self.wrapped_cell.output_size

    @property
    def variables(self) -> list[Any]:
        """Those of the cell."""
        inner: list[Any] = self.wrapped_cell.variables
        return inner

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Return that of the cell."""
        return self.wrapped_cell.zero_state(batch_size, dtype)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        """Return the output and the next state, with what was dropped."""
        of_input, of_output, of_state = self._kept
        inputs = self._dropped(convert_to_tensor(inputs), of_input)
        output, new = self.wrapped_cell(inputs, state, scope)
        # The memory c of an LSTM is kept whole, as in the original.
        new = self._state(new, of_state)
        return self._dropped(output, of_output), new

    def _state(self, state: Any, kept: Any) -> Any:
        if isinstance(state, LSTMStateTuple):
            return LSTMStateTuple(state.c, self._dropped(state.h, kept))
        if isinstance(state, list | tuple):
            return type(state)(self._state(part, kept) for part in state)
        return self._dropped(state, kept)

    def _dropped(self, value: Any, kept: Any) -> Any:
        if isinstance(kept, int | float) and kept == 1.0:
            return value
        noise = noise_like(value, self._seed)
        if noise is None:
            return nn_layer.dropout(value, keep_prob=kept, seed=self._seed)
        is_kept = cast(less(noise, cast(kept, noise.dtype)), value.dtype)
        return value / cast(kept, value.dtype) * is_kept


def check_cell(cell: Any) -> None:
    """Raise `TypeError` for what is not a cell."""
    names = ("output_size", "state_size", "zero_state")
    missing = [name for name in names if not hasattr(cell, name)]
    if missing or not callable(cell):
        raise TypeError(
            f"The argument 'cell' ({cell!r}) is not an RNNCell: it has no "
            f"{', '.join(missing) or '__call__'}; give a cell such as "
            f"tf.nn.rnn_cell.BasicLSTMCell(128)."
        )
