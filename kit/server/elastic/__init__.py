"""What a process does for an elastic training, beside its members."""
