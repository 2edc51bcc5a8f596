"""Claims, the search for evidence, and what the evidence says: the tools of the evidence search."""
