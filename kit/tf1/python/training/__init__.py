"""`tensorflow.python.training`: its modules; each is `tf.train`, with their names."""

from kit.tf1 import train as adam
from kit.tf1 import train as basic_session_run_hooks
from kit.tf1 import train as checkpoint_management
from kit.tf1 import train as checkpoint_utils
from kit.tf1 import train as coordinator
from kit.tf1 import train as device_setter
from kit.tf1 import train as gradient_descent
from kit.tf1 import train as momentum
from kit.tf1 import train as monitored_session
from kit.tf1 import train as moving_averages
from kit.tf1 import train as optimizer
from kit.tf1 import train as queue_runner
from kit.tf1 import train as queue_runner_impl
from kit.tf1 import train as saver
from kit.tf1 import train as server_lib
from kit.tf1 import train as session_manager
from kit.tf1 import train as session_run_hook
from kit.tf1 import train as supervisor
from kit.tf1 import train as sync_replicas_optimizer
from kit.tf1 import train as training_util

__all__ = [
    "adam",
    "basic_session_run_hooks",
    "checkpoint_management",
    "checkpoint_utils",
    "coordinator",
    "device_setter",
    "gradient_descent",
    "momentum",
    "monitored_session",
    "moving_averages",
    "optimizer",
    "queue_runner",
    "queue_runner_impl",
    "saver",
    "server_lib",
    "session_manager",
    "session_run_hook",
    "supervisor",
    "sync_replicas_optimizer",
    "training_util",
]
