"""`tensorflow.core`: types and messages, which programs import from inside."""

from kit.tf1.core import framework as framework
from kit.tf1.core import protobuf as protobuf
