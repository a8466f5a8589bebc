"""Protocols as programs, one file per protocol, named as in ``spec/``: explored, replayed, proved, leading tests."""
