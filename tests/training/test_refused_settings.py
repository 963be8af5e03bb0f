"""An object with settings that cannot be is refused when it is made, with the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kit
import kit.data
from kit.errors import InvalidArgumentError
from kit.exchange.compression.quantization import Int8, compressor_of
from kit.training.optimizers.rules import by_name, from_plain
from tests.cases import for_each
from tests.training.toy import fit

untyped: Any = kit  # what is given is wrong on purpose
hooks: Any = kit.hooks
compressor: Any = compressor_of
ADAM, ADAMW = kit.Adam(0.01), kit.AdamW(0.01, weight_decay=0.0)
GROUPS = kit.Groups(ADAMW, {"scale": {"weight_decay": 0.3}})
NOTHING = np.zeros(0)
LABELLED = np.arange(60), np.repeat([0, 1, 2], 20)


def stops(**settings: Any) -> Any:
    return hooks.EarlyStoppingHook(fit, None, **settings)


OPTIMIZERS: list[tuple[Callable[[], object], str]] = [
    (lambda: untyped.GradientDescent(float("nan")), "learning_rate is nan"),
    (lambda: untyped.GradientDescent(float("inf")), "learning_rate is inf"),
    (lambda: untyped.GradientDescent("0.1"), "learning_rate is '0.1'"),
    (lambda: untyped.GradientDescent(True), "learning_rate is True"),
    (lambda: untyped.Momentum(0.1, use_nesterov=1), "use_nesterov is 1"),
    (lambda: untyped.RMSProp(decay=1.5), "decay is 1.5; give a number at least 0"),
    (lambda: untyped.RMSProp(epsilon=-1e-9), "epsilon is -1e-09"),
    (lambda: untyped.Adam(beta1=1.0), "beta1 is 1.0; give .* below 1"),
    (lambda: untyped.Adam(beta2=-0.1), "beta2 is -0.1"),
    (lambda: by_name("adagrads"), "did you mean 'adagrad'"),
    (lambda: by_name("zzz"), "there are gradient_descent, momentum, adagrad"),
    (lambda: by_name("adam", lr=1.0), "learning_rate, beta1, beta2, epsilon"),
    (lambda: by_name("momentum"), "settings are learning_rate, momentum"),
    (lambda: from_plain({"learning_rate": 1.0}), "no optimizer is called ''"),
    (lambda: from_plain({"name": ["adam"]}), "no optimizer is called"),
    (lambda: untyped.Averaged("adam", 0.9), "rule is 'adam'"),
    (lambda: untyped.Averaged(kit.Adam, 0.9), "give an optimizer such as"),
    (lambda: untyped.Averaged(ADAM, 1.0), "decay is 1.0"),
    (lambda: untyped.Averaged(ADAM, "0.9"), "decay is '0.9'"),
    (lambda: untyped.DelayCompensated("adam", 0.1), "give an optimizer"),
    (lambda: untyped.DelayCompensated(ADAM, -1.0), "at least 0"),
    (lambda: untyped.DelayCompensated(ADAM, "1"), "give a number"),
    (lambda: untyped.Groups(3, {}), "rule is 3"),
    (lambda: untyped.Groups(ADAMW, 3), "give settings by pattern"),
    (lambda: untyped.Groups(ADAMW, {"(": {}}), "is not a regular expression"),
    (lambda: untyped.Groups(ADAMW, {"b": {"rate": 1}}), "those of adamw are learning"),
    (lambda: untyped.Groups(ADAMW, {"b": {"beta1": 2.0}}), "beta1"),
    (lambda: untyped.Groups(ADAMW, {"b": ADAM}), "all groups keep the same"),
    (lambda: GROUPS.apply(NOTHING, NOTHING, [], NOTHING, 0), "their names"),
    (lambda: kit.Cosine(-0.1, 10), "rate is -0.1"),
    (lambda: kit.Cosine(0.1, 10, warmup=10), "does not end before step 10"),
    (lambda: kit.OneCycle(0.1, 3), "more than one step"),
    (lambda: kit.WarmUp(0.1, 0), "steps is 0; give a number of at least 1"),
]
COMPRESSORS: list[tuple[Callable[[], object], str]] = [
    (lambda: compressor("float-16"), "Did you mean 'float16'"),
    (lambda: compressor("zip"), r"give 'float16', 'int8', kit\.TopK\(0\.01\), kit"),
    (lambda: compressor(16), "compress is 16"),
    (lambda: compressor(kit.TopK), r"class TopK; .* such as TopK\(\.\.\.\)"),
    (lambda: compressor("median"), r"such as kit\.Median\(\)"),
    (lambda: untyped.TopK(0), "share is 0; .* more than 0"),
    (lambda: untyped.TopK(1.5), "share is 1.5"),
    (lambda: untyped.TopK("all"), "share is 'all'"),
    (lambda: untyped.TopK(float("nan")), "share is nan"),
    (lambda: untyped.PowerSGD(0), "rank is 0; .* from 1 on"),
    (lambda: untyped.PowerSGD(1.5), "rank is 1.5"),
    (lambda: untyped.PowerSGD(True), "rank is True"),
    (lambda: Int8().stages([], 101), "too coarse for 101 .* compress='float16'"),
    (lambda: untyped.TrimmedMean(-1), "whole number from 0"),
    (lambda: untyped.Krum(True), "whole number from 0"),
    (lambda: kit.TrimmedMean(1).check(2), "at least 3 workers"),
    (lambda: kit.Krum(1).check(4), "at least 5 workers"),
    (lambda: kit.MajorityVote().stages([], 128), "127 workers"),
    *(
        (lambda norm=norm: untyped.ClipByNorm(norm), "give a length above 0")
        for norm in (0, -1.0, float("nan"), float("inf"), True, "1")
    ),
    (lambda: untyped.LossScale(0.5), "give"),
    (lambda: untyped.LossScale(8, growth_interval=0), "give"),
    (lambda: untyped.LossScale(8, dtype="int8"), "give"),
]
OTHERS: list[tuple[Callable[[], object], str]] = [
    (lambda: untyped.Checkpoints("folder", every_steps=-1), "every_steps is -1"),
    (lambda: untyped.Checkpoints("folder", every_steps=1.5), "every_steps is 1.5"),
    (lambda: untyped.Checkpoints("folder", every_s=float("nan")), "every_s is nan"),
    (lambda: untyped.Checkpoints("folder", keep=1), "at least 2"),
    (lambda: hooks.ValidationHook(3, None, 1), "function is int"),
    (lambda: hooks.ValidationHook(fit, None, 0), "every is 0"),
    (lambda: hooks.ValidationHook(fit, None, 1.5), "every is 1.5"),
    *(
        (lambda n=n: hooks.ValidationHook(fit, None, decay=n), "below 1, such as")
        for n in (1.0, -0.1, "0.9")
    ),
    (lambda: stops(patience=0), "patience is 0; give 1"),
    (lambda: stops(mode="least"), "mode is 'least'; give 'min'"),
    (lambda: stops(min_delta=-1), "min_delta is -1; give a number of at least 0"),
    (lambda: hooks.LoggerHook(every=0), "every is 0"),
    (lambda: hooks.LoggerHook(hyperparameters={"n": [1, 2]}), r"'n': \[1, 2\]"),
    (lambda: kit.data.by_label((LABELLED[0], LABELLED[1][:-1])), "give labels="),
    (lambda: kit.data.dirichlet(LABELLED, 0.0), "above 0"),
    (lambda: kit.data.by_label(LABELLED).source(62, 0, 0, 2), "has 30 examples"),
]


@for_each(("make", "said"), [*OPTIMIZERS, *COMPRESSORS, *OTHERS])
def test_settings_that_cannot_be_are_refused(
    make: Callable[[], object], said: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        make()
