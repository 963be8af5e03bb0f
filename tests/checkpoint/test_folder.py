"""A folder of checkpoints: what it keeps, what it gives back, what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kit.bfloat16 import BFLOAT16
from kit.checkpoint import Folder, Manifest, Piece, folder, reading, write_shard
from kit.checkpoint.manifest import differences, graph_hash
from kit.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from tests.checkpoint.disk import SlowFiles


def test_what_was_saved_bit_by_bit_is_loaded_bit_for_bit(
    tmp_path: Path,
) -> None:
    values: dict[str, Any] = {
        "w": np.array([[0.1, np.nan], [-0.0, np.inf]], np.float32),
        "n": np.arange(3),
        "half": np.array([1.5, np.inf], BFLOAT16),
        "empty": np.zeros((0, 4)),
    }
    Folder(tmp_path, files=SlowFiles()).save(7, values)

    result, loaded = Folder(tmp_path).load_newest()

    assert result.manifest.step == 7
    assert loaded.keys() == values.keys()
    for name, value in values.items():
        assert loaded[name].dtype == value.dtype
        assert loaded[name].tobytes() == value.tobytes()


def test_tensors_of_any_name_are_saved_and_loaded(tmp_path: Path) -> None:
    names = ["__metadata__", "__metadata__'", "w", "w[0:2]", "", "\0", "\ud800", "../w"]
    whole = {name: np.full(2, n) for n, name in enumerate(names)}
    part = Piece("w", "int64", (4,), 0, np.array([8, 9]))
    rest = Piece("w", "int64", (4,), 2, np.array([10, 11]))
    pieces = [
        part,
        *(Piece.whole(*item) for item in whole.items() if item[0] != "w"),
        rest,
    ]

    Folder(tmp_path).save(1, whole)
    entry = write_shard(tmp_path / "shard", pieces)

    result = Folder(tmp_path).load_newest()[1]
    assert {name: value.tolist() for name, value in result.items()} == {
        name: value.tolist() for name, value in whole.items()
    }
    values = reading.read_all(tmp_path, Manifest(0, shards=(entry,)))
    assert values["w"].tolist() == [8, 9, 10, 11]
    assert values["w[0:2]"].tolist() == [3, 3]
    with pytest.raises(
        InvalidArgumentError, match=r"two pieces of a shard are 'w\[0:2\]"
    ):
        write_shard(tmp_path / "another", [part, part])


def test_links_in_a_folder_are_removed_and_not_what_they_point_to(
    tmp_path: Path,
) -> None:
    others, own = tmp_path / "others", tmp_path / "own"
    Folder(others).save(1, {"w": np.arange(2)})
    (others / "step-1" / "deeper").mkdir()
    (others / "notes.txt").write_text("dear")
    before = sorted(others.rglob("*"))
    own.mkdir()
    for name in ("step-1", "step-2", "step-9.tmp-ab"):  # checkpoints, and a draft
        (own / name).symlink_to(others if "tmp" in name else others / "step-1")
    folder = Folder(own, keep=2)

    for step in (3, 4, 5):
        draft = folder.draft(step)
        (draft / "link").symlink_to(others)
        folder.discard(draft)
        folder.save(step, {"w": np.arange(2)})

    assert sorted(path.name for path in own.iterdir()) == ["step-4", "step-5"]
    assert sorted(others.rglob("*")) == before


def test_the_newest_are_kept_and_older_ones_removed(tmp_path: Path) -> None:
    folder = Folder(tmp_path, keep=3)
    for step in range(6):
        folder.save(step, {"w": np.full(2, step)})

    assert folder.steps() == [3, 4, 5]
    assert folder.load_newest()[1]["w"].tolist() == [5, 5]


def test_damaged_newest_is_passed_over_and_named(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for step in (1, 2):
        folder.save(step, {"w": np.full(2, step)})
    (shard,) = (tmp_path / "step-2").glob("*.safetensors")
    shard.write_bytes(shard.read_bytes()[:-1])

    result, values = folder.load_newest()

    assert values["w"].tolist() == [1, 1]
    ((path, why),) = result.passed_over
    assert path.name == "step-2"
    assert shard.name in why


def test_folders_that_hold_no_checkpoints_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=str(tmp_path)):
        Folder(tmp_path).load_newest()
    (tmp_path / "here").write_text("a file")
    with pytest.raises(FailedPreconditionError, match="here"):
        Folder(tmp_path / "here").prepare()
    with pytest.raises(InvalidArgumentError, match="at least 2"):
        Folder(tmp_path, keep=1)


def test_checkpoint_of_another_model_is_told_apart_by_names_and_shapes(
    tmp_path: Path,
) -> None:
    Folder(tmp_path).save(1, {"w": np.zeros((2, 3), np.float32), "b": np.zeros(3)})
    manifest = Folder(tmp_path).load_newest()[0].manifest

    same = {"w": ((2, 3), "float32"), "b": ((3,), "float64")}
    other = {"w": ((2, 4), "float32"), "c": ((3,), "float64")}

    assert differences(manifest, same) == []
    text = " ".join(differences(manifest, other))
    assert "float32[2, 3]" in text
    assert "float32[2, 4]" in text
    assert "'c'" in text
    assert "'b'" in text
    assert graph_hash(same) != graph_hash(other)


def test_reader_that_is_overtaken_by_the_writer_reads_what_came_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, read_all, steps = Folder(tmp_path, keep=2), reading.read_all, [2, 3, 4]
    writer.save(1, {"w": np.array([1.0])})

    def overtaken(path: Path, manifest: Any) -> Any:
        while steps:  # until what is being read is gone
            step = steps.pop(0)
            writer.save(step, {"w": np.array([float(step)])})
        return read_all(path, manifest)

    monkeypatch.setattr(folder, "read_all", overtaken)
    result, values = Folder(tmp_path).load_newest()

    assert (result.manifest.step, result.passed_over) == (4, ())
    assert values["w"].tolist() == [4.0]
