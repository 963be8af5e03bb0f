"""`tensorflow.core.protobuf`: messages that configure sessions and runs."""

from kit.tf1.core.protobuf import config_pb2 as config_pb2
