"""What a process does for an elastic training, besides hosting members."""
