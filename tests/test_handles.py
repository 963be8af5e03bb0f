"""What a user sets on an object of ours takes effect, or is refused."""

from __future__ import annotations

from typing import Any

import pytest

import kit
from kit.cluster import Cluster
from kit.experiments.comparison import Comparison
from kit.experiments.results import Sweep
from kit.handles import UnknownAttribute
from kit.recording.recorder import Recorder
from kit.server.attached import AttachedCluster
from kit.server.server import Server
from kit.session.client.session import Session
from kit.training.checkpointing.client import SavedCheckpoints, Saving
from kit.training.client.run import Run
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

    assert f".{right}" in caught.value.message


def test_run_that_is_told_to_pause_by_an_assignment_names_the_call() -> None:
    with pytest.raises(AttributeError, match=r"call \.pause\("):
        object.__new__(Run).pause = True  # type: ignore[assignment, method-assign]


def test_a_subclass_of_the_user_has_attributes_of_its_own() -> None:
    class Mine(Prediction):
        pass

    mine = Mine("How many?", unit="bytes")
    mine.seen = 3  # type: ignore[attr-defined]

    assert mine.seen == 3  # type: ignore[attr-defined]
