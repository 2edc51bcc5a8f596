"""The HTTP API at /api/v1/: the same acts and records as the pages and the command line, on the same services."""
