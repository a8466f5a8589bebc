"""The protocol as sans-IO state machines: events in, decisions out; no loop, no clock, no thread, no socket."""
