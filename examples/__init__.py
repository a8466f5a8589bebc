"""Programs that use permitflow, to be read, run and copied; ``permitflow demo`` starts two of them."""
