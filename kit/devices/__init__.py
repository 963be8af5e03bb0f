"""Device names, scopes, and functions that choose devices."""
