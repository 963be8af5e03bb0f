"""A board that a class watches in its browsers, and the questions it is asked there."""
