"""The stop page: what a stop would mean before the button, and its three stages after it."""
