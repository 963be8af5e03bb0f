"""Messages and tensors between clients, masters and workers."""
