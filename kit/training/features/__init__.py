"""What a training can do beside its core; each can be deleted, see `kit.features`."""
