"""Judges recordings of any length: channel by channel, here or on Spark; can be interrupted, and goes on."""
