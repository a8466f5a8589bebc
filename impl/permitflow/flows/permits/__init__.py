"""The permit flow: a sender spends permits, and the receiver returns them as rows are consumed.

``core`` has all guards and updates.
"""

from permitflow.flows.permits.agreement import PERMITS

__all__ = ["PERMITS"]  # it is registered with its parameters
