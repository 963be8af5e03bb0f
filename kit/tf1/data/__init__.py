"""`tf.data`: datasets, and iterators that give their elements to a graph."""

from __future__ import annotations

from typing import Any

from kit.tf1.data import experimental as experimental
from kit.tf1.data.dataset import Dataset as Dataset
from kit.tf1.data.dataset import FixedLengthRecordDataset as FixedLengthRecordDataset
from kit.tf1.data.dataset import TextLineDataset as TextLineDataset
from kit.tf1.data.dataset import TFRecordDataset as TFRecordDataset
from kit.tf1.data.dataset import get_output_classes as get_output_classes
from kit.tf1.data.dataset import get_output_shapes as get_output_shapes
from kit.tf1.data.dataset import get_output_types as get_output_types
from kit.tf1.data.dataset import (
    make_initializable_iterator as make_initializable_iterator,
)
from kit.tf1.data.dataset import make_one_shot_iterator as make_one_shot_iterator
from kit.tf1.data.iterator import Iterator as Iterator
from kit.tf1.not_offered import refuse


def __getattr__(name: str) -> Any:
    refuse("data", name)
