"""One channel in simulated time: how fast it is, where its permits are, and how large its window has to be.

The two ends are the real ones, ``PermitSender`` and ``PermitReceiver``; only time, delays and the application are made
up here.  No clock, no I/O: the same setting and the same seed give the same figures.
"""
