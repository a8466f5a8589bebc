"""Pictures of runs and of state graphs: a self-contained page, or a drawing.

A page shows only results of the model: the place of each message and permit after each step, the possible actions, and
each false guard with its numbers.  The page itself computes no rule of the protocol.
"""
