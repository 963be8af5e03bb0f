"""The client of a session: runs, feeds, fetches, and the way to a master."""
