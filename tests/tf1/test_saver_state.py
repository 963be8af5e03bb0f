"""Which checkpoints a saver keeps, and the text of the file that tells of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import tf1 as tf
from kit.tf1.train.checkpointing.checkpoint_state import CheckpointState
from kit.tf1.train.checkpointing.saver import SavedCheckpointList


def test_one_checkpoint_of_each_hour_stays_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    removed: list[str] = []
    monkeypatch.setattr(
        "kit.tf1.train.checkpointing.saver.remove_checkpoint",
        lambda prefix, **_: removed.append(prefix),
    )
    now_s = 0.0
    memory = SavedCheckpointList(2, 1.0, lambda: now_s)

    for number in range(8):
        now_s = number * 1800.0
        memory.add(f"m-{number}")
        memory.remove_old("meta")

    assert memory.prefixes == ["m-6", "m-7"]
    # Those of 1.5 and 2.5 hours are the first ones after an hour each.
    assert removed == ["m-0", "m-1", "m-2", "m-4"]


def saved_in(folder: Path, value: float, step: int) -> str:
    """Save a variable into a folder; return the prefix."""
    folder.mkdir(exist_ok=True)
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(value, name="v")
        sess.run(v.initializer)
        return str(tf.train.Saver().save(sess, str(folder / "m"), step))


def elsewhere(mine: Path, prefix: str) -> list[str]:
    """Return ways to name a checkpoint outside of a folder."""
    target = Path(prefix)
    (mine / "link").symlink_to(target.parent)
    beside = f"../{target.parent.name}/{target.name}"
    return [prefix, beside, f"link/{target.name}", f"{mine}/{beside}"]


def test_checkpoints_of_others_that_a_state_file_names_are_not_read(
    tmp_path: Path,
) -> None:
    others, mine = tmp_path / "others", tmp_path / "mine"
    theirs = saved_in(others, 7.0, 1)
    mine.mkdir()

    for named in elsewhere(mine, theirs):
        (mine / "checkpoint").write_text(f'model_checkpoint_path: "{named}"\n')

        assert tf.train.latest_checkpoint(str(mine)) is None
        with tf.Graph().as_default():
            tf.Variable(0.0, name="v")
            tf.train.get_or_create_global_step()
            with pytest.raises(ValueError, match=r"outside of that folder.*\.restore"):
                tf.train.MonitoredTrainingSession(checkpoint_dir=str(mine))


def test_checkpoints_of_others_that_a_state_file_names_are_not_removed(
    tmp_path: Path,
) -> None:
    others, mine = tmp_path / "others", tmp_path / "mine"
    theirs = saved_in(others, 7.0, 1)
    mine.mkdir()
    before = sorted(others.iterdir())
    for named in elsewhere(mine, theirs):
        ours = saved_in(mine, 1.0, 1)
        lines = [f'all_model_checkpoint_paths: "{item}"\n' for item in (named, ours)]
        latest = f'model_checkpoint_path: "{ours}"\n'
        (mine / "checkpoint").write_text("".join([latest, *lines]))
        state = tf.train.get_checkpoint_state(str(mine))
        with tf.Graph().as_default(), tf.Session() as sess:
            v = tf.Variable(1.0, name="v")
            sess.run(v.initializer)
            saver = tf.train.Saver(max_to_keep=1)
            saver.recover_last_checkpoints(state.all_model_checkpoint_paths)

            saver.save(sess, str(mine / "m"), 2)
            saver.save(sess, str(mine / "m"), 3)

        assert sorted(others.iterdir()) == before, named
        assert not (mine / "m-1.index").exists()  # what is ours is removed as ever


texts = st.text("ab:1é€\U0001f600 \t\n\r\0\x7f\x80\"'\\#{}[],;", max_size=8)
floats = st.floats(allow_nan=False)  # which is equal to nothing
states = st.builds(
    CheckpointState,
    model_checkpoint_path=texts,
    all_model_checkpoint_paths=st.lists(texts, max_size=4),
    all_model_checkpoint_timestamps=st.lists(floats, max_size=4),
    last_preserved_timestamp=floats,
)


@given(states)
def test_any_message_survives_its_text(state: CheckpointState) -> None:
    assert CheckpointState.from_text(str(state)) == state


pieces = ["model_checkpoint_path", "last_preserved_timestamp", *"{}<>[]:,;-#x\n"]


@given(st.lists(st.sampled_from([*pieces, '"a"', '"\\7"', "1.5", "inf"]), max_size=12))
def test_a_message_of_noise_is_read_or_refused_by_a_value_error(
    noise: list[str],
) -> None:
    try:
        result = CheckpointState.from_text(" ".join(noise))
    except ValueError:
        return

    assert CheckpointState.from_text(str(result)) == result


@pytest.mark.parametrize("mark", ["[", "{", "<", "-", "a: ["])
def test_a_text_that_nests_without_end_is_a_value_error(mark: str) -> None:
    with pytest.raises(ValueError, match="line 1: expected"):
        CheckpointState.from_text("model_checkpoint_path: " + mark * 200_000)
