"""Files under the original's names: what is read, written and refused."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit import tf1 as tf
from kit.tf1.gfile import FileStatistics
from tests.cases import for_each

LINES = "first\r\nzweite Größe\nlast"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_bytes(LINES.encode())
    (tmp_path / ".hidden").write_bytes(b"")
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "sub" / "b.txt").write_bytes(b"b")
    return tmp_path


def test_text_is_read_as_utf_8_with_its_line_ends(folder: Path) -> None:
    with tf.gfile.GFile(str(folder / "a.txt")) as file:
        assert file.read() == LINES
        file.seek(0)
        assert file.readline() == "first\r\n"
        assert list(file) == ["zweite Größe\n", "last"]
        assert (file.tell(), file.size()) == (len(LINES.encode()),) * 2


def test_bytes_are_read_in_parts(folder: Path) -> None:
    with tf.gfile.FastGFile(folder / "a.txt", "rb") as file:
        assert [file.read(5), file.read(2), file.next()] == [
            *(b"first", b"\r\n", "zweite Größe\n".encode())
        ]
        assert file.readlines() == [b"last"]


def test_what_is_written_is_there_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "new.txt"
    with tf.gfile.Open(path, "w") as file:
        file.write("Größe")
        file.flush()
    with tf.gfile.Open(path, "ab") as file:
        file.write(b"!")

    assert path.read_text("utf-8") == "Größe!"


def test_other_readers_take_it_for_a_file(tmp_path: Path) -> None:
    (tmp_path / "zip").write_bytes(gzip.compress(b'{"a": 1}'))
    (tmp_path / "json").write_text('{"a": 1}')

    with tf.gfile.Open(tmp_path / "zip", "rb") as file:
        assert json.load(gzip.GzipFile(fileobj=file)) == {"a": 1}
    with tf.gfile.Open(tmp_path / "json") as file:
        assert json.load(file) == {"a": 1}


def test_file_is_opened_when_it_is_read_and_not_before(tmp_path: Path) -> None:
    file = tf.gfile.GFile(tmp_path / "none")

    with pytest.raises(tf.errors.NotFoundError, match="none; No such file"):
        file.read()


@for_each(("mode", "call"), [("r", "write"), ("w", "read"), ("wb", "readline")])
def test_file_is_not_open_for_the_other_direction(mode: str, call: str) -> None:
    file = tf.gfile.GFile("/nowhere", mode)

    with pytest.raises(tf.errors.PermissionDeniedError, match="isn't open for"):
        getattr(file, call)(*["text"] * (call == "write"))


def test_mode_that_cannot_be_is_refused() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="'x'"):
        tf.gfile.GFile("file", "x")


def test_folders_are_made_listed_and_removed(folder: Path) -> None:
    gfile = tf.gfile
    gfile.MakeDirs(folder / "one" / "two")
    gfile.MakeDirs(folder / "one" / "two")

    assert gfile.IsDirectory(folder / "one")
    assert not gfile.IsDirectory(folder / "a.txt")
    assert gfile.ListDirectory(str(folder)) == [".hidden", "a.txt", "one", "sub"]
    gfile.DeleteRecursively(folder / "one")
    assert not gfile.Exists(folder / "one")


def test_removing_a_link_to_a_folder_leaves_what_it_leads_to(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "sub")

    tf.gfile.DeleteRecursively(folder / "link")

    assert not (folder / "link").exists()
    assert (folder / "sub" / "b.txt").exists()


def test_patterns_match_within_one_folder(folder: Path) -> None:
    pattern = f"{folder}/*.txt"

    assert tf.gfile.Glob(pattern) == [f"{folder}/a.txt"]
    assert tf.gfile.Glob([pattern, f"{folder}/*/*.txt"]) == [
        *(f"{folder}/a.txt", f"{folder}/sub/b.txt")
    ]
    assert tf.gfile.Glob(f"{folder}/none*") == []


def test_walk_tells_folders_and_files(folder: Path) -> None:
    seen = list(tf.gfile.Walk(str(folder)))

    assert seen == [
        (str(folder), ["sub"], [".hidden", "a.txt"]),
        (f"{folder}/sub", ["deep"], ["b.txt"]),
        (f"{folder}/sub/deep", [], []),
    ]
    assert list(tf.gfile.Walk(str(folder), in_order=False)) == seen[::-1]
    assert list(tf.gfile.Walk("/nowhere")) == []


def test_copy_and_rename_replace_only_what_they_are_told_to(folder: Path) -> None:
    first, second = folder / "a.txt", folder / "sub" / "b.txt"
    for change in (tf.gfile.Copy, tf.gfile.Rename):
        with pytest.raises(tf.errors.AlreadyExistsError, match="overwrite=True"):
            change(first, second)

    tf.gfile.Copy(first, second, overwrite=True)
    tf.gfile.Rename(first, folder / "c.txt")

    assert second.read_bytes() == (folder / "c.txt").read_bytes() == LINES.encode()
    assert not tf.gfile.Exists(first)


def test_stat_tells_size_and_time(folder: Path) -> None:
    path = folder / "a.txt"

    assert tf.gfile.Stat(path) == FileStatistics(
        len(LINES.encode()), path.stat().st_mtime_ns, is_directory=False
    )
    assert tf.gfile.Stat(folder).is_directory


@for_each(
    ("call", "error"),
    [
        (lambda gfile, at: gfile.Remove(at / "none"), "NotFoundError"),
        (lambda gfile, at: gfile.Remove(at / "sub"), "FailedPreconditionError"),
        (lambda gfile, at: gfile.Stat(at / "none"), "NotFoundError"),
        (lambda gfile, at: gfile.ListDirectory(at / "none"), "NotFoundError"),
        (lambda gfile, at: gfile.ListDirectory(at / "a.txt"), "NotFoundError"),
        (lambda gfile, at: gfile.DeleteRecursively(at / "none"), "NotFoundError"),
        (lambda gfile, at: gfile.MkDir(at / "sub"), "AlreadyExistsError"),
        (lambda gfile, at: gfile.MkDir(at / "x" / "y"), "NotFoundError"),
        (lambda gfile, at: gfile.Rename(at / "x", at / "y"), "NotFoundError"),
        (lambda gfile, at: gfile.Copy(at / "x", at / "y"), "NotFoundError"),
        (lambda gfile, at: gfile.Exists("hdfs://host/a"), "UnimplementedError"),
        (lambda gfile, at: gfile.GFile("gs://bucket/a"), "UnimplementedError"),
    ],
)
def test_what_cannot_be_done_raises_an_error_of_the_original(
    call: Callable[..., Any], error: str, folder: Path
) -> None:
    with pytest.raises(getattr(tf.errors, error)):
        call(tf.gfile, folder)


def test_scheme_of_this_host_is_none(folder: Path) -> None:
    assert tf.gfile.Exists(f"file://{folder}/a.txt")


@pytest.mark.parametrize(
    "open_at",
    [
        tf.summary.FileWriter,
        tf.train.latest_checkpoint,
        lambda folder: tf.train.MonitoredTrainingSession(checkpoint_dir=folder),
        lambda folder: tf.train.MonitoredTrainingSession(summary_dir=folder),
        lambda folder: tf.train.Supervisor(logdir=folder),
        lambda folder: tf.train.Saver([tf.Variable(1.0)]).save(tf.Session(), folder),
        lambda folder: tf.train.Saver([tf.Variable(1.0)]).restore(tf.Session(), folder),
    ],
    ids=["writer", "latest", "session", "summaries", "supervisor", "save", "restore"],
)
def test_a_folder_on_another_file_system_is_refused_at_once(open_at: Any) -> None:
    with (
        tf.Graph().as_default(),
        pytest.raises(tf.errors.UnimplementedError, match="Mount it on this host"),
    ):
        open_at("hdfs://namenode/run")


def test_a_prefix_with_the_scheme_of_files_is_a_path(
    tmp_path: Path, session: Any
) -> None:
    v = tf.Variable(3.0)
    session.run(v.initializer)
    saver = tf.train.Saver([v])
    prefix = saver.save(session, f"file://{tmp_path}/model")
    session.run(v.assign(0.0))
    saver.restore(session, f"file://{tmp_path}/model")

    assert session.run(v) == 3.0
    assert prefix == f"{tmp_path}/model"
    assert tf.train.latest_checkpoint(f"file://{tmp_path}") == prefix
