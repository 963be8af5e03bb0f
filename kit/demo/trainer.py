# mypy: ignore-errors
"""One task of a distributed training, as in the guide of the original.

    trainer.py --ps_hosts=h0:2222,h1:2222 --worker_hosts=h2:2222,h3:2222 \
        --job_name=worker --task_index=0

The parameter servers hold the variables of a perceptron, the workers train it on
handwritten digits, each on its own part of them.
"""

import argparse
import sys

import numpy as np

from kit import tf1 as tf

FLAGS = None
BATCH, HIDDEN = 32, 64


def perceptron(images, labels):
    """Return the loss of a batch, and the share of it that is recognised."""
    hidden = tf.get_variable("hidden/weights", [64, HIDDEN])
    hidden_biases = tf.get_variable(
        "hidden/biases", [HIDDEN], initializer=tf.zeros_initializer()
    )
    out = tf.get_variable("out/weights", [HIDDEN, 10])
    out_biases = tf.get_variable("out/biases", [10], initializer=tf.zeros_initializer())
    layer = tf.nn.relu(tf.matmul(images, hidden) + hidden_biases)
    logits = tf.matmul(layer, out) + out_biases
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    right = tf.equal(tf.argmax(logits, 1), labels)
    return loss, tf.reduce_mean(tf.cast(right, tf.float32))


def batches(images, labels, index, count):
    """Yield mini-batches of every `count`-th image, drawn at random."""
    mine = np.arange(index, len(images), count)
    dice = np.random.RandomState(index)
    while True:
        chosen = dice.choice(mine, BATCH, replace=False)
        yield images[chosen], labels[chosen]


def train(server, cluster, ps_hosts, worker_hosts):
    """Make a worker's steps: all of them together make `--steps`."""
    is_chief = FLAGS.task_index == 0
    with tf.device(
        tf.train.replica_device_setter(
            worker_device=f"/job:worker/task:{FLAGS.task_index}", cluster=cluster
        )
    ):
        images = tf.placeholder(tf.float32, [None, 64])
        labels = tf.placeholder(tf.int64, [None])
        loss, accuracy = perceptron(images, labels)
        global_step = tf.train.get_or_create_global_step()
        optimizer = tf.train.AdagradOptimizer(FLAGS.learning_rate)
        if FLAGS.sync:
            optimizer = tf.train.SyncReplicasOptimizer(
                optimizer,
                replicas_to_aggregate=len(worker_hosts),
                total_num_replicas=len(worker_hosts),
            )
        train_op = optimizer.minimize(loss, global_step=global_step)

    hooks = [
        tf.train.StopAtStepHook(last_step=FLAGS.steps),
        tf.train.LoggingTensorHook(
            {"step": global_step, "loss": loss}, every_n_iter=FLAGS.log_every
        ),
        tf.train.NanTensorHook(loss),
    ]
    if FLAGS.sync:
        hooks.append(optimizer.make_session_run_hook(is_chief))

    from sklearn.datasets import load_digits  # the servers need not wait for it

    digits = load_digits()
    pixels, classes = (digits.data / 16).astype(np.float32), digits.target
    draw = batches(pixels, classes, FLAGS.task_index, len(worker_hosts))
    config = tf.ConfigProto(
        device_filters=["/job:ps", f"/job:worker/task:{FLAGS.task_index}"]
    )
    with tf.train.MonitoredTrainingSession(
        master=server.target,
        is_chief=is_chief,
        checkpoint_dir=FLAGS.checkpoint_dir if is_chief else None,
        save_checkpoint_steps=FLAGS.save_every,
        hooks=hooks,
        config=config,
    ) as session:
        print(f"worker {FLAGS.task_index} is ready", flush=True)
        while not session.should_stop():
            some, classes_of_them = next(draw)
            _, right = session.run(
                [train_op, accuracy], {images: some, labels: classes_of_them}
            )
    print(f"worker {FLAGS.task_index} is done; of its last batch it knew {right:.2f}")


def main(_):
    """Be the task that the flags say."""
    ps_hosts = FLAGS.ps_hosts.split(",")
    worker_hosts = FLAGS.worker_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": ps_hosts, "worker": worker_hosts})
    server = tf.train.Server(
        cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index
    )
    if FLAGS.job_name == "ps":
        print(f"ps {FLAGS.task_index} serves", flush=True)
        server.join()
    elif FLAGS.job_name == "worker":
        train(server, cluster, ps_hosts, worker_hosts)


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.INFO)
    parser = argparse.ArgumentParser()
    parser.register("type", "bool", lambda text: text.lower() == "true")
    parser.add_argument("--ps_hosts", default="", help="host:port,host:port")
    parser.add_argument("--worker_hosts", default="", help="host:port,host:port")
    parser.add_argument("--job_name", default="", help="'ps' or 'worker'")
    parser.add_argument("--task_index", type=int, default=0)
    parser.add_argument("--checkpoint_dir", default="/tmp/train_logs")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--save_every", type=int, default=100)
    parser.add_argument("--log_every", type=int, default=100)
    parser.add_argument("--learning_rate", type=float, default=0.1)
    parser.add_argument("--sync", type="bool", default=False)
    FLAGS, unparsed = parser.parse_known_args()
    tf.app.run(main=main, argv=[sys.argv[0], *unparsed])
