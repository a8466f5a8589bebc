"""Z3 as a program with ``python -O`` has it."""

import z3

# Its Python classes check their operands again at each call, which takes an eighth of a proof.
z3.z3.Z3_DEBUG = False
