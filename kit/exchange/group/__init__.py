"""A group of tasks: links opened by plan, plans carried out, counted, slowed, ended."""
