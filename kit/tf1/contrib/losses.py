"""`tf.contrib.losses` and `slim.losses`: those of `tf.losses`, with the labels second.

Pure. What is not here is the same under `tf.losses`.
"""

from __future__ import annotations

from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any

from kit.tf1 import losses
from kit.tf1.losses import add_loss as add_loss
from kit.tf1.losses import compute_weighted_loss as compute_weighted_loss
from kit.tf1.losses import get_losses as get_losses
from kit.tf1.losses import get_regularization_losses as get_regularization_losses
from kit.tf1.losses import get_total_loss as get_total_loss
from kit.tf1.not_offered import refusing
from kit.tf1.signature import arguments_of


def _predictions_first(loss: Any, labels: Any = Parameter.empty) -> Any:
    """Return a loss of `tf.losses` with its first two arguments exchanged.

    It is added to the usual collection, and reduced in the usual way.
    """
    rest = dict(signature(loss).parameters)
    first, second = list(rest)[:2]
    ordered = [rest.pop(second), rest.pop(first).replace(default=labels)]
    for name in ("loss_collection", "reduction"):
        del rest[name]
    own = Signature([*ordered, *rest.values()])

    @wraps(loss)
    def exchanged(*args: Any, **kwargs: Any) -> Any:
        values = arguments_of(loss.__name__, own, args, kwargs)
        return loss(**{first: labels, **values})

    exchanged.__signature__ = own  # type: ignore[attr-defined]
    return exchanged


softmax_cross_entropy = _predictions_first(losses.softmax_cross_entropy)
sparse_softmax_cross_entropy = _predictions_first(losses.sparse_softmax_cross_entropy)
sigmoid_cross_entropy = _predictions_first(losses.sigmoid_cross_entropy)
mean_squared_error = _predictions_first(losses.mean_squared_error, None)
absolute_difference = _predictions_first(losses.absolute_difference, None)
log_loss = _predictions_first(losses.log_loss, None)
hinge_loss = _predictions_first(losses.hinge_loss, None)
cosine_distance = _predictions_first(losses.cosine_distance, None)

__getattr__ = refusing("contrib.losses")
