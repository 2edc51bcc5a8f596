"""The page of a question to people: what is asked, the form, and what became of it."""
