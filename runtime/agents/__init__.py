"""The agents that ship. Each is a class named in the AGENTS setting."""
