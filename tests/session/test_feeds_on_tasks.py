"""What dask has yet to compute is loaded by the tasks, not by the client."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest

import kit
from kit.errors import FailedPreconditionError, UnknownError
from kit.server.target import ClusterTarget
from kit.session.client import feeds_on_tasks
from kit.session.client.feeds_on_tasks import (
    LazyFeed,
    hold,
    join_feeds,
    present,
    split_feeds,
)
from kit.session.client.session import Session
from kit.testing.cluster import LocalCluster

delayed: Any = dask.delayed  # type: ignore[attr-defined]  # dask's own gap

loaded_by: list[str] = []


def load(n: int) -> Any:
    loaded_by.append(threading.current_thread().name)
    return np.arange(float(n)).reshape(-1, 2)


def array(n: int = 6, rows: int | None = None) -> Any:
    made: Any = da.from_delayed(  # type: ignore[no-untyped-call]
        delayed(load)(n), (n // 2 if rows is None else rows, 2), dtype=float
    )
    return made


class Channel:
    """Carries calls as a cluster does, by pickling, and counts them."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __call__(
        self, function: Callable[..., Any], *args: Any, deadline_s: float = 60.0
    ) -> None:
        packed = cloudpickle.dumps((function, args))
        self.calls.append(function.__name__)
        function, args = pickle.loads(packed)
        function(*args)


@pytest.fixture
def channel() -> Iterator[Channel]:
    loaded_by.clear()
    yield Channel()
    feeds_on_tasks.held.clear()


@pytest.fixture
def session(cluster: LocalCluster, channel: Channel) -> Iterator[Session]:
    target = cluster.target("worker:0")
    with Session(ClusterTarget(target.directory, target.task, channel)) as session:
        yield session


def test_array_of_dask_is_loaded_by_the_task_that_uses_it(
    session: Session, channel: Channel
) -> None:
    with kit.device("/job:ps/task:0"):
        x = kit.placeholder("float32", (None, 2))
        total: Any = np.sum(x)

    assert session.run(total, {x: array()}) == 15.0
    assert loaded_by
    assert threading.current_thread().name not in loaded_by


def test_it_travels_once_and_is_loaded_at_each_run(
    session: Session, channel: Channel
) -> None:
    x, values = kit.placeholder("float32", (None, 2)), array()

    for runs in (1, 2, 3):
        assert session.run(np.sum(x), {x: values}) == 15.0
        assert len(loaded_by) == runs

    assert channel.calls == ["hold"]


def test_what_two_feeds_share_is_loaded_once_by_a_task(
    session: Session, channel: Channel
) -> None:
    x, y, values = kit.placeholder("float64"), kit.placeholder("float64"), array()

    result = session.run(x + y, {x: values * 2, y: values * 3})

    assert np.array_equal(result, np.arange(6.0).reshape(3, 2) * 5)
    assert len(loaded_by) == 1


def test_other_feeds_keep_their_places(session: Session, channel: Channel) -> None:
    a, b, c = (kit.placeholder("float64", (None, 2), name=name) for name in "abc")
    ones = np.ones((3, 2))

    result = session.run([a + b, b - c, c * 1.0], {a: ones, b: array(), c: ones * 2})

    whole = np.arange(6.0).reshape(3, 2)
    for value, wanted in zip(result, [whole + 1, whole - 2, ones * 2], strict=True):
        assert np.array_equal(value, wanted)


def test_fed_tensor_that_is_fetched_has_its_value(
    session: Session, channel: Channel
) -> None:
    x = kit.placeholder("float32", (None, 2))

    assert session.run(x, {x: array()}).tolist() == [[0, 1], [2, 3], [4, 5]]


def test_wrong_shape_that_is_announced_is_refused_before_anything_moves(
    session: Session, channel: Channel
) -> None:
    x = kit.placeholder("float32", (None, 4))

    with pytest.raises(ValueError, match=r"\[\?, 4\].*\[3, 2\]"):
        session.run(x * 1.0, {x: array()})

    assert not channel.calls
    assert not loaded_by


def test_wrong_shape_that_was_not_announced_ends_the_run_with_both_shapes(
    session: Session, channel: Channel
) -> None:
    x = kit.placeholder("float32", (1, 2))

    with pytest.raises(UnknownError, match=r"'Placeholder.*\[1, 2\].*\[3, 2\]"):
        session.run(x * 1.0, {x: array(rows=1)})


def test_error_while_loading_names_the_tensor_and_keeps_the_traceback(
    session: Session, channel: Channel
) -> None:
    x = kit.placeholder("float32", name="images")

    def read_page() -> None:
        raise OSError("the disk is gone")

    with pytest.raises(UnknownError, match=r"'images:0'.*the disk is gone") as caught:
        session.run(x * 1.0, {x: delayed(read_page)()})

    assert "read_page" in str(caught.value.remote_traceback)


def test_what_cannot_travel_is_loaded_by_the_client(
    session: Session, channel: Channel
) -> None:
    lock, x = threading.Lock(), kit.placeholder("float32")

    def locked() -> float:
        with lock:
            return 2.0

    assert session.run(x + 1.0, {x: delayed(locked)()}) == 3.0
    assert not channel.calls


def test_end_of_the_session_lets_the_tasks_forget(
    cluster: LocalCluster, channel: Channel
) -> None:
    target = cluster.target("worker:0")
    with Session(ClusterTarget(target.directory, target.task, channel)) as session:
        x = kit.placeholder("float32", (None, 2))
        session.run(np.sum(x), {x: array()})
        assert feeds_on_tasks.held

    assert channel.calls == ["hold", "forget"]
    assert not feeds_on_tasks.held


def test_collection_that_is_not_here_any_more_is_a_typed_error() -> None:
    first = LazyFeed("no session", "t", "x:0", kit.constant(1.0).static)

    with pytest.raises(FailedPreconditionError, match=r"'x:0'.*restarted"):
        present([first])


def test_only_the_newest_collections_of_a_session_are_kept(channel: Channel) -> None:
    for i in range(200):
        hold("s", {str(i): i})

    assert len(feeds_on_tasks.held["s"]) == 128
    assert "199" in feeds_on_tasks.held["s"]
    assert "0" not in feeds_on_tasks.held["s"]


@pytest.mark.parametrize("places", [(), (0,), (2,), (0, 1, 2), (1, 2)])
def test_feeds_taken_apart_come_together_in_order(places: tuple[int, ...]) -> None:
    static = kit.constant(1.0).static
    feeds = [
        LazyFeed("s", str(i), "x:0", static) if i in places else i for i in range(3)
    ]

    arrays, meta = split_feeds(feeds)
    back = join_feeds(list(arrays), meta)

    kinds = [item.token if isinstance(item, LazyFeed) else item for item in back]
    assert kinds == [str(i) if i in places else i for i in range(3)]


def test_run_without_such_feeds_says_nothing_of_them() -> None:
    feeds = [np.ones(2)]

    assert split_feeds(feeds) == (feeds, {})
    assert present(feeds) is feeds
