"""What is drawn, and how: a trace in columns, charts of it, and their drawers."""
