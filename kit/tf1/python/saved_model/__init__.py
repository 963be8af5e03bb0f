"""`tensorflow.python.saved_model`: the modules of `tf.saved_model`."""

from kit.tf1.not_offered import refusing
from kit.tf1.python.submodules import alias
from kit.tf1.saved_model import builder as builder
from kit.tf1.saved_model import signature_constants as signature_constants
from kit.tf1.saved_model import signature_def_utils as signature_def_utils
from kit.tf1.saved_model import tag_constants as tag_constants
from kit.tf1.saved_model import utils as utils

alias(__name__, builder, "builder")
alias(__name__, signature_constants, "signature_constants")
alias(__name__, signature_def_utils, "signature_def_utils")
alias(__name__, tag_constants, "tag_constants")
alias(__name__, utils, "utils")

__getattr__ = refusing("python.saved_model")
