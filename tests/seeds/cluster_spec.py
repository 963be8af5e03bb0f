"""What a ClusterSpec tells of a cluster."""

from kit import tf1 as tf

cluster = tf.train.ClusterSpec(
    {
        "worker": ["10.0.0.1:2222", "10.0.0.2:2222", "10.0.0.3:2222"],
        "ps": ["10.0.1.1:2222", "10.0.1.2:2222"],
    }
)
print(sorted(cluster.jobs))
print(cluster.as_cluster_def())
print(sorted(cluster.as_dict().items()))
print(cluster.job_tasks("ps"))
print(cluster.num_tasks("worker"))
print(cluster.task_address("worker", 1))
print(cluster.task_indices("ps"))
