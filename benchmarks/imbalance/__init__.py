"""The experiment from which RisingWave's permits came: bounds that differ starve one of two upstreams.

A join reads two upstreams with the shape of TPC-H's query 12: a strict filter leaves 5 % of the rows of a chunk.  One
upstream is a task beside the join, the other one a process.  A local channel of 16 chunks and a connection with 64 KiB
hold different numbers of rows, and so the join reads different numbers of them in each of its turns.  With permits for
rows on both, it reads the same number.
"""
