"""The pages of reports: all of them, and one with its versions, their publications and their differences."""
