"""The common parts of all proofs: symbolic numbers and queues, the explorer of paths, obligations; no protocol."""
