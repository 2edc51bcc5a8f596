"""The liveness hint: a worker process holds a lock that the database frees when it dies; a watcher waits for that.

It is a hint. It ends the lease of a process that is gone before its time is over, so that another one takes over at once.
The fence decides who may write, here as ever; where the lock can't be had, the lease's TTL does the work (0014).
"""
