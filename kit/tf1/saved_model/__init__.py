"""`tf.saved_model`: write a model that TensorFlow Serving loads."""

from __future__ import annotations

from typing import Any

from kit.tf1.not_offered import refuse
from kit.tf1.python.submodules import importable
from kit.tf1.saved_model import builder as builder
from kit.tf1.saved_model import signature_constants as signature_constants
from kit.tf1.saved_model import signatures as signature_def_utils
from kit.tf1.saved_model import signatures as utils
from kit.tf1.saved_model import tag_constants as tag_constants
from kit.tf1.saved_model.builder import SavedModelBuilder as Builder
from kit.tf1.saved_model.builder import simple_save as simple_save
from kit.tf1.saved_model.signatures import build_signature_def as build_signature_def
from kit.tf1.saved_model.signatures import build_tensor_info as build_tensor_info
from kit.tf1.saved_model.signatures import (
    classification_signature_def as classification_signature_def,
)
from kit.tf1.saved_model.signatures import (
    get_tensor_from_tensor_info as get_tensor_from_tensor_info,
)
from kit.tf1.saved_model.signatures import (
    predict_signature_def as predict_signature_def,
)
from kit.tf1.saved_model.signatures import (
    regression_signature_def as regression_signature_def,
)

__all__ = [
    "Builder",
    "build_signature_def",
    "build_tensor_info",
    "builder",
    "classification_signature_def",
    "get_tensor_from_tensor_info",
    "predict_signature_def",
    "regression_signature_def",
    "signature_constants",
    "signature_def_utils",
    "simple_save",
    "tag_constants",
    "utils",
]

importable(__name__, ["signature_def_utils", "utils"])


def __getattr__(name: str) -> Any:
    refuse("saved_model", name)
