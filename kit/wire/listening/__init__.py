"""Addresses, listeners, dialers, and who is let in."""
