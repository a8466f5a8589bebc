"""Ways to move chunks from one process to another: one file each, found by ``registry``."""
