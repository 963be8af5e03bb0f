"""A parameter server and two workers in one process: `evolution.py PS WORKER WORKER`.

First with constants, where the name `a` is bound anew and the old node stays 3; then
with a variable, whose change all workers see.
"""

import sys

from kit import tf1 as tf

cluster = {"ps": [sys.argv[1]], "worker": sys.argv[2:4]}
server_ps = tf.train.Server(cluster, job_name="ps", task_index=0)
server_w0 = tf.train.Server(cluster, job_name="worker", task_index=0)
server_w1 = tf.train.Server(cluster, job_name="worker", task_index=1)
sess_ps = tf.Session(server_ps.target)
sess_w0 = tf.Session(server_w0.target)
sess_w1 = tf.Session(server_w1.target)

with tf.device("/job:ps/task:0"):
    a = tf.constant(3.0)
    b = tf.constant(4.0)
    shared = tf.Variable(3.0, name="shared")
print(sess_w0.run(a + b))

first = a
with tf.device("/job:ps/task:0"):
    a = tf.constant(9.0) + b
print(sess_w1.run(a))
print(sess_ps.run(a))
print(sess_w0.run(first))

with tf.device("/job:worker/task:1"):
    change = shared.assign(shared * 3.0 + b)
sess_ps.run(shared.initializer)
print(sess_w0.run(shared))
print(sess_w1.run(change))
print(sess_w0.run(shared))
