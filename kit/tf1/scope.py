"""What of the original is not offered, and what to use in its place.

Pure. Asking for such a name is an `AttributeError` that says so; a name that the
original does not have either is a plain one.
"""

from __future__ import annotations

from typing import NoReturn

from kit.errors import UnimplementedError
from kit.tf1.scope_names import OUTSIDE


class OutsideScopeError(UnimplementedError, AttributeError):
    """A name of the original that `kit.tf1` does not offer."""


_TRAIN = "kit.train(...) runs the steps, with hooks, checkpoints and recovery"
_KERAS = "write layers as functions of tf.get_variable and tf.matmul"
_INPUT = "feed arrays, or give data to kit.train(...), which splits it over the workers"
_BOARD = "widgets.TrafficBoard shows a run, run.trace saves it"

_OTHERWISE = "compute it with the operations that are there, or in a tf.py_func"

# By the path of a name; a name that ends in a dot stands for all below it.
_INSTEAD: dict[str, str] = {
    **dict.fromkeys(
        [
            "train.Supervisor",
            "train.Checkpoint",
            *("train.import_meta_graph", "train.export_meta_graph"),
            *("estimator.", "distribute.", "train.basic_train_loop"),
        ],
        _TRAIN,
    ),
    **dict.fromkeys(["keras.", "layers.", "contrib.layers.", "contrib.slim."], _KERAS),
    **dict.fromkeys(["contrib.rnn.", "contrib.seq2seq.", "nn.rnn_cell."], _KERAS),
    **dict.fromkeys(
        [
            *("data.", "io.", "python_io.", "image.", "gfile.", "parse_example"),
            *("parse_single_example", "decode_csv", "decode_raw", "read_file"),
            *("train.batch", "train.shuffle_batch", "train.string_input_producer"),
            *("train.slice_input_producer", "train.Example", "train.Feature"),
            *("TextLineReader", "TFRecordReader", "WholeFileReader"),
        ],
        _INPUT,
    ),
    **dict.fromkeys(["summary.", "profiler.", "python_debug.", "Print"], _BOARD),
    **dict.fromkeys(
        ["while_loop", "map_fn", "scan", "foldl", "foldr", "cond", "case"],
        "write the loop in Python around session.run, or use tf.where",
    ),
    **dict.fromkeys(
        ["function.", "Defun", "py_function", "numpy_function"],
        "kit.py_function puts a Python function into a graph of kit",
    ),
    **dict.fromkeys(
        ["import_graph_def", "MetaGraphDef", "saved_model.", "graph_util.", "lite."],
        "build the graph by the program that knows it; graphs are not read from files",
    ),
    "enable_eager_execution": "numpy computes at once; a graph runs in a session",
    "GradientTape": "tf.gradients",
    "contrib.": "the parts of contrib that are offered are in framework and training",
    "compat.": "the names of the original's version 1 are those of this module itself",
    "debugging.": "tf.errors tell the operation and its line",
    "linalg.": "tf.matmul and numpy's functions on tensors of kit",
    "losses.": "tf.reduce_mean of what tf.nn computes for each example",
    "metrics.": "fetch what is counted, and count in Python",
    **dict.fromkeys(["random.experimental.", "queue."], _OTHERWISE),
    **dict.fromkeys(["distributions.", "signal.", "spectral.", "sets."], _OTHERWISE),
    **dict.fromkeys(["bitwise.", "manip.", "ragged.", "raw_ops."], _OTHERWISE),
    **dict.fromkeys(["audio.", "quantization.", "user_ops."], _OTHERWISE),
    **dict.fromkeys(["feature_column.", "lookup.", "nest."], _INPUT),
    **dict.fromkeys(["autograph.", "xla.", "experimental."], _OTHERWISE),
    **dict.fromkeys(["train.experimental.", "config.experimental."], _TRAIN),
    "sparse.": "tf.IndexedSlices, tf.gather and tf.scatter_add",
    "strings.": "texts can be constants, be fed, compared and joined by +",
    "test.": "pytest",
    "tpu.": "there are devices CPU and GPU",
}


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
    return _OTHERWISE if path in OUTSIDE else None
