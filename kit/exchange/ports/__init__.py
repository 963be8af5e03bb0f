"""Ports: how a member reads and writes its neighbours' memory."""
