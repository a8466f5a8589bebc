"""What is proved for all parameters, and decided for anybody's own.

``catalogue`` lists the theorems, ``prove`` examines one, ``prove_catalogue`` many at once, by one solver or two;
``decide`` answers for concrete numbers.
"""

from permitflow_proofs.catalogue import catalogue
from permitflow_proofs.kernel.theorem import Theorem, Verdict, prove
from permitflow_proofs.permit_channel.decision import Decision, Undecided, decide
from permitflow_proofs.proving import prove_catalogue

__all__ = ["Decision", "Theorem", "Undecided", "Verdict", "catalogue", "decide", "prove", "prove_catalogue"]
