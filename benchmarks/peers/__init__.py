"""Ways to move chunks from one process to another: one file each; ``way`` finds them."""
