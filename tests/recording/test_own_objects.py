"""Replays of trainings with compressors, and with optimizers of a user's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import FailedPreconditionError, InvalidArgumentError
from kit.exchange.compression.quantization import compressor_of
from kit.recording import own_objects
from kit.recording.facts import referred
from kit.recording.own_objects import made_again, object_facts, ours
from kit.testing.cluster import LocalCluster
from kit.testing.task_process import until
from kit.training.optimizers.rule import Slot
from tests.cases import for_each
from tests.recording.random_runs import Averaged
from tests.recording.toy_training import begin, train
from tests.training import compressed, toy
from tests.training.toy import quick_cluster, same_bits

OWN = Averaged(0.002, 0.9)


class Heavy:
    """An optimizer that is no dataclass: what makes it cannot be told."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    @property
    def slots(self) -> tuple[Slot, ...]:
        return (Slot("sum", 0.0),)

    def apply(
        self, parameter: Any, gradient: Any, slots: Any, out: Any, step: int
    ) -> None:
        slots[0][:] += gradient
        np.subtract(parameter, slots[0] * parameter.dtype.type(self.rate), out=out)


@pytest.fixture
def three() -> Iterator[LocalCluster]:
    with quick_cluster(2, 3) as cluster:
        yield cluster


@pytest.mark.slow
def test_message_of_a_compressed_step_has_the_bytes_that_travelled(
    three: LocalCluster, tmp_path: Path
) -> None:
    optimizer = kit.Adam(0.02)
    about = {"model": compressed, "optimizer": optimizer, "steps": 12}
    about["topology"] = "ring-whole"
    for compress in ("float16", "int8"):
        train(three, tmp_path / compress, compress=compress, **about)

    result = kit.replay(tmp_path / "float16", step=compressed.fit, data=compressed.DATA)
    first = result.at(0, 1)
    own = compressed.gradients(compressed.initial(), 0, 3)
    worker = int(first.source.removeprefix("worker:"))
    for name, values in first.values.items():
        sent = (own[worker][name] * own[worker][name].dtype.type(1 / 3)).astype("e")
        assert values.tobytes() == sent.tobytes(), name
    assert {*first.values} == {"w", "b", "scale"}
    assert result.n_losses == 36

    result = kit.replay(tmp_path / "int8", step=compressed.fit, data=compressed.DATA)
    scales, numbers = result.at(5, 1), result.at(5, -1)
    assert (scales.stage, numbers.stage) == (0, 1)
    assert all(value.shape == (1,) for value in scales.values.values())
    assert {value.dtype for value in numbers.values.values()} == {np.dtype(np.int8)}
    assert numbers.position < numbers.number
    assert numbers.exchange.states[numbers.position].message is not None


@pytest.mark.slow
def test_replay_of_a_compressed_training_goes_on_from_any_kept_state(
    three: LocalCluster, tmp_path: Path
) -> None:
    wanted = kit.Recording(tmp_path / "run", state_every_s=0.001)
    about = {"model": compressed, "compress": kit.TopK(0.05), "steps": 10**6}
    run = begin(three, wanted, **about)
    until(lambda: len([*wanted.path.glob("state-*")]) > 1, 20)  # that of step 0 is one
    run.stop()
    run.wait(30)

    data = compressed.DATA
    result = kit.replay(wanted.path, run.step, step=compressed.fit, data=data)

    assert max(result.content.states) > 0
    assert result.n_losses < 3 * run.step  # it did not begin at the beginning
    assert same_bits(result.params, run.params)


@pytest.mark.slow
def test_difference_of_two_compressed_trainings_names_the_message(
    three: LocalCluster, tmp_path: Path
) -> None:
    x, y = compressed.DATA
    changed = x.copy()
    changed[toy.rows(0)[0]] += 1
    about = {"model": compressed, "steps": 12, "compress": "float16"}
    for name, data in (("one", (x, y)), ("other", (changed, y))):
        wanted = kit.Recording(tmp_path / name, store_data=True)
        train(three, wanted, data=data, **about)

    result = kit.diff(tmp_path / "one", tmp_path / "other", step=compressed.fit)

    assert (result.step, result.task, result.what) == (0, "worker:0", "gradient")
    assert result.message is not None
    assert "worker:0 to ps:" in result.message


@pytest.mark.slow
def test_optimizer_of_ones_own_is_made_again_from_its_settings(
    three: LocalCluster, tmp_path: Path
) -> None:
    run = train(three, tmp_path / "run", optimizer=OWN, steps=12)
    loaded = kit.load_run(tmp_path / "run")

    result = kit.replay(loaded, step=toy.fit, data=toy.DATA, trust_step=True)

    assert same_bits(result.params, run.params)
    assert same_bits(result.params, toy.replayed(12, 3, OWN))
    with pytest.raises(FailedPreconditionError, match="give it as optimizer="):
        kit.replay(loaded, step=toy.fit, data=toy.DATA)
    assert repr(loaded.job.optimizer) == repr(OWN)
    with pytest.raises(InvalidArgumentError, match=r"is Averaged\(rate=0.1"):
        kit.replay(loaded, step=toy.fit, data=toy.DATA, optimizer=Averaged(0.1, 0.9))
    with pytest.raises(InvalidArgumentError, match="optimizer is Adam"):
        kit.replay(loaded, step=toy.fit, data=toy.DATA, optimizer="adam")


def test_changed_code_of_an_optimizer_is_refused_by_its_digest(
    three: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(three, tmp_path / "run", optimizer=OWN, steps=12)

    def changed(
        self: Any, parameter: Any, gradient: Any, slots: Any, out: Any, step: int
    ) -> None:
        np.subtract(parameter, gradient, out=out)

    monkeypatch.setattr(Averaged, "apply", changed)
    with pytest.raises(InvalidArgumentError, match="digest of the optimizer Averaged"):
        kit.replay(tmp_path / "run", step=toy.fit, data=toy.DATA, optimizer=OWN)


@pytest.mark.slow
def test_optimizer_that_cannot_be_made_again_is_given_or_was_stored(
    three: LocalCluster, tmp_path: Path
) -> None:
    wanted = kit.Recording(tmp_path / "run", store_data=True, store_step=True)
    run = train(three, wanted, optimizer=Heavy(0.0002), steps=12)

    with pytest.raises(FailedPreconditionError, match="give it as optimizer="):
        kit.replay(wanted.path, step=toy.fit)
    inputs = kit.replay(wanted.path, step=toy.fit, optimizer=Heavy(0.0002))
    stored = kit.replay(wanted.path, trust_step=True)

    assert same_bits(inputs.params, run.params)
    assert same_bits(stored.params, run.params)
    with pytest.raises(InvalidArgumentError, match="digest of the optimizer Heavy"):
        kit.replay(wanted.path, step=toy.fit, optimizer=Heavy(0.1))


@dataclass
class Stranger:
    """Something else that has settings."""

    made = 0
    rate: float = 0.0

    def __post_init__(self) -> None:
        Stranger.made += 1


@for_each(
    "change",
    [
        {"module": __name__, "name": "Stranger"},
        {"module": "subprocess", "name": "Popen"},
        {"module": "os", "name": "system"},
        {"name": "nothing.there"},
        {"settings": None},
        {"settings": {"other": 1}},
    ],
)
def test_nothing_but_an_optimizer_or_a_compressor_is_made(
    change: Mapping[str, Any],
) -> None:
    facts = object_facts(OWN)

    def made(facts: Mapping[str, Any], name: str = "optimizer") -> Any:
        return made_again(name, referred(facts["module"], facts["name"]), facts)

    assert made(facts) == OWN
    assert made(facts, "compress") is None
    assert made({**facts, **change}) is None
    assert Stranger.made == 0


@for_each(
    "compressor",
    [kit.TopK(0.1), kit.PowerSGD(4), *map(compressor_of, ("float16", "int8"))],
)
def test_compressors_of_kit_are_made_again_without_trust(compressor: Any) -> None:
    facts = object_facts(compressor)

    assert made_again("compress", ours("compress", facts), facts) == compressor
    assert ours("optimizer", facts) is None


def test_settings_that_no_file_can_hold_are_left_out() -> None:
    assert object_facts(Averaged(float("nan"), 0.9))["settings"] is None
    assert object_facts(Heavy(0.1))["settings"] is None
    assert own_objects.FIELD.read({"optimizer": dict(object_facts(OWN))})
