"""The tools of the agents that ship. They know the outside world and the stored results, never the database."""
