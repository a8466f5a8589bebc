"""The permit channel in pictures: its look, and runs that are made to be looked at."""
