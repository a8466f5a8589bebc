"""Ends in other languages: a driver's process is told what to do, and the kit itself is its peer on the wire."""
