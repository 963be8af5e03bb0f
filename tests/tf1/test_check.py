"""What a program of TensorFlow 1.x would stop at, found before it runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kit.__main__ import main
from kit.tf1.check import Use, advice_on, uses_of
from tests.cases import for_each


def names(program: str) -> list[str]:
    return [use.name for use in uses_of(program)]


@for_each(
    ("program", "used"),
    [
        ("import tensorflow as tf\ntf.train.Saver().save(1)", ["", "train.Saver"]),
        ("import tensorflow\ntensorflow.nn.relu(1)", ["", "nn.relu"]),
        ("import tensorflow.compat.v1 as tf\ntf.add", ["", "add"]),
        ("import tensorflow as tf\ntf.compat.v1.add", ["", "add"]),
        ("from tensorflow.compat import v1 as tf\ntf.add", ["", "add"]),
        ("from kit import tf1 as tf\ntf.add", ["", "add"]),
        ("import tensorflow.bitwise as b\nb.a", ["bitwise", "bitwise.a"]),
        ("from tensorflow import flags as f\nf.FLAGS.x", ["flags", "flags.FLAGS.x"]),
        ("import tensorflow as t\nb = t.bitwise\nb.a", ["", "bitwise", "bitwise.a"]),
        ("from tensorflow import *", ["*"]),
        ("import tensorflow.train", ["train"]),
        ("import numpy as tf\ntf.add", []),
        ("from .tensorflow import x\nx.y", []),
        ("import tensorflow as tf\ndef f(tf): return tf.moon", [""]),
        ("import tensorflow as tf\nf = lambda tf: tf.moon", [""]),
        ("import tensorflow as tf\nx = a(tf.add).tf.b[tf.sub]", ["", "add", "sub"]),
        ("def f():\n import tensorflow as tf\n tf.add\ntf.moon", ["", "add"]),
        ("import tensorflow as tf\nclass A(tf.Graph): x: tf.abs", ["", "Graph", "abs"]),
    ],
)
def test_names_are_followed_through_imports_and_assignments(
    program: str, used: list[str]
) -> None:
    assert names(program) == used


@for_each(
    "name",
    [
        "",
        "train.Saver",
        "train.Saver.from_proto",
        "summary.FileWriter",
        "Summary.Value",
        "app.flags.FLAGS.anything",
        "float32.max",
        "examples.tutorials.mnist.input_data.read_data_sets",
    ],
)
def test_what_is_offered_needs_no_advice(name: str) -> None:
    assert advice_on(Use(1, name)) is None


@for_each(
    ("name", "advice"),
    [
        ("keras.layers.Dense", "Instead: "),
        ("contrib.moon.sun", "Instead: "),
        ("moon.sun", "has no 'moon'"),
        ("python.eager.context", "private module"),
        ("examples.tutorials.moon", "has no"),
        ("train.*", "cannot be followed"),
        ("train.Saver.moon", "has no attribute 'moon'"),
    ],
)
def test_what_is_lacking_has_advice(name: str, advice: str) -> None:
    assert advice in str(advice_on(Use(1, name)))


def test_each_place_is_listed_and_counted_and_the_exit_code_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.py").write_text(
        "import tensorflow as tf\nimport tensorflow_hub\ntf.keras.x\n\ntf.sun\ntf.sun\n"
        "raise SystemExit('it was run')\n"
    )
    (tmp_path / "b.py").write_text("print 'python 2'\n")
    (tmp_path / "good.py").write_text(
        "import tensorflow as tf\nF = tf.flags.FLAGS\ntf.add(F.x, F.y)\n"
    )

    code = main(["tf1-check", str(tmp_path)])

    lines = capsys.readouterr().out.replace(f"{tmp_path}/", "").splitlines()
    assert code == 1
    assert [line.split(": ")[0] for line in lines[:-1]] == [
        *("a.py:2", "a.py:3", "a.py:5", "a.py:6"),
        "b.py:1",
    ]
    assert lines[-1] == (
        "3 files: 6 names of TensorFlow used, 3 not offered, at 4 places; 1 file not "
        "read."
    )
    assert main(["tf1-check", str(tmp_path / "good.py")]) == 0
    assert "from kit import tf1 as tf" in capsys.readouterr().out


@for_each(
    ("name", "contents", "words"),
    [
        ("none.py", None, "cannot be read"),
        ("book.ipynb", "{}", "nbconvert"),
    ],
)
def test_file_that_is_no_program_ends_with_the_code_2(
    name: str,
    contents: str | None,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if contents is not None:
        (tmp_path / name).write_text(contents)

    assert main(["tf1-check", str(tmp_path / name)]) == 2
    assert words in capsys.readouterr().err


def test_a_program_is_read_in_the_encoding_that_it_names(tmp_path: Path) -> None:
    program = tmp_path / "latin.py"
    program.write_bytes(b"# coding: latin-1\nimport tensorflow as tf\nx = '\xe4'\n")

    assert main(["tf1-check", str(program)]) == 0


def test_tensorflow_itself_is_not_imported(tmp_path: Path) -> None:
    program = tmp_path / "a.py"
    program.write_text("import tensorflow as tf\nfrom tensorflow import keras\n")

    main(["tf1-check", str(program)])

    assert "tensorflow" not in sys.modules
