"""Stops and pauses of more than one run: what stands, what one would mean, and how far it has got."""
