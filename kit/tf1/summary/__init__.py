"""`tf.summary`: what TensorBoard shows of a program.

tf.summary.scalar("loss", loss)
merged = tf.summary.merge_all()
with tf.summary.FileWriter("logs", session.graph) as writer:
    writer.add_summary(session.run(merged), global_step=step)
"""

from __future__ import annotations

from typing import Any

from kit.tf1.not_offered import refuse
from kit.tf1.summary.event_files import FileWriter as FileWriter
from kit.tf1.summary.event_files import FileWriterCache as FileWriterCache
from kit.tf1.summary.messages import MESSAGES, message
from kit.tf1.summary.ops import histogram as histogram
from kit.tf1.summary.ops import image as image
from kit.tf1.summary.ops import merge as merge
from kit.tf1.summary.ops import merge_all as merge_all
from kit.tf1.summary.ops import scalar as scalar
from kit.tf1.summary.ops import text as text


def __getattr__(name: str) -> Any:
    if name in MESSAGES["summary"]:
        return message(name)
    refuse("summary", name)
