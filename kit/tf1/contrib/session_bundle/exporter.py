"""The format before SavedModel: what asks for it is told of that one."""

from __future__ import annotations

from kit.tf1.not_offered import refusing

__getattr__ = refusing("contrib.session_bundle.exporter")
