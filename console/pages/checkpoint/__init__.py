"""The pages of checkpoints: the revisions of a run, and one revision with its handoff note and its differences."""
