"""What a compressor may not be, do or go together with is said in a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import GradientMismatch, InvalidArgumentError, NotFinite, StepFailed
from kit.exchange import Compressor, Exchanged, Spec
from kit.exchange.compression.compressor import Exchange
from kit.exchange.compression.stages import checked_specs
from kit.testing.cluster import LocalCluster
from tests.cases import for_each
from tests.training.compressed import DATA, fit, initial
from tests.training.toy import BATCH, same_bits


def begin(
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
        begin(cluster, Hasty()).wait(20)


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
    run = begin(cluster, Own(change))

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
    good = begin(cluster, None, topology="ps", steps=2).wait(20)
    run = begin(cluster, Own("nan"), topology="ps")
    with pytest.raises(NotFinite):
        run.wait(20)

    assert run.step == 2
    assert same_bits(run.params, good.params)


def test_a_gradient_too_large_for_16_bits_is_refused(cluster: LocalCluster) -> None:
    def steep(params: Any, batch: Any) -> Any:
        loss, result = fit(params, batch)
        return loss, result | {"b": np.full(6, 1e6)}

    with pytest.raises(NotFinite, match=r"float16 holds numbers up to 65504"):
        begin(cluster, "float16", step=steep).wait(20)


@pytest.mark.slow
def test_a_training_that_resumes_without_its_compressor_is_refused(
    tmp_path: Any, cluster: LocalCluster
) -> None:
    saved = kit.Checkpoints(str(tmp_path))
    begin(cluster, "int8", steps=2, checkpoint=saved).wait(20)

    with pytest.raises(InvalidArgumentError, match="`compress` has yet to send"):
        begin(cluster, None, checkpoint=saved)

    assert kit.load_checkpoint(tmp_path).states == {"worker:0": {}, "worker:1": {}}
