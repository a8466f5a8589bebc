"""Looks of particular systems, each in a file named after its TLA+ module, with a ``LOOK``."""
