"""Addresses, listeners and dialers, and which connections are admitted."""
