"""Protocols as programs, one file per protocol, named as in ``spec/``: explored, replayed and proved, to lead tests."""
