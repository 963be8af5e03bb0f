"""The data of the tutorials."""
