"""A development database of production size: so many runs with their receipts that lists and counts have to hold."""
