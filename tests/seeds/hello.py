"""A greeting, sent through a server of one task."""

from kit import tf1 as tf

greeting = tf.constant("Hello, distributed TensorFlow!")
server = tf.train.Server.create_local_server()
session = tf.Session(server.target)
print(session.run(greeting))
