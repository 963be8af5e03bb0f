"""`tensorflow.python.platform`: modules that `tf` itself has too, where they lie."""

from kit.tf1 import app as app
from kit.tf1 import flags as flags
from kit.tf1 import gfile as gfile
from kit.tf1 import logging
from kit.tf1.not_offered import refusing
from kit.tf1.python.submodules import alias

alias(__name__, app, "app")
alias(__name__, flags, "flags")
alias(__name__, gfile, "gfile")
alias(__name__, logging, "tf_logging")

__getattr__ = refusing("python.platform")
