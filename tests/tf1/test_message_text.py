"""The text of a message with values and lists: what is written is read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.tf1.train.checkpointing.checkpoint_state import CheckpointState

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
