"""Conformance: the model leads, an implementation follows, and what it must not do it has to refuse.

Two kinds of implementations can be led.  A *pair of ends with explicit wires* (``PairAdapter``) has a method for every
action of the specification; see ``machine`` and ``lockstep``.  A *channel* takes the internal steps by itself and is
watched through its recorder; see ``channel_machine``.  ``traces`` judges runs that nobody led.
"""
