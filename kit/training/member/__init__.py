"""One task's part in a training: its thread, its epochs, its steps."""
