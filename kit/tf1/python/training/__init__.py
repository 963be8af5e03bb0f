"""`tensorflow.python.training`: its modules; each is `tf.train`, with their names."""

from kit.tf1 import train
from kit.tf1.not_offered import refusing
from kit.tf1.python.submodules import alias
from kit.tf1.python.training import moving_averages as moving_averages
from kit.tf1.python.training import summary_io as summary_io
from kit.tf1.python.training import training_ops as training_ops

alias(
    __name__,
    train,
    """
    adadelta adagrad adam basic_session_run_hooks checkpoint_management
    checkpoint_utils coordinator device_setter ftrl gradient_descent
    learning_rate_decay momentum monitored_session optimizer queue_runner
    queue_runner_impl rmsprop saver server_lib session_manager session_run_hook
    supervisor sync_replicas_optimizer training_util
    """,
)

__getattr__ = refusing("python.training")
