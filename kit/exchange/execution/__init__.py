"""Plans bound to arrays and ports, and carried out."""
