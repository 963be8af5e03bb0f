"""Where mini-batches come from, and which rows are whose."""
