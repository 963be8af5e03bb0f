"""`tensorflow.python.saved_model`: the modules of `tf.saved_model`."""

from kit.tf1.python.submodules import importable
from kit.tf1.saved_model import builder as builder
from kit.tf1.saved_model import signature_constants as signature_constants
from kit.tf1.saved_model import signature_def_utils as signature_def_utils
from kit.tf1.saved_model import tag_constants as tag_constants
from kit.tf1.saved_model import utils as utils

__all__ = [
    "builder",
    "signature_constants",
    "signature_def_utils",
    "tag_constants",
    "utils",
]

importable(__name__, __all__)
