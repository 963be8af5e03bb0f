"""What dask has yet to compute can be fed, and is loaded by those who use it."""

from __future__ import annotations

import pickle
import sys
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
from kit.session.client.dask_feeds import announced_shape, is_lazy, loaded
from kit.session.client.feeds_on_tasks import (
    LazyFeed,
    hold,
    join_feeds,
    present,
    split_feeds,
)
from kit.session.client.session import Session
from kit.testing.cluster import LocalCluster
from tests.cases import for_each

delayed: Any = dask.delayed  # type: ignore[attr-defined]  # dask's own gap

loaded_by: list[str] = []
WHOLE = np.arange(6.0).reshape(3, 2)


def load() -> Any:
    loaded_by.append(threading.current_thread().name)
    return WHOLE.copy()


def array(rows: int = 3) -> Any:
    """Return a lazy array that says that it has so many rows."""
    made = da.from_delayed(delayed(load)(), (rows, 2), dtype=float)  # type: ignore[no-untyped-call]
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
    """Give a session whose tasks load what they use."""
    target = cluster.target("worker:0")
    with Session(ClusterTarget(target.directory, target.task, channel)) as session:
        yield session


@pytest.fixture(params=["here", "on tasks"])
def either(request: pytest.FixtureRequest) -> Iterator[Session]:
    """Give a session of this process, and one whose tasks load what they use."""
    if request.param == "on tasks":
        yield request.getfixturevalue("session")
        return
    loaded_by.clear()
    with Session() as session:
        yield session


def test_each_run_loads_once_what_its_feeds_share(either: Session) -> None:
    x, y, values = kit.placeholder("float64"), kit.placeholder("float64"), array()

    for runs in (1, 2):
        result = either.run(x + y, {x: values * 2, y: values * 3})
        assert np.array_equal(result, WHOLE * 5)
        assert len(loaded_by) == runs


def test_other_feeds_keep_their_places(either: Session) -> None:
    a, b, c = (kit.placeholder("float64", (None, 2), name=name) for name in "abc")
    ones = np.ones((3, 2))

    result = either.run(
        [a + b, b - c, c * 1.0, b], {a: ones, (b, c): (array(), ones * 2)}
    )

    expected = [WHOLE + 1, WHOLE - 2, ones * 2, WHOLE]
    for value, wanted in zip(result, expected, strict=True):
        assert np.array_equal(value, wanted)


def test_wrong_shape_that_is_announced_is_refused_before_anything_is_loaded(
    either: Session, channel: Channel
) -> None:
    x = kit.placeholder("float32", (None, 4))

    with pytest.raises(ValueError, match=r"\[\?, 4\].*\[3, 2\]"):
        either.run(x * 1.0, {x: array()})

    assert not channel.calls
    assert not loaded_by


def test_array_of_unknown_length_is_checked_when_it_is_there() -> None:
    x, lazy = kit.placeholder("float32", (1, 2)), array()
    chosen = lazy[lazy[:, 0] > 1]

    assert announced_shape(chosen) == (None, 2)
    with Session() as session, pytest.raises(ValueError, match=r"\[1, 2\].*\[2, 2\]"):
        session.run(x * 1.0, {x: chosen})


def read_page() -> None:
    raise OSError("the disk is gone")


def test_error_while_loading_here_comes_through() -> None:
    x = kit.placeholder("float32")

    with Session() as session, pytest.raises(OSError, match="the disk is gone"):
        session.run(x * 1.0, {x: delayed(read_page)()})


def test_tensors_and_plain_values_are_not_lazy_and_without_dask_nothing_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, plain, lazy = kit.placeholder("float32"), np.ones(2), array()

    assert not is_lazy(x)
    assert is_lazy(lazy)
    assert loaded([plain, [1]])[0] is plain
    monkeypatch.delitem(sys.modules, "dask")
    assert not is_lazy(lazy)


# -- loaded by the tasks ---------------------------------------------------------------


def test_it_travels_once_and_is_loaded_by_the_task_that_uses_it(
    cluster: LocalCluster, channel: Channel
) -> None:
    target, values = cluster.target("worker:0"), array()
    with kit.device("/job:ps/task:0"):
        x = kit.placeholder("float32", (None, 2))
        total: Any = np.sum(x)

    with Session(ClusterTarget(target.directory, target.task, channel)) as session:
        for runs in (1, 2, 3):
            assert session.run(total, {x: values}) == 15.0
            assert len(loaded_by) == runs
        assert channel.calls == ["hold"]
        assert feeds_on_tasks.held

    assert threading.current_thread().name not in loaded_by
    assert channel.calls == ["hold", "forget"]
    assert not feeds_on_tasks.held


def test_wrong_shape_that_was_not_announced_ends_the_run_with_both_shapes(
    session: Session,
) -> None:
    x = kit.placeholder("float32", (1, 2))

    with pytest.raises(UnknownError, match=r"'Placeholder.*\[1, 2\].*\[3, 2\]"):
        session.run(x * 1.0, {x: array(rows=1)})


def test_error_while_loading_names_the_tensor_and_keeps_the_traceback(
    session: Session,
) -> None:
    x = kit.placeholder("float32", name="images")

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


def test_only_the_newest_collections_of_a_session_are_kept_others_are_typed_errors(
    channel: Channel,
) -> None:
    for i in range(200):
        hold("s", {str(i): i})

    assert list(feeds_on_tasks.held["s"]) == [str(i) for i in range(72, 200)]
    static = kit.constant(1.0).static
    for session in ("s", "no session"):
        with pytest.raises(FailedPreconditionError, match=r"'x:0'.*restarted"):
            present([LazyFeed(session, "0", "x:0", static)])


@for_each("places", [(), (0,), (2,), (0, 1, 2), (1, 2)])
def test_feeds_taken_apart_come_together_in_order(places: tuple[int, ...]) -> None:
    static = kit.constant(1.0).static
    feeds: list[Any] = [
        LazyFeed("s", str(i), "x:0", static) if i in places else i for i in range(3)
    ]

    arrays, meta = split_feeds(feeds)
    back = join_feeds(list(arrays), meta)

    kinds = [item.token if isinstance(item, LazyFeed) else item for item in back]
    assert kinds == [str(i) if i in places else i for i in range(3)]
    if not places:
        assert (list(arrays), meta, list(present(feeds))) == (feeds, {}, feeds)
