"""From a cell to a network: one copy of the cell's operations for each time.

Where the number of times is known only in a run, there is one copy, in a loop. After
the end of a shorter sequence the outputs are zeros, and the state stays as it was.
"""

from __future__ import annotations

from typing import Any

from kit.tf1.ops.arithmetic import cast, less
from kit.tf1.ops.creation import constant, zeros, zeros_like
from kit.tf1.ops.creation import range as range_of
from kit.tf1.ops.index import gather, gather_nd, where
from kit.tf1.ops.join import concat, stack, unstack
from kit.tf1.ops.loop import while_loop
from kit.tf1.ops.shape import expand_dims, reverse, transpose
from kit.tf1.ops.shape import shape as shape_of
from kit.tf1.rnn.cells import LoopNoise, check_cell, mapped
from kit.tf1.tensor.convert import convert_to_tensor, create
from kit.tf1.tensor.dtypes import int32
from kit.tf1.tensor.shape import TensorShape
from kit.tf1.variables.scopes import get_variable_scope, variable_scope


def static_rnn(
    cell: Any,
    inputs: Any,
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """Return the outputs for a list of inputs, one for each time, and the last state.

    Raises `TypeError` for inputs that are no list, `ValueError` for an empty one and
    where neither `initial_state` nor `dtype` is given.
    """
    check_cell(cell)
    if not isinstance(inputs, list | tuple):
        raise TypeError(
            f"inputs must be a sequence, one tensor for each time, not {inputs!r}; "
            f"tf.unstack(inputs, axis=1) makes it of a batch."
        )
    if not inputs:
        raise ValueError("inputs must not be empty")
    with variable_scope(scope or "rnn"):
        steps = [convert_to_tensor(step) for step in inputs]
        return _unrolled(cell, steps, initial_state, dtype, sequence_length)


def dynamic_rnn(
    cell: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[Any, Any]:
    """Return the outputs for a batch [example, time, ...], and the last state.

    With `time_major` inputs and outputs are [time, example, ...]. If the number of
    times is unknown, a cell of yours that draws random numbers has no gradient; that of
    a `DropoutWrapper` has. Raises `ValueError` where neither `initial_state` nor
    `dtype` is given.
    """
    check_cell(cell)
    with variable_scope(scope or "rnn"):
        tensor = convert_to_tensor(inputs)
        axis = 0 if time_major else 1
        if tensor.shape.ndims is not None and tensor.shape.as_list()[axis:][:1] == [
            None
        ]:
            return _looped(cell, tensor, axis, initial_state, dtype, sequence_length)
        steps = _times(tensor, time_major)
        outputs, state = _unrolled(cell, steps, initial_state, dtype, sequence_length)
        return stack(outputs, axis=0 if time_major else 1), state


def static_bidirectional_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Any,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any, Any]:
    """Return outputs of both directions, joined, and the last state of either."""
    with variable_scope(scope or "bidirectional_rnn"):
        ahead, state_fw = static_rnn(
            cell_fw, inputs, initial_state_fw, dtype, sequence_length, scope="fw"
        )
        turned = _turned(list(inputs), sequence_length)
        back, state_bw = static_rnn(
            cell_bw, turned, initial_state_bw, dtype, sequence_length, scope="bw"
        )
        back = _turned(back, sequence_length)
        joined = [concat(pair, 1) for pair in zip(ahead, back, strict=True)]
        return joined, state_fw, state_bw


def bidirectional_dynamic_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return the outputs of both directions, and their last states."""
    how: dict[str, Any] = {"dtype": dtype, "time_major": time_major}

    def turned(rows: Any) -> Any:
        if time_major:
            return _turned_rows(rows, sequence_length)
        return _swapped(_turned_rows(_swapped(rows), sequence_length))

    with variable_scope(scope or "bidirectional_rnn"):
        ahead, state_fw = dynamic_rnn(
            cell_fw, inputs, sequence_length, initial_state_fw, scope="fw", **how
        )
        back, state_bw = dynamic_rnn(
            cell_bw,
            turned(convert_to_tensor(inputs)),
            sequence_length,
            initial_state_bw,
            scope="bw",
            **how,
        )
        return (ahead, turned(back)), (state_fw, state_bw)


def _times(inputs: Any, time_major: bool) -> list[Any]:
    axis = 0 if time_major else 1
    if inputs.shape.ndims is None or inputs.shape.ndims < 3:
        raise ValueError(
            f"inputs are [example, time, ...], of at least 3 axes, not {inputs!r}."
        )
    if inputs.shape.as_list()[axis] is None:
        raise ValueError(
            f"the number of times, axis {axis} of {inputs!r}, must be known when the "
            f"network is unrolled; give it in tf.placeholder or inputs.set_shape, and "
            f"the lengths of shorter sequences in sequence_length."
        )
    steps: list[Any] = unstack(inputs, axis=axis)
    return steps


def _unrolled(
    cell: Any, steps: list[Any], state: Any, dtype: Any, sequence_length: Any
) -> tuple[list[Any], Any]:
    state, lengths = _beginning(
        cell, steps[0], shape_of(steps[0])[0], state, dtype, sequence_length
    )
    outputs = []
    scope = get_variable_scope()
    for time, inputs in enumerate(steps):
        if time:
            # A cell of the user's own may ask for its variables at each time.
            scope.reuse_variables()
        output, new = cell(inputs, state)
        if lengths is not None:
            output, new = _before_the_end(time, lengths, output, new, state)
        outputs.append(output)
        state = new
    return outputs, state


def _beginning(
    cell: Any,
    first: Any,
    batch_size: Any,
    state: Any,
    dtype: Any,
    sequence_length: Any,
) -> tuple[Any, Any]:
    """Return the state before the first time, and the lengths if there are any."""
    if state is None:
        if dtype is None:
            raise ValueError("If there is no initial_state, you must give a dtype.")
        n_rows = first.shape.as_list()[0]
        state = cell.zero_state(batch_size if n_rows is None else n_rows, dtype)
    if sequence_length is None:
        return state, None
    return state, cast(convert_to_tensor(sequence_length), int32)


def _looped(
    cell: Any, inputs: Any, axis: int, state: Any, dtype: Any, sequence_length: Any
) -> tuple[Any, Any]:
    """Return outputs and last state where the number of times is known in a run."""
    steps = _swapped(inputs) if axis else inputs
    n_times, batch_size = shape_of(steps)[0], shape_of(steps)[1]
    state, lengths = _beginning(
        cell, steps[0], batch_size, state, dtype, sequence_length
    )
    state = mapped(convert_to_tensor, state)
    # This call makes the variables, outside of the loop, and shows the shapes.
    noise = LoopNoise(n_times, batch_size)
    with noise.drawn():
        output, new = cell(steps[0], state)
    get_variable_scope().reuse_variables()
    sizes = output.shape.as_list()
    empty = zeros(stack([n_times, batch_size, *sizes[1:]]), output.dtype)
    empty.set_shape([None, *sizes])

    def step(time: Any, outputs: Any, old: Any) -> list[Any]:
        with noise.drawn(time):
            output, new = cell(gather(steps, time), old)
        if lengths is not None:
            output, new = _before_the_end(time, lengths, output, new, old)
        return [time + 1, create("WithRow", outputs, output, time, name=None), new]

    _, outputs, last = while_loop(
        lambda time, *_: less(time, n_times),
        step,
        [constant(0), empty, state],
        shape_invariants=[TensorShape([]), empty.shape, mapped(_common, state, new)],
    )
    return _swapped(outputs) if axis else outputs, last


def _common(first: Any, second: Any) -> TensorShape:
    pairs = zip(first.shape.as_list(), second.shape.as_list(), strict=True)
    return TensorShape([size if size == other else None for size, other in pairs])


def _before_the_end(
    time: int, lengths: Any, output: Any, new: Any, old: Any
) -> tuple[Any, Any]:
    is_inside = less(time, lengths)
    output = mapped(lambda x: where(is_inside, x, zeros_like(x)), output)
    return output, mapped(lambda a, b: where(is_inside, a, b), new, old)


def _turned(steps: list[Any], sequence_length: Any) -> list[Any]:
    """Return the steps of each sequence in reverse; what is beyond its end stays."""
    if sequence_length is None:
        return steps[::-1]
    turned: list[Any] = unstack(_turned_rows(stack(steps), sequence_length))
    return turned


def _turned_rows(whole: Any, sequence_length: Any) -> Any:
    """Return [time, example, ...] with each sequence in reverse; see `_turned`."""
    if sequence_length is None:
        return reverse(whole, [0])
    lengths = cast(convert_to_tensor(sequence_length), int32)
    times = expand_dims(range_of(shape_of(whole)[0]), 1)
    from_end = lengths - 1 - times
    source = where(from_end >= 0, from_end, times + zeros_like(from_end))
    example = range_of(shape_of(lengths)[0]) + zeros_like(source)
    turned = gather_nd(whole, stack([source, example], axis=2))
    turned.set_shape(whole.shape)
    return turned


def _swapped(whole: Any) -> Any:
    """Return a tensor with its first two axes changed over."""
    return transpose(whole, [1, 0, *range(2, whole.shape.ndims)])
