"""Layers on two parameter servers, work on worker 7: `pinning.py PS PS WORKER`."""

import sys

from kit import tf1 as tf

ps0, ps1, worker7 = sys.argv[1:4]
cluster = {"ps": [ps0, ps1], "worker": {7: worker7}}
servers = [
    tf.train.Server(cluster, job_name="ps", task_index=0),
    tf.train.Server(cluster, job_name="ps", task_index=1),
    tf.train.Server(cluster, job_name="worker", task_index=7),
]

with tf.device("/job:ps/task:0"):
    weights_1 = tf.Variable([[0.5, -0.25], [0.25, 1.0]])
    biases_1 = tf.Variable([0.0, 0.5])
with tf.device("/job:ps/task:1"):
    weights_2 = tf.Variable([[1.0], [-0.5]])
    biases_2 = tf.Variable([0.25])
with tf.device("/job:worker/task:7"):
    data = tf.placeholder(tf.float32, [None, 2])
    labels = tf.placeholder(tf.float32, [None, 1])
    layer_1 = tf.nn.relu(tf.matmul(data, weights_1) + biases_1)
    logits = tf.matmul(layer_1, weights_2) + biases_2
    loss = tf.reduce_mean(tf.square(logits - labels))
    train_op = tf.train.GradientDescentOptimizer(0.125).minimize(loss)

batch = {data: [[1.0, 2.0], [0.5, -1.0]], labels: [[1.0], [0.0]]}
with tf.Session(servers[2].target) as session:
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        _, value = session.run([train_op, loss], batch)
        print(f"{value:.6f}")
    for variable in (weights_1, biases_1, weights_2, biases_2):
        values = session.run(variable).flatten()
        print(variable.device, *[f"{item:.6f}" for item in values])
