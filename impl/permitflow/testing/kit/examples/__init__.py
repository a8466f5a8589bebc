"""Adapters: this project's own channels, other people's, and one that is wrong on purpose."""
