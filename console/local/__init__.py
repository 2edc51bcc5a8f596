"""The supervisor of one machine: an embedded PostgreSQL, a broker, and our own processes, started and stopped together.

Used by `manage.py up` and by the tests. The rest of the product knows only the addresses that it hands out.
"""
