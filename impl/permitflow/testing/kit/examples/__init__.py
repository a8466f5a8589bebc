"""Adapters: this project's own channels, channels of other libraries, and one with deliberate mistakes."""
