"""Which GPUs a worker sees: its own, or one in turn, of those that its host has."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from kit.cluster.report import ClusterState, TaskStatus, table
from kit.errors import FailedPreconditionError
from kit.server import cards
from kit.task import Task
from tests.cases import for_each


@for_each(
    ("wanted", "there", "seen"),
    [
        ("auto", ["0", "1"], [["0"], ["1"], ["0"]]),
        ("auto", ["7"], [["7"], ["7"], ["7"]]),
        ("auto", [], [[], [], []]),
        (0, ["0", "1"], [[], [], []]),
        (1, ["4", "5", "6"], [["4"], ["5"], ["6"]]),
        (2, list("012345"), [["0", "1"], ["2", "3"], ["4", "5"]]),
        (1, ["GPU-8a", "GPU-91", "GPU-f0"], [["GPU-8a"], ["GPU-91"], ["GPU-f0"]]),
    ],
)
def test_workers_of_a_host_get_its_cards_in_their_order(
    wanted: int | str, there: Sequence[str], seen: list[list[str]]
) -> None:
    assert [cards.cards_of("worker", wanted, n, there) for n in range(3)] == seen


def test_too_few_cards_are_refused_with_how_many_there_are() -> None:
    words = r"worker:1 cannot have 2 GPUs of its own: its host has 3, and 1 workers"
    with pytest.raises(FailedPreconditionError, match=words):
        cards.cards_of("worker:1", 2, 1, ["0", "1", "2"])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give this host the files of two cards, and no variable that speaks of them."""
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    monkeypatch.setattr(cards, "FOLDER", tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # it is restored at the end
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    cards.cards_there.cache_clear()
    return tmp_path


@pytest.fixture(autouse=True)
def asked_anew() -> None:
    cards.cards_there.cache_clear()


@for_each(
    ("listed", "wanted", "visible"),
    [
        (None, "auto", "1"),
        ("3,2", "auto", "2"),  # by Slurm: only these are this job's
        ("5", "auto", "5"),
        (None, 0, ""),
        ("", "auto", ""),
    ],
)
def test_a_process_sees_its_card_also_when_its_server_starts_again(
    folder: Path, listed: str | None, wanted: int | str, visible: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if listed is not None:
            patch.setenv("CUDA_VISIBLE_DEVICES", listed)
        cards.cards_there.cache_clear()

        for _ in range(2):
            cards.see("worker:1", wanted, 1)

            assert os.environ["CUDA_VISIBLE_DEVICES"] == visible
        patch.setenv("CUDA_VISIBLE_DEVICES", "")


def test_without_cards_nothing_is_said_of_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards, "FOLDER", folder / "nothing")

    assert cards.see("worker:1", "auto", 1) == []
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_the_status_names_the_cards_and_who_shares_them() -> None:
    statuses = [
        TaskStatus(Task("ps", 0), ClusterState.READY),
        *(
            TaskStatus(Task("worker", n), ClusterState.READY, host=host, gpus=("0",))
            for n, host in enumerate("aab")
        ),
    ]

    shown = table("Cluster", statuses, {})

    assert "<th>GPU</th>" in shown.replace(' scope="col"', "")
    assert "0, shared with worker:1" in shown
    assert "0, shared with worker:0" in shown
    assert shown.count("shared") == 2
