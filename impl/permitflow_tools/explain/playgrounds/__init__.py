"""Machines to play with, one file for each; ``table`` lists them."""
