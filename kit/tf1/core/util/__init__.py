"""`tensorflow.core.util`: messages of event files."""
