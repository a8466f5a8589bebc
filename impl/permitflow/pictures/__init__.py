"""Pictures of runs and of state graphs: one self-contained page, or one drawing, that anybody can open.

A page is made from what the model says and from nothing else: where each message and each permit is after each step,
which actions are possible, which guard is false and with which numbers.  The page itself computes no rule of the
protocol; it shows numbers.
"""
