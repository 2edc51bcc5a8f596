"""How fast we are, beside a floor of raw SQL and beside others, on one durable server. `make bench`, `make bench-peers`."""
