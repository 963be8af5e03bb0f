"""What a user sets on an object of ours takes effect, or is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

import kit
from kit.cluster import Cluster
from kit.experiments.comparison import Comparison
from kit.experiments.results import Sweep
from kit.handles import UnknownArgument, UnknownAttribute
from kit.hooks import LoggingTensorHook, StopAtStepHook
from kit.puzzles import Figures, Puzzle
from kit.recording.recorder import Recorder
from kit.server.attached import AttachedCluster
from kit.server.server import Server
from kit.session.client.session import Session
from kit.trace.waits import MessageWait
from kit.training.client.run import Run
from kit.training.client.saves import SavedCheckpoints, Saving
from tests.cases import for_each
from widgets import ExchangeStepper, Prediction, RingStepper, TrafficBoard
from widgets.sharing.share import Share


@for_each(
    ("cls", "wrong", "right"),
    [
        (Run, "topolgy", "topology"),
        (Run, "Link", "link"),
        (Run, "synchronus", "synchronous"),
        (Cluster, "links", "link"),
        (Cluster, "stop", "stop(...)"),
        (AttachedCluster, "task", "tasks"),
        (Server, "setting", "settings"),
        (Session, "grpah", "graph"),
        (Recorder, "option", "options"),
        (SavedCheckpoints, "lst", "last"),
        (Saving, "wait", "wait(...)"),
        (Comparison, "run", "runs"),
        (Sweep, "foldr", "folder"),
        (TrafficBoard, "close", "close(...)"),
        (ExchangeStepper, "positoin", "position"),
        (RingStepper, "positoin", "position"),
        (Prediction, "choice", "choices"),
        (Share, "urls", "url"),
        (kit.Settings, "call_deadlin_s", "call_deadline_s"),
        (kit.Elastic, "spares", "spare"),
        (kit.Checkpoints, "fold", "folder"),
        (kit.Recording, "fold", "folder"),
    ],
)
def test_an_attribute_that_does_nothing_is_refused_with_the_near_name(
    cls: type[Any], wrong: str, right: str
) -> None:
    with pytest.raises(UnknownAttribute) as caught:
        setattr(object.__new__(cls), wrong, "ring")

    assert f"{right}" in caught.value.message


def test_what_cannot_be_changed_says_how_to_make_another() -> None:
    with pytest.raises(FrozenInstanceError) as caught:
        kit.Adam(0.1).learning_rat = 0.2  # type: ignore[attr-defined]

    assert str(caught.value) == (
        "Adam cannot be changed once it is made; make another: "
        "kit.Adam(learning_rate=...)."
    )


@for_each(
    ("cls", "name", "said"),
    [
        (Run, "step", "Run.step can only be read; "),
        (Run, "stp", ".step can only be read"),
        (StopAtStepHook, "last_step", "StopAtStepHook has no attribute 'last_step'"),
        (LoggingTensorHook, "every_n_iter", "LoggingTensorHook has no attribute"),
    ],
)
def test_an_attribute_that_can_only_be_read_is_not_offered(
    cls: type[Any], name: str, said: str
) -> None:
    with pytest.raises(UnknownAttribute) as caught:
        setattr(object.__new__(cls), name, 3)

    assert said in caught.value.message


@for_each(
    ("called", "arguments", "said"),
    [
        (kit.train, {"batch_size": 64}, "train has no argument 'batch_size'"),
        (kit.train, {"batch_size": 64}, "; write batch=...."),
        (kit.train, {"lr": 0.1}, "; write optimizer=kit.Adam(0.001)."),
        (kit.train, {"epochs": 3}, "; write steps=...."),
        (kit.train, {"topolgy": "ring"}, "; write topology=...."),
        (kit.evolve, {"pop": 3}, "; it has loss, params, data, population, "),
        (kit.rehearse, {"n_workers": 3}, "; write worker=...."),
        (kit.Adam, {"lr": 0.1}, "Adam has no argument 'lr'; write learning_rate=...."),
        (kit.Cluster, {"workers": 2}, "Cluster has no argument 'workers'; write "),
        (kit.Cluster, {"ports": 2}, "; it has ps, worker, jobs, transport, "),
        (kit.Elastic, {"spares": 1}, "; write spare=...."),
        (kit.Checkpoints, {"every": 3}, "; write every_s=...."),
    ],
)
def test_an_argument_by_another_name_is_refused_with_the_right_one(
    called: Callable[..., Any], arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(UnknownArgument) as caught:
        called(**arguments)

    assert isinstance(caught.value, TypeError)
    assert said in str(caught.value)


def test_run_that_is_told_to_pause_by_an_assignment_names_the_call() -> None:
    with pytest.raises(AttributeError, match=r"call \.pause\("):
        object.__new__(Run).pause = True  # type: ignore[assignment, method-assign]


def test_a_subclass_of_the_user_has_attributes_of_its_own() -> None:
    class Mine(Prediction):
        pass

    mine = Mine("How many?", unit="bytes")
    mine.seen = 3  # type: ignore[attr-defined]

    assert mine.seen == 3  # type: ignore[attr-defined]


def _puzzle(**more: Any) -> Puzzle:
    return Puzzle("swap", "", ("worker:0",), wanted=list, target=Figures(), **more)


@for_each(
    ("make", "said"),
    [
        (
            lambda: _puzzle(given=list, best_known={}),
            "Puzzle(given=...) is called Puzzle(inputs=...) now.",
        ),
        (
            lambda: _puzzle(inputs=list, known={}),
            "Puzzle(known=...) is called Puzzle(best_known=...) now.",
        ),
    ],
)
def test_an_argument_by_its_old_name_works_and_the_warning_says_what_to_write(
    make: Callable[[], Puzzle], said: str
) -> None:
    with pytest.warns(DeprecationWarning, match=re.escape(said)) as warned:
        puzzle = make()

    assert warned[0].filename == __file__
    assert puzzle == _puzzle(inputs=list, best_known={})


def test_an_argument_by_both_names_is_refused() -> None:
    with pytest.raises(UnknownArgument, match=r"write inputs=\.\.\. alone"):
        _puzzle(given=list, inputs=list, best_known={})


@for_each(
    ("instance", "old", "new"),
    [
        (_puzzle(inputs=list, best_known={}), "given", "inputs"),
        (_puzzle(inputs=list, best_known={}), "known", "best_known"),
        (MessageWait("worker:0", "worker:1", 4, 2, 1_500_000), "told", "duration"),
        (kit.constant(1.0).op, "place", "source_line"),
        (Prediction("How long?", "ms"), "told", "in_words"),
    ],
)
def test_an_attribute_by_its_old_name_gives_the_same_and_warns(
    instance: Any, old: str, new: str
) -> None:
    said = rf"\.{old} is called \w+\.{new} now\.$"
    with pytest.warns(DeprecationWarning, match=said) as warned:
        value = getattr(instance, old)

    assert value == getattr(instance, new)
    assert warned[0].filename == __file__
