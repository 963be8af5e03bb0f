"""`tf.contrib.session_bundle`, for programs that import it; see `exporter`."""

from kit.tf1.contrib.session_bundle import exporter as exporter
