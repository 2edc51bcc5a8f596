"""The outside world of the tour and the tests: a reference sheet, a collection of evidence
and a wiki, each of which counts what really happened.

A program of its own with a store of its own. It imports nothing of the product, and the product nothing of it; they
meet over HTTP only. It can be told to misbehave, so that unknown outcomes are produced for real.
"""
