"""Compressed gradients: their bits, other workers than before, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import GradientMismatch, InvalidArgumentError, NotFinite, StepFailed
from kit.exchange import Compressor, Exchanged, Spec, register
from kit.exchange.compression.compressor import Exchange
from kit.exchange.compression.stages import checked_specs
from kit.testing.cluster import LocalCluster
from tests.cases import for_each
from tests.cluster.hub import Hub, forget_topologies
from tests.training import compressed
from tests.training.compressed import DATA, Oracle, fit, initial, replayed
from tests.training.scenario import COMPRESSORS, Scenario
from tests.training.toy import BATCH, Hasty, quick_cluster, same_bits

TOPOLOGIES = ["ps", "ring", "ring-whole", "mesh", "hierarchical"]


@pytest.fixture
def three() -> Iterator[LocalCluster]:
    with quick_cluster(2, 3) as cluster:  # ten examples: 4, 3 and 3
        yield cluster


def begin(cluster: LocalCluster, *, step: Any = fit, **changes: Any) -> kit.Run:
    options: dict[str, Any] = {"steps": 7, "batch": BATCH, "cluster": cluster} | changes
    return kit.train(step, initial(), DATA, **options)


@pytest.mark.slow
@for_each(("compressor", "oracle"), COMPRESSORS.values())
def test_a_topology_and_an_optimizer_of_ones_own_keep_the_bits(
    compressor: Any, oracle: Oracle, three: LocalCluster, monkeypatch: Any
) -> None:
    forget_topologies(monkeypatch)
    register(Hub())
    options: dict[str, Any] = {"compress": compressor, "optimizer": Hasty()}

    run = begin(three, topology="hub", **options).wait(20)

    assert same_bits(run.params, replayed(7, 3, Hasty(), oracle))
    assert all(entry.agrees for entry in run.traffic)


@pytest.mark.slow
@for_each("compress", COMPRESSORS)
def test_switches_move_nothing_and_keep_what_was_not_sent_yet(compress: str) -> None:
    switches = dict(enumerate(TOPOLOGIES[1:] + TOPOLOGIES[:1], 2))
    how: dict[str, Any] = {"optimizer": kit.Momentum(0.02), "compress": compress}

    run = Scenario("ps", steps=9, switches=switches, **how).check()

    # Every worker has all parameters and all slots.
    assert [measured for _, measured, _ in run.moved_once][1:] == [0] * 5


@pytest.mark.slow
def test_small_buckets_change_no_sum_of_whole_numbers() -> None:
    runs = []
    for bucket_bytes in (1, 24, 0):
        with quick_cluster(1, 2, bucket_bytes=bucket_bytes) as cluster:
            run = begin(cluster, compress="int8", topology="ring").wait(20)
        runs.append(run)
        assert all(entry.agrees for entry in run.traffic)

    assert same_bits(runs[0].params, runs[1].params)
    assert same_bits(runs[0].params, runs[2].params)


@pytest.mark.slow
def test_all_elements_of_top_k_are_the_training_without_it(three: LocalCluster) -> None:
    runs = [
        begin(three, compress=compressor, topology="ring").wait(20)
        for compressor in (None, kit.TopK(1))
    ]

    assert same_bits(runs[0].params, runs[1].params)


def test_the_bytes_of_a_step_are_known_before_it_begins(three: LocalCluster) -> None:
    run = begin(three, compress=kit.PowerSGD(2), topology="ps", steps=1).wait(20)
    # P is 8 x 2 and Q is 6 x 2, of float32; b and scale travel whole.
    n_bytes = 4 * 2 * (8 + 6) + 8 * (6 + 1)

    sent = {entry.task: entry.sent for entry in run.traffic}

    assert [sent[f"worker:{n}"] for n in range(3)] == [n_bytes] * 3
    assert sent["ps:0"] + sent["ps:1"] == 3 * n_bytes


# -- resumed on other workers ----------------------------------------------------------

SLOW = 0.01


class KeepsBack(Compressor):
    """Sends nothing before step 5, and then all that it had kept back."""

    def stages(self, specs: Sequence[Any], n_workers: int) -> Any:
        return [list(specs)]

    def exchange(self, gradients: Any, state: Any, turn: Any) -> Any:
        sent = gradients
        if turn.step < 5:
            sent = {name: np.zeros_like(g) for name, g in gradients.items()}
        state["step"], state["worker"] = np.array(turn.step), np.array(turn.worker)
        sums = yield sent
        n = turn.n_workers
        return Exchanged({k: s / s.dtype.type(n) for k, s in sums.items()}, sent)


def trained_by(n_workers: int, folder: Path, steps: int, **options: Any) -> kit.Run:
    how = {"optimizer": kit.GradientDescent(SLOW), "compress": KeepsBack()} | options
    with quick_cluster(0, n_workers) as cluster:
        run = kit.train(
            fit,
            initial(),
            DATA,
            steps=steps,
            batch=BATCH,
            topology="ring",
            checkpoint=folder,
            cluster=cluster,
            **how,
        ).wait(30)
        assert run.params
    return run


def mean_gradients(step: int, n_workers: int) -> dict[str, Any]:
    own = compressed.gradients(initial(), step, n_workers)
    return {name: sum(g[name] for g in own) / n_workers for name in own[0]}


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [2, 4])
def test_what_was_still_to_be_sent_comes_in_full_from_other_workers(
    tmp_path: Path, n_workers: int
) -> None:
    trained_by(3, tmp_path, steps=5)

    with pytest.warns(UserWarning, match="what 3 workers had yet to send was shared"):
        run = trained_by(n_workers, tmp_path, steps=6)

    steps = [mean_gradients(step, 3) for step in range(5)]
    steps.append(mean_gradients(5, n_workers))
    for name, value in initial().items():
        expected = value - SLOW * sum(step[name] for step in steps)
        assert np.allclose(run.params[name], expected, rtol=1e-5, atol=1e-7), name
    assert not np.allclose(run.params["w"], initial()["w"])


def test_what_a_compressor_kept_and_workers_had_unlike_is_named_as_lost(
    tmp_path: Path,
) -> None:
    trained_by(3, tmp_path, steps=2)

    with pytest.warns(UserWarning, match="'state/worker' differed and is lost") as said:
        trained_by(2, tmp_path, steps=3)

    assert "state/step" not in str(said[0].message)


def test_what_a_step_function_keeps_still_needs_the_same_workers(
    tmp_path: Path,
) -> None:
    def counting(params: Any, batch: Any, state: dict[str, Any]) -> Any:
        state["n"] = state.get("n", 0) + 1
        return fit(params, batch)

    with quick_cluster(0, 3) as cluster:
        options: dict[str, Any] = {"batch": BATCH, "checkpoint": tmp_path}
        options |= {"compress": "int8", "topology": "ring"}
        what = counting, initial(), DATA
        kit.train(*what, steps=2, cluster=cluster, **options).wait(30)
    with (
        quick_cluster(0, 2) as cluster,
        pytest.raises(InvalidArgumentError, match="Train with the same workers"),
    ):
        kit.train(*what, steps=3, cluster=cluster, **options)


# -- refused ---------------------------------------------------------------------------


def begin_with(
    cluster: LocalCluster, compress: Any, step: Any = fit, **more: Any
) -> kit.Run:
    options: dict[str, Any] = {"steps": 5, "batch": BATCH, "cluster": cluster} | more
    return kit.train(step, initial(), DATA, compress=compress, **options)


@for_each(
    ("stages", "words"),
    [
        ([], "0 stages"),
        ([[]], "at least one array"),
        ([[Spec("a", (2,), "float32"), Spec("a", (), "int8")]], "'a' twice in stage 0"),
        ([[Spec("a", (2,), "int64")]], "dtypes are float32, .*int32"),
        ([[Spec("a", (-1,), "int8")]], "no length is below 0"),
        ([["a", (2,), "int8"]], r"list of kit\.exchange\.Spec"),
        (None, "gave None"),
    ],
)
def test_stages_that_cannot_be_laid_out_are_refused(stages: Any, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"(?s)Own.*{words}"):
        checked_specs(stages, "Own")


def test_an_exchange_that_is_no_generator_is_named(cluster: LocalCluster) -> None:
    class Hasty(Compressor):
        def stages(self, specs: Any, n_workers: int) -> Any:
            return [specs]

        def exchange(self, gradients: Any, state: Any, turn: Any) -> Any:
            raise LookupError("at once")

    with pytest.raises(StepFailed, match="compress=Hasty raised LookupError: at once"):
        begin_with(cluster, Hasty()).wait(20)


class Own(Compressor):
    """Sends everything as it is, but for what a test changes."""

    def __init__(self, change: str) -> None:
        self.change = change

    def stages(self, specs: Any, n_workers: int) -> Any:
        return [specs, [Spec("more", (2,), "float32")]]

    def exchange(self, gradients: Any, state: Any, turn: Any) -> Exchange:
        change = self.change if (turn.step, turn.worker) == (2, 1) else ""
        inputs = dict(gradients)
        match change:
            case "raise":
                raise KeyError("no such table")
            case "name":
                inputs["other"] = inputs.pop("w")
            case "shape":
                inputs["w"] = inputs["w"].T
            case "dtype":
                inputs["w"] = inputs["w"].astype(np.float16)
            case "nan":
                inputs["w"] = inputs["w"] * np.float32(np.nan)
            case "early":
                return Exchanged(gradients)
            case "state":
                state["words"] = ["a"]
        sums = yield inputs
        yield {"more": np.zeros(2, np.float32)}
        mean = {name: tensor * tensor.dtype.type(0.5) for name, tensor in sums.items()}
        if change == "late":
            yield {}
        if change == "nothing":
            return None  # type: ignore[return-value]
        if change == "mean":
            mean["b"] = mean["b"].astype(np.float32)
        return Exchanged(mean)


@pytest.mark.slow
@for_each(
    ("change", "error", "words"),
    [
        ("raise", StepFailed, "raised KeyError: 'no such table'"),
        ("name", GradientMismatch, r"gave .*'other'.* in stage 0, where .*'w'\] were"),
        ("shape", GradientMismatch, r"float32\[6, 8\] for 'w' .*\[8, 6\] was due"),
        ("dtype", GradientMismatch, r"float16\[8, 6\] for 'w' in stage 0, .*float32"),
        ("nan", NotFinite, "48 NaN or infinite values of 48 for 'w' in stage 0"),
        ("early", GradientMismatch, "returned after 0 of 2 stages"),
        ("late", GradientMismatch, "one more stage than the 2"),
        ("nothing", GradientMismatch, "returned NoneType; return .*Exchanged"),
        ("mean", GradientMismatch, r"float32\[6\] for 'b' as mean, where float64"),
        ("state", GradientMismatch, r"keeps state\['words'\] as list; keep arrays"),
    ],
)
def test_a_compressor_that_fails_is_named_with_worker_and_step(
    change: str, error: type[Exception], words: str, cluster: LocalCluster
) -> None:
    run = begin_with(cluster, Own(change))

    with pytest.raises(error, match=words) as caught:
        run.wait(20)

    text = str(caught.value)
    assert "/job:worker/task:1" in text
    assert "step 2" in text
    assert "compress=Own" in text


@pytest.mark.slow
def test_a_step_that_a_compressor_refuses_leaves_the_parameters_of_the_step_before(
    cluster: LocalCluster,
) -> None:
    good = begin_with(cluster, None, topology="ps", steps=2).wait(20)
    run = begin_with(cluster, Own("nan"), topology="ps")
    with pytest.raises(NotFinite):
        run.wait(20)

    assert run.step == 2
    assert same_bits(run.params, good.params)


def test_a_gradient_too_large_for_16_bits_is_refused(cluster: LocalCluster) -> None:
    def steep(params: Any, batch: Any) -> Any:
        loss, result = fit(params, batch)
        return loss, result | {"b": np.full(6, 1e6)}

    with pytest.raises(NotFinite, match=r"float16 holds numbers up to 65504"):
        begin_with(cluster, "float16", step=steep).wait(20)


@pytest.mark.slow
def test_a_training_that_resumes_without_its_compressor_is_refused(
    tmp_path: Any, cluster: LocalCluster
) -> None:
    saved = kit.Checkpoints(str(tmp_path))
    begin_with(cluster, "int8", steps=2, checkpoint=saved).wait(20)

    with pytest.raises(InvalidArgumentError, match="`compress` has yet to send"):
        begin_with(cluster, None, checkpoint=saved)

    assert kit.load_checkpoint(tmp_path).states == {"worker:0": {}, "worker:1": {}}
