"""How gradients meet: the topologies, and what each costs."""
