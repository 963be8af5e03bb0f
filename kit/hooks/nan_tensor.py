"""Ends a training whose loss is no longer a number."""

from __future__ import annotations

from typing import Any

import numpy as np

from kit.hooks import environment
from kit.hooks.hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)


class NanLossDuringTrainingError(RuntimeError):
    """The loss has become NaN.

    Raised by a `NanTensorHook`, which ends the training. The caller lowers the learning
    rate or looks at the data, and goes on from an older checkpoint. A retry from the
    same state mostly meets it again.
    """

    def __str__(self) -> str:
        return ". ".join(map(str, self.args)) or "NaN loss during training."


class NanTensorHook(SessionRunHook):
    """Raises `NanLossDuringTrainingError` when the loss is NaN, or asks for the end.

    It asks with `fail_on_nan_loss=False`. Infinity is not a NaN, and passes.
    """

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True) -> None:
        self._loss, self._fails = loss_tensor, fail_on_nan_loss

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Let the loss be run along."""
        return SessionRunArgs(self._loss)

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> None:
        """Look at the loss; raises `ValueError` if it is several numbers."""
        loss = np.asarray(run_values.results)
        if loss.size > 1:
            raise ValueError(
                f"a loss is one number, and this one has the shape {list(loss.shape)}: "
                f"give its mean or its sum."
            )
        if not np.isnan(loss).any():
            return
        text = "Model diverged with loss = NaN."
        if self._fails:
            environment.current().error(text)
            raise NanLossDuringTrainingError
        environment.current().warning(text)
        run_context.request_stop()
