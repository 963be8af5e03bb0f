"""What the original calls its examples: the data that its tutorials read."""
