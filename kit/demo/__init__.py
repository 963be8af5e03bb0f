"""The demonstration: two real models on real data, and what their training moved."""
