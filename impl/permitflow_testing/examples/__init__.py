"""Adapters: this project's own channels, asyncio's queue, and one with deliberate mistakes."""
