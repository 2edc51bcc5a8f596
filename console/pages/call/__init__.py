"""The page of one logical call: its attempts, its keys, what is known, and the verdict when nobody knows."""
