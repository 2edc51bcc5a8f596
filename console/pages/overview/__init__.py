"""The overview: what needs a person, where the runs stand, what is stuck and why, and the last 24 hours."""
