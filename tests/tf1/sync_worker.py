"""A worker in a process of its own: `sync_worker.py PS WORKERS INDEX R`.

Pushes gradients of 1 for ever, and prints the token of each step.
"""

import sys

from kit import tf1 as tf


def main() -> None:
    ps, workers = [sys.argv[1]], sys.argv[2].split(",")
    index, n_required = int(sys.argv[3]), int(sys.argv[4])
    cluster = tf.train.ClusterSpec({"ps": ps, "worker": workers})
    server = tf.train.Server(cluster, job_name="worker", task_index=index)
    scope = tf.train.replica_device_setter(
        cluster=cluster, worker_device=f"/job:worker/task:{index}"
    )
    with tf.device(scope):
        x = tf.placeholder(tf.float32, None)
        v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
        step = tf.train.create_global_step()
        optimizer = tf.train.SyncReplicasOptimizer(
            tf.train.GradientDescentOptimizer(1.0), n_required, len(workers)
        )
        train_op = optimizer.minimize(v * x, step)
        hook = optimizer.make_session_run_hook(is_chief=False)
        hook.begin()

    with tf.Session(server.target) as session:
        while len(session.run(optimizer.ready_for_local_init_op)):
            pass  # the chief has not initialised the variables yet
        hook.after_create_session(session, tf.train.Coordinator())
        while True:
            print(int(session.run(train_op, {x: 1.0})), flush=True)


if __name__ == "__main__":
    main()
