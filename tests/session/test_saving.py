"""Variables in a file: it is whole or not there, and a wrong one changes nothing."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kit import tf1 as tf
from kit.checkpoint.bundle import TensorBundle, write_bundle
from kit.checkpoint.files import Files
from kit.errors import (
    CheckpointFailed,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
)
from kit.graph.graph import Graph
from kit.graph.ops.state.source import constant
from kit.graph.variable import Variable, initialize_all
from kit.session.client import saving
from kit.session.client.saving import restore_variables, save_variables
from kit.session.client.session import Session
from tests.session.scene import PS, W1, at, variable


def test_variables_come_back_on_their_tasks_and_texts_too(
    target: Any, tmp_path: Path
) -> None:
    v, scalar = variable(PS, "layer/v", [[1, 2]]), variable(W1, "file", 3)
    with at(W1):
        text = Variable(["a", "größe"], name="text")
    with Session(target) as session:
        session.run(initialize_all())
        path = save_variables(session, tmp_path / "model")
        session.run([v.assign([[0, 0]]), scalar.assign(np.float32(0))])
        session.run(text.assign(["", ""]))

        restore_variables(session, path)

        assert path == tmp_path / "model"
        assert session.run(v).tolist() == [[1, 2]]
        assert session.run(scalar) == 3.0
        assert session.run(text).tolist() == [b"a", "größe".encode()]
    assert sorted(TensorBundle(str(path)).tensors()) == ["file", "layer/v", "text"]


def test_a_graph_that_was_never_initialised_can_be_restored(tmp_path: Path) -> None:
    v = variable("", "v", [1, 2])
    with Session() as session:
        session.run(v.initializer)
        path = save_variables(session, tmp_path / "model")
    v.graph.finalize()

    with Session(graph=v.graph) as session:
        restore_variables(session, path)
        assert session.run(v).tolist() == [1, 2]


def test_variables_that_begin_with_one_tensor_keep_their_own_values(
    tmp_path: Path,
) -> None:
    start = constant(np.zeros(2, np.float32))
    v, w = Variable(start, name="v"), Variable(start, name="w")
    with Session() as session:
        session.run(initialize_all())
        session.run([v.assign([1, 2]), w.assign([3, 4])])
        path = save_variables(session, tmp_path / "model")
        session.run(initialize_all())
        restore_variables(session, path)
        assert session.run([v, w])[0].tolist() == [1, 2]
        assert session.run(w).tolist() == [3, 4]


def test_some_variables_may_be_chosen(tmp_path: Path) -> None:
    v, w = variable("", "v", 1), variable("", "w", 2)
    with Session() as session:
        session.run(initialize_all())
        path = save_variables(session, tmp_path / "model", [v])
        session.run([v.assign(np.float32(7)), w.assign(np.float32(8))])
        restore_variables(session, path, [v])
        assert session.run([v, w]) == [1.0, 8.0]
        with pytest.raises(NotFoundError, match="'w'"):
            restore_variables(session, path)


def test_a_file_that_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    with Session() as session:
        v, w = variable("", "v", [1, 2]), variable("", "w", 3)
        session.run(initialize_all())
        path = save_variables(session, tmp_path / "model")
    with Graph().as_default(), Session() as session:
        v, w = variable("", "v", 9), variable("", "w", 9)
        session.run(initialize_all())
        with pytest.raises(InvalidArgumentError, match=r"\[2\]"):
            restore_variables(session, path)
        assert session.run([v, w]) == [9.0, 9.0]


def cut(path: Path, keep: int) -> None:
    path.write_bytes(path.read_bytes()[:keep])


def spoil_the_last_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


DATA = ".data-00000-of-00001"


@pytest.mark.parametrize(
    ("ending", "damage"),
    [
        *(
            (end, partial(cut, keep=n))
            for end in (".index", DATA)
            for n in (0, 10, 200)
        ),
        (DATA, spoil_the_last_byte),
    ],
)
def test_a_damaged_file_is_refused_and_changes_nothing(
    tmp_path: Path, ending: str, damage: Any
) -> None:
    v = variable("", "v", np.arange(100))
    with Session() as session:
        session.run(v.initializer)
        prefix = save_variables(session, tmp_path / "model")
        damage(tmp_path / f"model{ending}")
        session.run(v.assign(np.zeros(100)))
        with pytest.raises(CheckpointFailed, match="model"):
            restore_variables(session, prefix)
        assert not session.run(v).any()


class DyingFiles(Files):
    """Refuses one rename, as a power cut before it would."""

    def __init__(self, number: int) -> None:
        self._left = number

    def rename(self, source: Path, target: Path) -> None:
        self._left -= 1
        if self._left < 0:
            raise OSError(5, "the disk is gone")
        super().rename(source, target)


@pytest.mark.parametrize("number", [0, 1])
def test_a_save_that_is_interrupted_leaves_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    v = variable("", "v", [1, 2])
    with Session() as session:
        session.run(v.initializer)
        path = save_variables(session, tmp_path / "model")
        session.run(v.assign([3, 4]))
        with monkeypatch.context() as patch:
            files = DyingFiles(number)
            patch.setattr(saving, "write_bundle", partial(write_bundle, files=files))
            with pytest.raises(CheckpointFailed):
                save_variables(session, path)
        restore_variables(session, path)
        assert session.run(v).tolist() == [1, 2]


def test_saves_to_one_path_replace_each_other(tmp_path: Path) -> None:
    v = variable("", "v", [0, 0])
    with Session() as session:
        session.run(v.initializer)
        for n in range(3):
            session.run(v.assign([n, n]))
            path = save_variables(session, tmp_path / "model")
        session.run(v.assign([9, 9]))
        restore_variables(session, path)
        assert session.run(v).tolist() == [2, 2]
    assert len(list(tmp_path.iterdir())) == 2


def test_what_is_no_checkpoint_or_not_there_is_refused(tmp_path: Path) -> None:
    v = variable("", "v", 1)
    np.savez(tmp_path / "bad.npz", v=np.array([{}], object))
    with Session(graph=v.graph) as session:
        with pytest.raises(CheckpointFailed, match="no checkpoint"):
            restore_variables(session, tmp_path / "bad.npz")
        with pytest.raises(NotFoundError):
            restore_variables(session, tmp_path / "moon")


def test_a_variable_without_value_leaves_no_file(tmp_path: Path) -> None:
    variable("", "v", 1)
    with Session() as session, pytest.raises(FailedPreconditionError):
        save_variables(session, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_graph_without_variables_is_refused(tmp_path: Path) -> None:
    constant(1)
    with Session() as session, pytest.raises(InvalidArgumentError, match="no var"):
        save_variables(session, tmp_path / "model")


def test_a_saver_reads_what_the_client_wrote_and_the_other_way_round(
    tmp_path: Path,
) -> None:
    prefix = str(tmp_path / "model")
    with tf.Graph().as_default() as graph, tf.Session() as session:
        v = tf.Variable([1.0, 2.0], name="v")
        session.run(v.initializer)
        tf.train.Saver().save(session, f"{prefix}-1", write_meta_graph=False)
    with Graph().as_default():
        native = Variable(np.zeros(2, np.float32), name="v")
    with Session(graph=native.graph) as session:
        restore_variables(session, f"{prefix}-1", [native])
        assert session.run(native).tolist() == [1, 2]
        session.run(native.assign([3, 4]))
        save_variables(session, f"{prefix}-2", [native])
    with tf.Session(graph=graph) as session:
        tf.train.Saver([v]).restore(session, f"{prefix}-2")
        assert session.run(v).tolist() == [3, 4]
