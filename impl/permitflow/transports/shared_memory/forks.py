"""A child that is forked inherits every descriptor and every mapping, and would act on them when it tidies up.

So it forgets: its copies of the descriptors are closed, without a word to the peer, and views return no space.  Views
that it has inherited stay readable, but their bytes may change once the parent has let go of them.
"""

import os
import weakref
from typing import Protocol

__all__ = ["forget_in_children"]


class Forgetful(Protocol):
    """Something that holds descriptors."""

    def forget(self) -> None:
        """Close the descriptors and do nothing else; called in the child, where no other thread is."""
        ...


_living: "weakref.WeakSet[Forgetful]" = weakref.WeakSet()


def forget_in_children(holder: Forgetful) -> None:
    """Have ``holder`` forget in every child that is forked from now on."""
    _living.add(holder)


def _forget_all() -> None:
    for holder in list(_living):
        holder.forget()
    _living.clear()


# Some systems cannot fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
