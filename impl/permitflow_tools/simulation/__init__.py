"""Simulates one channel: its throughput, the places of its permits, and the window that it needs.

The two ends are the real ones, ``PermitSender`` and ``PermitReceiver``; only time, delays and the application are
simulated.  No clock, no I/O: the same setting and the same seed give the same figures.
"""
