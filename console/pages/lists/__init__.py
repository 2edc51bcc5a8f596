"""The pages of lists: one way for all of them."""
