"""Systems with a look of their own, each in a file named after its TLA+ module, with a ``LOOK``."""
