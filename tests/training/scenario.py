"""A training of the toy in each of the ways that it can be done, and its one oracle.

The oracle uses nothing of the exchange: plain numpy does the steps again and must come
to the same bits. The bytes are those of the topologies' formulas. What a training
leaves behind is looked for after every test of the project.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

import kit
from kit.testing.cluster import LocalCluster
from kit.training.optimizers.rule import Optimizer
from tests.training import backups, compressed, toy
from tests.training.alone import Alone, by
from tests.training.paced import always_one, how
from tests.training.toy import BATCH, Params, quick_cluster, same_bits

COMPRESSORS: dict[str, tuple[Any, compressed.Oracle]] = {
    "float16": ("float16", compressed.float16),
    "int8": ("int8", compressed.int8),
    "top-k": (kit.TopK(0.05), compressed.top_k),
    "power-sgd": (kit.PowerSGD(2), compressed.power_sgd),
}
LINKS: dict[str, dict[str, Any]] = {
    "memory": {},
    "plain": {"transport": "tcp", "insecure": True},
    "aes-gcm": {"transport": "tcp"},
    "tls": {"transport": "tcp", "encryption": "tls"},
}
FORMS = ("whole", "list", "last first", "first first", "written", "written in parts")
OUTER = kit.Momentum(0.7, 0.9, use_nesterov=True)


@dataclass(frozen=True)
class Scenario:
    """How to train; at most one of compress, local_steps, aggregate, elastic is not 0.

    Workers that are not synchronous have gradients of one everywhere: then the result
    has the same bits whoever comes first.
    """

    topology: str = "ring"
    n_ps: int = 2
    n_workers: int = 3  # ten examples: 4, 3 and 3
    steps: int = 5
    optimizer: Optimizer = field(default_factory=kit.GradientDescent)
    form: str = "whole"  # in which a step hands over its gradients
    switches: Mapping[int, str] = field(default_factory=dict)  # before these steps
    batch: int = BATCH
    bucket_bytes: int = 0
    pieces: int = 1  # of each worker's examples
    compress: str = ""
    local_steps: int = 0
    aggregate: int = 0  # the first gradients of a step
    elastic: int = 0  # logical workers
    synchronous: bool = True
    link: str = "memory"
    hosts: str = ""  # a letter for each task
    keeps_trace: bool = True

    @property
    def _model(self) -> ModuleType:
        return compressed if self.compress else toy

    def check(self) -> kit.Run:
        """Train on a cluster of its own, and see that all is as it was promised."""
        chosen = {"bucket_bytes": self.bucket_bytes, "trace": self.keeps_trace}
        chosen |= LINKS[self.link]
        with quick_cluster(self.n_ps, self.n_workers, **chosen) as cluster:
            cluster.hosts = self.hosts[: len(cluster.tasks)]
            run = self._train(cluster)
            params = run.params
        assert same_bits(params, self.expected(run))
        assert not same_bits(params, self._model.initial())
        assert all(entry.agrees for entry in run.traffic), run.traffic
        assert all(measured == formula for _, measured, formula in run.moved_once)
        assert [row["step"] for row in run.metrics] == [*range(self.steps)]
        assert np.isfinite([row["loss"] for row in run.metrics]).all()
        begins = self.topology + ("" if self.synchronous else "-async")
        assert how(run) == [(begins, 0), *((n, at) for at, n in self.switches.items())]
        for table in (run.trace.transfers, run.trace.spans):
            assert (len(table) > 0) == self.keeps_trace
        return run

    def _train(self, cluster: LocalCluster) -> kit.Run:
        go, model = threading.Event(), self._model

        def step(params: Params, batch: Any) -> Any:
            assert go.wait(30)
            return (model.fit if self.synchronous else always_one)(params, batch)

        options: dict[str, Any] = {"accumulate": self.pieces, "sync": self.synchronous}
        if self.compress:
            options["compress"], _ = COMPRESSORS[self.compress]
        if self.local_steps:
            options |= {"local_steps": self.local_steps, "outer": OUTER}
        if self.aggregate:
            options["aggregate"] = self.aggregate
        if self.elastic:
            options["elastic"] = kit.Elastic(logical_workers=self.elastic)
        run = kit.train(
            *(in_form(step, self.form), model.initial(), model.DATA),
            optimizer=self.optimizer,
            topology=self.topology,
            steps=self.steps,
            batch=self.batch,
            cluster=cluster,
            **options,
        )
        for at, topology in self.switches.items():
            run.switch(topology, at=at)
        go.set()
        return run.wait(30)

    def expected(self, run: kit.Run) -> Params:
        """Return what plain numpy makes of it; `run` says who came first."""
        n, rule = self.elastic or self.n_workers, self.optimizer
        if self.compress:
            _, oracle = COMPRESSORS[self.compress]
            return compressed.replayed(self.steps, n, rule, oracle)
        if self.aggregate:
            return backups.replayed(backups.ranks(run), n, rule, self.batch)
        of_workers: Callable[[Params, int], list[Params]] = partial(
            toy.gradients, n_workers=n, batch=self.batch, n_pieces=self.pieces
        )
        if self.local_steps:
            of_workers = Alone(n, self.local_steps, by(rule), self.pieces)
            rule = OUTER
        if not self.synchronous:
            n, of_workers = 1, lambda params, _: [always_one(params, ())[1]]
        return toy.replayed(
            self.steps, n, rule, bucket=self.bucket_bytes, of_workers=of_workers
        )


def in_form(step: Callable[[Params, Any], Any], form: str) -> Callable[..., Any]:
    """Return a step function that hands over the same gradients in another form."""

    def listed(params: Params, batch: Any) -> Any:
        loss, gradients = step(params, batch)
        return loss, [gradients[name] for name in params]

    def yielded(params: Params, batch: Any) -> Any:
        loss, gradients = step(params, batch)
        names = list(gradients) if form == "first first" else list(gradients)[::-1]
        yield from ((name, gradients[name]) for name in names)
        return loss

    def written(params: Params, batch: Any, grads: Params) -> Any:
        loss, gradients = step(params, batch)
        for name, gradient in gradients.items():
            grads[name][...] = gradient
        return loss

    def in_parts(params: Params, batch: Any, grads: Params) -> Any:
        loss, gradients = step(params, batch)
        for name in reversed(gradients):
            np.copyto(grads[name], gradients[name])
            yield name
        return loss

    forms: list[Any] = [step, listed, yielded, yielded, written, in_parts]
    result: Callable[..., Any] = forms[FORMS.index(form)]
    return result
