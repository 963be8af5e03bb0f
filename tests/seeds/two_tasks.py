"""One of two tasks of a job: `two_tasks.py ADDRESS ADDRESS INDEX`.

Task 1 serves until it is stopped. Task 0 asks both servers for a sum that is computed
on the other task.
"""

import sys

from kit import tf1 as tf

addresses, index = sys.argv[1:3], int(sys.argv[3])
cluster = tf.train.ClusterSpec({"local": addresses})
server = tf.train.Server(cluster, job_name="local", task_index=index)
print(server.target, flush=True)
if index == 1:
    server.join()

with tf.device("/job:local/task:1"):
    first_batch = tf.reduce_mean(tf.constant([1.0, 2.0, 3.0]))
with tf.device("/job:local/task:0"):
    second_batch = tf.reduce_mean(tf.constant([10.0, 20.0]))
    total = first_batch + second_batch

for target in (server.target, "grpc://" + addresses[1]):
    with tf.Session(target) as session:
        values = session.run([first_batch, second_batch, total])
        print(*map(float, values), total.device)
