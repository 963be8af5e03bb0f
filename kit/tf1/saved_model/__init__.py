"""`tf.saved_model`: write a model that TensorFlow Serving loads."""

from __future__ import annotations

from kit.tf1.not_offered import refusing
from kit.tf1.public import offer
from kit.tf1.python.submodules import importable
from kit.tf1.saved_model import builder as builder
from kit.tf1.saved_model import signature_constants as signature_constants
from kit.tf1.saved_model import signatures
from kit.tf1.saved_model import tag_constants as tag_constants
from kit.tf1.saved_model.builder import simple_save as simple_save

offer(__name__, "kit.tf1.saved_model.signatures")

Builder = builder.SavedModelBuilder
signature_def_utils = utils = signatures
importable(__name__, ["signature_def_utils", "utils"])

__getattr__ = refusing("saved_model")
