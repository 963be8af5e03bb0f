"""`tf.keras.utils`: labels as rows with a one."""

from __future__ import annotations

from typing import Any

import numpy as np

from kit.tf1.not_offered import refusing


def to_categorical(
    y: Any, num_classes: int | None = None, dtype: str = "float32"
) -> Any:
    """Return an array with a row for each label, 1 in its column and 0 elsewhere.

    There are as many columns as classes, or as the greatest label needs. A last axis of
    size 1 is taken for none.
    """
    labels = np.array(y, dtype=int)
    shape = (
        labels.shape[:-1]
        if labels.shape[-1:] == (1,) and labels.ndim > 1
        else labels.shape
    )
    count = num_classes or int(labels.max()) + 1
    return np.eye(count, dtype=dtype)[labels.reshape(-1)].reshape(*shape, count)


__getattr__ = refusing("keras.utils")
