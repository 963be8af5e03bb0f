"""`tensorflow.core.protobuf.config_pb2`: what configures sessions and runs."""

from kit.tf1.session.config import CallableOptions as CallableOptions
from kit.tf1.session.config import ConfigProto as ConfigProto
from kit.tf1.session.config import GPUOptions as GPUOptions
from kit.tf1.session.config import GraphOptions as GraphOptions
from kit.tf1.session.config import OptimizerOptions as OptimizerOptions
from kit.tf1.session.config import RunOptions as RunOptions
from kit.tf1.session.config import TensorConnection as TensorConnection
from kit.tf1.session.run_metadata import RunMetadata as RunMetadata
