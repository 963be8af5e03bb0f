"""`tensorflow.contrib.learn.python`: a longer way to `tf.contrib.learn.datasets`."""

from kit.tf1.contrib.learn.python import learn as learn
