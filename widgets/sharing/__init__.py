"""A board that a class watches in its browsers, and the questions put to it there."""
