"""Forty prepared cases for people who work the console with only a browser, and the judge of what they decided."""
