"""Names of the original that are not offered, and what to use instead.

Looking up such a name raises an `AttributeError` that says so; for a name that
the original does not have either, it is a plain one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from kit.errors import UnimplementedError


class OutsideScopeError(UnimplementedError, AttributeError):
    """A name of the original that `kit.tf1` does not offer.

    Raised when the name is looked up, so `hasattr` is false for it. The caller takes
    what the message names in its place. A retry fails again.
    """


_TRAIN = "kit.train(...) runs the steps, with hooks, checkpoints and recovery"
_KERAS = "tf.layers has layers; write others with tf.get_variable and tf.matmul"
_INPUT = (
    "tf.data.Dataset of arrays or of a generator, or feeds; kit.train(...) has more"
)
_DATA = "tf.data.Dataset.from_generator takes what any Python code reads or joins"
_BOARD = "widgets.TrafficBoard shows a run, run.trace saves it"

_OTHERWISE = "compute it with the operations offered here, or in a tf.py_func"

# By the path of a name; a name that ends in a dot stands for all below it.
_INSTEAD: dict[str, str] = {
    **dict.fromkeys(
        [
            "train.Checkpoint",
            "estimator.",
            "distribute.",
        ],
        _TRAIN,
    ),
    **dict.fromkeys(["keras.", "layers.", "contrib.layers.", "contrib.slim."], _KERAS),
    **dict.fromkeys(["contrib.rnn.", "contrib.seq2seq.", "nn.rnn_cell."], _KERAS),
    **dict.fromkeys(
        [
            "io.",
            "python_io.",
            "image.",
        ],
        _INPUT,
    ),
    **dict.fromkeys(["profiler.", "python_debug."], _BOARD),
    **dict.fromkeys(
        ["map_fn", "scan", "foldl", "foldr"],
        "write the loop in Python around session.run, or in a tf.py_func",
    ),
    **dict.fromkeys(
        ["function.", "Defun", "py_function", "numpy_function"],
        "kit.py_function puts a Python function into a graph of kit",
    ),
    **dict.fromkeys(
        ["saved_model.", "graph_util.", "lite."],
        "tf.train.Saver, tf.train.import_meta_graph and tf.import_graph_def",
    ),
    "contrib.session_bundle.": "tf.saved_model.simple_save(session, folder, inputs, "
    "outputs), or tf.train.Saver().save(session, path)",
    "data.": _DATA,
    "enable_eager_execution": "numpy computes at once; a graph runs in a session",
    "GradientTape": "tf.gradients",
    "contrib.": "of contrib: framework, layers, learn, losses, metrics, opt, rnn, slim",
    "compat.": "this module itself has the names of version 1; compat has texts",
    "debugging.": "the errors of tf.errors name the operation and its line",
    "linalg.": "tf.matmul and numpy's functions on tensors of kit",
    "losses.": "tf.reduce_mean of each example's loss, given to tf.losses.add_loss",
    "metrics.": "fetch the values, and count in Python",
    **dict.fromkeys(["random.experimental.", "queue."], _OTHERWISE),
    **dict.fromkeys(["distributions.", "signal.", "spectral.", "sets."], _OTHERWISE),
    **dict.fromkeys(["bitwise.", "manip.", "ragged.", "raw_ops."], _OTHERWISE),
    **dict.fromkeys(["audio.", "quantization.", "user_ops."], _OTHERWISE),
    **dict.fromkeys(["feature_column.", "lookup.", "nest."], _INPUT),
    **dict.fromkeys(["autograph.", "xla.", "experimental."], _OTHERWISE),
    **dict.fromkeys(["train.experimental.", "config.experimental."], _TRAIN),
    "sparse.": "tf.IndexedSlices, tf.gather and tf.scatter_add",
    "strings.": "strings can be constants, fed, compared, and joined with +",
    "test.": "pytest",
    "tpu.": "the devices are CPU and GPU",
}


def refusing(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module that has all it offers; see `refuse`."""
    return lambda name: refuse(module, name)


def refuse(module: str, name: str) -> NoReturn:
    """Raise for a name that a module of `kit.tf1` does not have.

    `module` is '' for `tf` itself, 'train' for `tf.train`. `OutsideScopeError` if the
    original has it, else `AttributeError`.
    """
    path = f"{module}.{name}" if module else name
    instead = _advice(path)
    if instead is None:
        raise AttributeError(
            f"module 'tf{'.' * bool(module)}{module}' has no {name!r}."
        )
    raise OutsideScopeError(
        f"tf.{path} is outside the scope of kit.tf1, which offers the distributed "
        f"runtime of TensorFlow 1.x: graphs, sessions, servers, variables, placement "
        f"and optimizers. Instead: {instead}."
    )


def _advice(path: str) -> str | None:
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        key = ".".join(parts[:length])
        if length == len(parts) and key in _INSTEAD:
            return _INSTEAD[key]
        if f"{key}." in _INSTEAD:
            return _INSTEAD[f"{key}."]
    module, _, name = path.rpartition(".")
    return _OTHERWISE if name in names_of(module) else None


@cache
def names_of(module: str) -> frozenset[str]:
    """Return the names that a module of TensorFlow 1.15.5 has, if it is listed.

    >>> "matmul" in names_of(""), names_of("moon")
    (True, frozenset())
    """
    text = Path(__file__).with_name("names_of_1_15.txt").read_text()
    parts = (part.partition("]") for part in text.split("[")[1:])
    return frozenset(
        next((names.split() for name, _, names in parts if name == module), ())
    )
