"""The store seam: a database backend, for the processes of the matrix only, whose sessions fail as they are told.

It sits where every commit of the product goes through, so the product has no switch of its own for it. Two ways to
tell it: at a rate, by the file `store-rate`, and once, by the order `commit_ack_lost@<pid>` ; both in the folder of
the fault points.
"""
