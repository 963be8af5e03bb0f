"""Several trainings: compared with each other, and one after the other in a sweep."""
