"""Which neighbours are real: suspicious edges, the network that judges them, its weights."""
