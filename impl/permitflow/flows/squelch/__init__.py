"""Squelch: the receiver stops its sender above a mark and wakes it below another."""
