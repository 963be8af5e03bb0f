"""A recorded training computed again, against the training and against plain numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit import arithmetic
from kit.errors import (
    AbortedError,
    FailedPreconditionError,
    InvalidArgumentError,
    OutOfRangeError,
)
from kit.recording.parts import LOG, read_parts
from tests.recording.conftest import STEPS, Recorded
from tests.training.toy import (
    BATCH,
    DATA,
    X,
    Y,
    begin,
    fit,
    gradients,
    quick_cluster,
    replayed,
    same_bits,
)


def test_replay_has_the_bits_of_the_training_and_of_plain_numpy(
    recorded: Recorded,
) -> None:
    result = kit.replay(recorded.folder, step=fit, data=DATA)

    assert result.step == STEPS
    assert result.mismatch is None
    assert result.n_losses == 3 * STEPS
    assert result.n_digests >= STEPS
    assert same_bits(result.params, recorded.run.params)
    assert same_bits(result.params, replayed(STEPS, 3, kit.Adam(0.01)))


def test_any_step_is_computed_from_the_newest_state_before_it(
    recorded: Recorded,
) -> None:
    for step in (0, 49, 50, 77):
        result = kit.replay(recorded.folder, step, step=fit)  # with the stored data

        assert same_bits(result.params, replayed(step, 3, kit.Adam(0.01))), step


def test_message_of_a_replay_carries_the_real_gradient(recorded: Recorded) -> None:
    result = kit.replay(recorded.folder, step=fit)
    at_servers, on_ring = result.at(20, 1), result.at(60, 1)

    own = gradients(replayed(20, 3, kit.Adam(0.01)), 20, 3)
    number = int(at_servers.source.removeprefix("worker:"))
    assert at_servers.kind == "push"
    assert at_servers.destination.startswith("ps")
    assert at_servers.who == ((number,),) * len(at_servers.who)
    flat = {name: value.reshape(-1) for name, value in own[number].items()}
    for name, values in at_servers.values.items():
        assert values.tobytes() in flat[name].tobytes()
    assert sum(value.nbytes for value in at_servers.values.values()) == len(
        at_servers.payload
    )
    assert on_ring.kind == "reduce"
    assert len(on_ring.exchange.states) > on_ring.number
    assert result.at(60, -1).kind == "gather"
    with pytest.raises(OutOfRangeError, match="there is no message 99"):
        result.at(60, 99)
    with pytest.raises(OutOfRangeError):
        result.at(STEPS, 1)


def test_other_data_or_another_step_function_is_named_by_its_digest(
    recorded: Recorded,
) -> None:
    def another(params: Any, batch: Any) -> Any:
        loss, result = fit(params, batch)
        return loss * 1, result

    with pytest.raises(InvalidArgumentError, match=r"digest of data\[1\]"):
        kit.replay(recorded.folder, step=fit, data=(X, Y + 1))
    with pytest.raises(InvalidArgumentError, match="step function's bytecode"):
        kit.replay(recorded.folder, step=another)


def test_step_function_that_can_be_imported_need_not_be_given_if_it_is_trusted(
    recorded: Recorded,
) -> None:
    assert kit.replay(recorded.folder, 3, trust_step=True).step == 3
    with pytest.raises(FailedPreconditionError, match=r"'fit' of.*or, if you trust"):
        kit.replay(recorded.folder, 3)


def test_replay_names_the_first_difference(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = kit.replay(recorded.folder, 10, step=fit)
    seen = 0

    def fit_but_once(params: Any, batch: Any) -> Any:
        nonlocal seen
        seen += 1
        loss, grads = fit(params, batch)
        return loss, {**grads, "w": grads["w"] * np.float32(1 + (seen == 8))}

    monkeypatch.setattr("kit.recording.replay_inputs.step_difference", lambda *_: "")
    with pytest.raises(AbortedError, match="the replay of") as caught:
        kit.replay(recorded.folder, step=fit_but_once)
    seen = 0
    going_on = kit.replay(recorded.folder, step=fit_but_once, check=False)

    assert result.mismatch is None
    assert caught.value.step == 3  # the eighth call is in the third step
    assert going_on.mismatch is not None
    assert going_on.mismatch.what == "parameters"
    assert going_on.step == STEPS


def test_replay_of_other_bits_is_allowed_within_a_tolerance_and_warned_of(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nearly(params: Any, batch: Any) -> Any:
        loss, grads = fit(params, batch)
        return loss, {name: item * np.float32(1 + 1e-6) for name, item in grads.items()}

    monkeypatch.setattr("kit.recording.replay_inputs.step_difference", lambda *_: "")
    other = replace(arithmetic.here(), numpy="1.0")
    monkeypatch.setattr("kit.recording.replay.here", lambda: other)
    with pytest.warns(UserWarning, match=r"other bits: numpy has different versions"):
        result = kit.replay(recorded.folder, step=nearly, tolerance=1e-3)
    monkeypatch.undo()
    monkeypatch.setattr("kit.recording.replay_inputs.step_difference", lambda *_: "")
    for tolerance in (0.0, 1e-9):
        with pytest.raises(AbortedError, match="the replay of"):
            kit.replay(recorded.folder, step=nearly, tolerance=tolerance)

    assert result.mismatch is None
    assert (result.step, result.n_digests) == (STEPS, 0)


def test_nothing_of_a_recording_is_executed_unless_it_is_trusted(
    tmp_path: Path, recorded: Recorded
) -> None:
    factor = np.float64(2.0)

    def local(params: Any, batch: Any) -> Any:
        loss, results = fit(params, batch)
        return loss * factor, results

    wanted = kit.Recording(tmp_path / "run", store_data=True, store_step=True)
    with quick_cluster(1, 2) as cluster:
        run = begin(cluster, local, steps=20, record=wanted).wait(20)
        assert run.params
    with pytest.raises(FailedPreconditionError, match="trust_step=True"):
        kit.replay(wanted.path)
    result = kit.replay(wanted.path, trust_step=True)

    assert same_bits(result.params, run.params)


def test_damaged_state_is_noticed(copied: Callable[[], Path]) -> None:
    folder = copied()
    path = folder / "state-000000000000.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)

    with pytest.raises(kit.errors.DataLossError, match="damaged"):
        kit.replay(folder, step=fit)


def test_parts_of_the_log_are_as_documented(recorded: Recorded) -> None:
    result = read_parts(recorded.folder / "run.log", LOG)
    kinds = [part.kind for part in result.parts]

    assert kinds[0] == "HEAD"
    assert kinds[-1] == "DONE"
    assert not result.is_torn
    assert {"DATA", "STAT", "EPOC", "STEP", "DIGS", "LAST"} < {*kinds}


def test_loss_that_is_a_tensor_is_replayed(tmp_path: Path) -> None:
    def loss() -> tuple[Any, Any, Any]:
        with kit.Graph().as_default():
            x, y = kit.placeholder("float32", [None, 3]), kit.placeholder("float32")
            w = kit.Variable(np.array([0.1, 0.2, 0.3], np.float32), name="w")
            return x, y, (((x * w).sum(axis=1) - y) ** 2).mean()

    x, y, error = loss()
    with quick_cluster(1, 2) as cluster:
        run = kit.train(
            error,
            {x: X, y: Y},
            optimizer="adam",
            steps=30,
            batch=BATCH,
            record=tmp_path / "run",
            cluster=cluster,
        ).wait(20)
        assert run.params
    x, y, again = loss()  # another line, in another graph

    result = kit.replay(tmp_path / "run", step=again, data={x: X, y: Y})
    assert same_bits(result.params, run.params)


def test_recordings_are_compared_as_far_as_they_go(
    recorded: Recorded, copied: Callable[[], Path], tmp_path: Path
) -> None:
    folder = copied()
    log = folder / "run.log"
    log.write_bytes(log.read_bytes()[:-400])

    shorter = kit.diff(recorded.folder, folder, step=fit)
    itself = kit.diff(recorded.folder, kit.load_run(recorded.folder), step=fit)
    assert not itself
    assert "do not differ in any step" in str(itself)
    assert not shorter.facts
    with quick_cluster(1, 2) as cluster:
        begin(cluster, steps=5, record=tmp_path / "other").wait(20)
    with pytest.raises(InvalidArgumentError, match="tasks is"):
        kit.diff(recorded.folder, tmp_path / "other")
