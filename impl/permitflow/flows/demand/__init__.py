"""Demand: the receiver requests messages, as in Reactive Streams."""
