"""What links of one host can do: shared memory, descriptors."""
