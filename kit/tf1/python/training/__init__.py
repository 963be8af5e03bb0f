"""`tensorflow.python.training`: its modules; each is `tf.train`, with their names."""

from kit.tf1 import train as adadelta
from kit.tf1 import train as adagrad
from kit.tf1 import train as adam
from kit.tf1 import train as basic_session_run_hooks
from kit.tf1 import train as checkpoint_management
from kit.tf1 import train as checkpoint_utils
from kit.tf1 import train as coordinator
from kit.tf1 import train as device_setter
from kit.tf1 import train as ftrl
from kit.tf1 import train as gradient_descent
from kit.tf1 import train as learning_rate_decay
from kit.tf1 import train as momentum
from kit.tf1 import train as monitored_session
from kit.tf1 import train as optimizer
from kit.tf1 import train as queue_runner
from kit.tf1 import train as queue_runner_impl
from kit.tf1 import train as rmsprop
from kit.tf1 import train as saver
from kit.tf1 import train as server_lib
from kit.tf1 import train as session_manager
from kit.tf1 import train as session_run_hook
from kit.tf1 import train as supervisor
from kit.tf1 import train as sync_replicas_optimizer
from kit.tf1 import train as training_util
from kit.tf1.python.submodules import importable
from kit.tf1.python.training import moving_averages as moving_averages
from kit.tf1.python.training import summary_io as summary_io

__all__ = [
    "adadelta",
    "adagrad",
    "adam",
    "basic_session_run_hooks",
    "checkpoint_management",
    "checkpoint_utils",
    "coordinator",
    "device_setter",
    "ftrl",
    "gradient_descent",
    "learning_rate_decay",
    "momentum",
    "monitored_session",
    "moving_averages",
    "optimizer",
    "queue_runner",
    "queue_runner_impl",
    "rmsprop",
    "saver",
    "server_lib",
    "session_manager",
    "session_run_hook",
    "summary_io",
    "supervisor",
    "sync_replicas_optimizer",
    "training_util",
]

importable(__name__, __all__)
