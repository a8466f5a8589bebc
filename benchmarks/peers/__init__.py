"""Ways to move chunks from one process to another: one file each; ``registry`` finds them."""
