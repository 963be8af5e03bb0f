"""Session hooks around the steps of a training."""
