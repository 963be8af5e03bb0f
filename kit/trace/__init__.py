"""What was recorded of a training: messages, spans, steps, saves."""
