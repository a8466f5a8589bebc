"""Stages and their ports, sans-IO: no loop, no clock, no thread.  The shell is in the rooms around it."""
