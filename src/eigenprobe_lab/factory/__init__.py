"""Training of the shipped networks, and of probes."""
