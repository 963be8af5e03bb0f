"""What a step function keeps from step to step, in its parameter `state`."""

from __future__ import annotations

import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as some

import kit
from kit.errors import DataLossError, InvalidArgumentError, StepFailed
from kit.exchange import Compressor, Exchanged
from kit.testing.cluster import LocalCluster, local_cluster
from kit.training.worker.kept_state import check, pack, unpack
from tests.cases import for_each
from tests.training.saved import resumed_at, train
from tests.training.toy import (
    BATCH,
    DATA,
    begin,
    fit,
    initial,
    quick_cluster,
)

TYPES = some.scalar_dtypes()
names = st.text(st.characters(), min_size=1, max_size=20)
values = st.one_of(
    st.booleans(),
    st.integers(-(2**63) + 1, 2**63 - 1),
    st.floats(),
    some.arrays(TYPES, some.array_shapes(min_dims=0, min_side=0)),
    some.arrays(TYPES, ()).map(lambda array: array[()]),
)


def like(value: Any, other: Any) -> bool:
    same_type = type(value) is type(other)
    arrays = np.asarray(value), np.asarray(other)
    facts = [(a.dtype, a.shape, a.tobytes()) for a in arrays]
    return same_type and facts[0] == facts[1]


@given(st.dictionaries(names, values, max_size=4))
def test_what_is_kept_is_the_same_bits_and_types_after_a_copy(
    state: dict[str, Any],
) -> None:
    check(state, "worker:0", 3)
    result = unpack(pack(state))

    assert list(result) == list(state)
    assert all(like(result[name], value) for name, value in state.items())


@pytest.mark.parametrize(
    "value", [[1, 2], None, "text", np.array([None]), 2**63, 1j, {"a": 1}]
)
def test_what_is_neither_an_array_nor_a_number_is_refused_by_name(value: Any) -> None:
    with pytest.raises(StepFailed, match=r"worker:0, step 3: state\['h'\] is"):
        check({"h": value}, "worker:0", 3)


ODD_NAMES = ["file", "ile", "llow_pickle", "rr_0", "a\0b", "a\0", "\ud800", "x.npy"]


def test_any_text_is_a_name() -> None:
    state = {name: np.array([n, 2]) for n, name in enumerate(ODD_NAMES)}
    check(state, "worker:0", 3)

    result = unpack(pack(state))

    assert [*result] == ODD_NAMES
    assert all(like(result[name], value) for name, value in state.items())


def head_of(packed: bytes) -> list[Any]:
    n_bytes = int.from_bytes(packed[:8], "little")
    return list(json.loads(packed[8 : 8 + n_bytes]))


def packed_as(head: object, body: bytes) -> bytes:
    text = json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + body


PAIR = np.array([1, 2], np.float32)
ROW = ["a", "mean", "'<f4'", [2], "C"]


@for_each(
    "row",
    [
        *(["a", "mean", "'<f4'", n, "C"] for n in ([3], [2**40], [-2], [2.0])),
        *(["a", "mean", "'<f4'", n, "C"] for n in ([0, 2**70], [1] * 70, 2)),
        *(
            ["a", "mean", dtype, [2], "C"]
            for dtype in ("'|O'", "'<U0'", "1", "open", "(")
        ),
        *(["a", "mean", item, [2], "C"] for item in ("[" * 900, "'" + "x" * 2000)),
        *([kind, "mean", "'<f4'", [2], "C"] for kind in ("i", "z", 7, None)),
        ["a", "mean", "'<f4'", [2], "X"],
        ["a", "mean", "'<f4'"],
        7,
    ],
)
def test_kept_state_that_contradicts_itself_is_refused(row: object) -> None:
    body = PAIR.tobytes()
    assert like(unpack(packed_as([ROW], body))["mean"], PAIR)

    with pytest.raises(DataLossError, match="had kept is damaged"):
        unpack(packed_as([row], body))


@pytest.mark.slow
def test_kept_state_takes_no_more_memory_than_its_bytes() -> None:
    file = io.BytesIO()
    np.savez_compressed(file, azeros=np.zeros(32 << 20))  # 256 MiB in 255 KiB
    claims = packed_as([["a", "mean", "'<f4'", [1 << 30], "C"]], bytes(1 << 10))
    nested = len(b"[" * 100_000).to_bytes(8, "little") + b"[" * 100_000

    for packed in (file.getvalue(), claims, nested, b"\xff" * 100, b"\1"):
        tracemalloc.start()
        try:
            with pytest.raises(DataLossError, match="had kept is damaged"):
                unpack(packed)
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
        finally:
            tracemalloc.stop()


def test_no_cut_or_longer_kept_state_is_taken() -> None:
    packed = pack({"mean": PAIR, "n": 3})
    assert [row[1] for row in head_of(packed)] == ["mean", "n"]

    for other in (*(packed[:n] for n in range(1, len(packed))), packed + b"x"):
        with pytest.raises(DataLossError, match="had kept is damaged"):
            unpack(other)


def test_a_name_is_a_text() -> None:
    with pytest.raises(StepFailed, match=r"state\[3\]"):
        check({3: 1.0}, "worker:0", 3)  # type: ignore[dict-item]


def test_an_array_with_gaps_becomes_one_without() -> None:
    state = {"a": np.arange(10)[::2]}
    check(state, "worker:0", 0)
    assert state["a"].flags.c_contiguous
    assert state["a"].tolist() == [0, 2, 4, 6, 8]


@pytest.fixture
def cluster() -> Any:
    with local_cluster(ps=1, worker=2) as result:
        yield result


@pytest.mark.parametrize("sync", [True, False])
def test_each_worker_has_a_state_of_its_own_that_lasts_over_steps_and_switches(
    cluster: LocalCluster, sync: bool
) -> None:
    seen: dict[int, list[int]] = {}

    def step(params: Any, batch: Any, state: dict[str, Any]) -> Any:
        state["n"] = state.get("n", 0) + 1
        seen.setdefault(id(state), []).append(state["n"])
        return fit(params, batch)

    run = begin(cluster, step, steps=20, sync=sync)
    run.wait(20)

    assert len(seen) == 2
    for counts in seen.values():
        assert counts == list(range(1, len(counts) + 1))
    assert sum(map(len, seen.values())) >= 20


def test_a_new_training_begins_with_an_empty_state(cluster: LocalCluster) -> None:
    first: list[bool] = []

    def step(params: Any, batch: Any, state: dict[str, Any]) -> Any:
        first.append(not state)
        state["was_here"] = True
        return fit(params, batch)

    for _ in range(2):
        begin(cluster, step, steps=3).wait(20)

    assert sum(first) == 4  # two workers, twice


def test_a_step_that_keeps_something_else_ends_the_training(
    cluster: LocalCluster,
) -> None:
    def step(params: Any, batch: Any, state: dict[str, Any]) -> Any:
        state["words"] = ["a"]
        return fit(params, batch)

    run = begin(cluster, step, steps=3)
    with pytest.raises(StepFailed, match=r"state\['words'\] is list; keep arrays"):
        run.wait(20)


def average(params: Any, batch: Any, state: dict[str, Any]) -> Any:
    """Do a step on examples less their running mean."""
    x, y = batch
    state["n"] = state.get("n", 0) + 1
    state["mean"] = 0.9 * state.get("mean", np.zeros(3, x.dtype)) + x.mean(0)
    return fit(params, (x - state["mean"] / state["n"], y))


def test_what_other_workers_kept_is_refused(tmp_path: Path) -> None:
    with local_cluster(worker=2) as cluster:
        train(cluster, tmp_path, 4, step=average, topology="ring").wait(20)
        with pytest.raises(
            InvalidArgumentError,
            match="state/worker:0, state/worker:1; this training has none",
        ):
            train(cluster, tmp_path, 9, topology="ring")
    with (
        local_cluster(worker=3) as cluster,
        pytest.raises(InvalidArgumentError, match="Train with the same workers"),
    ):
        train(cluster, tmp_path, 9, step=average, topology="ring")


def test_a_state_that_is_empty_is_restored_so(tmp_path: Path) -> None:
    def step(params: Any, batch: Any, state: dict[str, Any]) -> Any:
        assert state == {}
        return fit(params, batch)

    with local_cluster(worker=2) as cluster:
        for steps in (3, 6):
            run = train(cluster, tmp_path, steps, step=step, topology="ring").wait(20)
    assert run.step == 6


class Unchanged(Compressor):
    """Sends gradients as they are, and keeps nothing."""

    def stages(self, specs: Any, n_workers: int) -> Any:
        return [list(specs)]

    def exchange(self, gradients: Any, state: Any, turn: Any) -> Any:
        sums = yield dict(gradients)
        return Exchanged({k: item / turn.n_workers for k, item in sums.items()})


@pytest.mark.slow
def test_a_compressor_that_keeps_nothing_ties_no_checkpoint_to_its_workers(
    tmp_path: Path,
) -> None:
    where: dict[str, Any] = {"checkpoint": tmp_path / "saved", "topology": "ring"}
    for n_workers, steps in [(3, 2), (2, 4)]:
        with quick_cluster(0, n_workers) as cluster:
            how = {"steps": steps, "cluster": cluster, "batch": BATCH, **where}
            run = kit.train(fit, initial(), DATA, compress=Unchanged(), **how)
            run.wait(20)

    assert run.step == 4
    assert resumed_at(run) == 2
