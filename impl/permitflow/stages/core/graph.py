"""Stages with several inlets or several outlets."""

from collections import deque
from collections.abc import Callable, Iterable, Set
from typing import Any, TypeVar

from permitflow.callables import plain
from permitflow.stages.core.ports import Connection, HoldingStage, Stage

A = TypeVar("A")
B = TypeVar("B")


class Merge(HoldingStage[A, A]):
    """Emits the elements of all inlets, in the order in which they come; holds at most one of each.

    It asks nobody before it is asked, then all whose last element has left.
    """

    def __init__(self, *, prefers_first: bool = False) -> None:
        """``prefers_first``: an element of the first inlet overtakes those of the others."""
        super().__init__()
        self._prefers_first = prefers_first
        self._held: deque[tuple[Connection[A], A]] = deque()
        self._ended_inlets = 0

    def holds(self) -> bool:
        """Is an element here?"""
        return bool(self._held)

    def may_act_at(self, coming: Set[Connection[Any]]) -> Iterable[Connection[Any]]:
        """What is held leaves first."""
        return self.may_act_behind_what_is_held(coming)

    def on_push(self, inlet: Connection[A]) -> None:
        """Keep the element, and emit one if that is asked for."""
        held = (inlet, inlet.grab())
        if self._prefers_first and inlet is self.inlet:
            self._held.appendleft(held)
        else:
            self._held.append(held)
        if self.outlet.is_asked:
            self._emit()

    def on_pull(self, outlet: Connection[A]) -> None:
        """Emit an element, and ask every inlet that has none here."""
        if self._held:
            self._emit()
        if self.is_ended:
            if not self._held:
                self.end()
            return
        waiting = {inlet for inlet, _ in self._held}
        for inlet in self.inlets:
            if inlet not in waiting:
                self.ask(inlet)

    def _emit(self) -> None:
        _, element = self._held.popleft()
        self.outlet.push(element)

    def on_upstream_finish(self, inlet: Connection[A]) -> None:
        """Complete after the last inlet, once nothing is held."""
        self._ended_inlets += 1
        if self._ended_inlets == len(self.inlets):
            super().on_upstream_finish(inlet)

    def on_upstream_failure(self, inlet: Connection[A], error: BaseException) -> None:
        """Ask nobody any more; fail once nothing is held."""
        if not self.is_ended:
            for other in self.inlets:
                other.cancel()
            self._failure = error
            super().on_upstream_finish(inlet)


class Concat(HoldingStage[A, A]):
    """Emits the elements of its inlets, one inlet after the other; a later one is not asked before its turn."""

    def __init__(self) -> None:
        super().__init__()
        self._turn = 0
        self._failures: dict[Connection[A], BaseException] = {}

    def holds(self) -> bool:
        """An inlet whose turn has not come may have elements."""
        return self._turn < len(self.inlets)

    def on_push(self, inlet: Connection[A]) -> None:
        """Emit the element."""
        self.outlet.push(inlet.grab())

    def on_pull(self, outlet: Connection[A]) -> None:
        """Ask the inlet whose turn it is."""
        self.ask(self.inlets[self._turn])

    def on_upstream_finish(self, inlet: Connection[A]) -> None:
        """The next inlet that is open has its turn; the end, or the failure, of a later one waits for its turn."""
        while self.holds() and self.inlets[self._turn].is_in_closed:
            failure = self._failures.get(self.inlets[self._turn])
            if failure is not None:
                self.fail_stage(failure)
                return
            self._turn += 1
        if not self.holds():
            self.complete_stage()
        elif self.outlet.is_asked:
            self.ask(self.inlets[self._turn])

    def on_upstream_failure(self, inlet: Connection[A], error: BaseException) -> None:
        """Fail when it is the inlet's turn."""
        self._failures[inlet] = error
        self.on_upstream_finish(inlet)


class Zip(HoldingStage[Any, B]):
    """Emits one element made of one element of each inlet.

    It ends with the inlet that ends first; an element of another one for which there is no partner is dropped.
    """

    def __init__(self, combine: Callable[..., B]) -> None:
        """``combine`` is called with an element of each inlet, in the order of the inlets."""
        super().__init__()
        self._combine = plain(combine, place="zip_with(combine)", hint="zip, and then map_async, awaits it")

    def holds(self) -> bool:
        """May there still be a partner for the last element of the inlet that has ended?"""
        return all(inlet.is_available or not inlet.is_in_closed for inlet in self.inlets)

    def may_act_at(self, coming: Set[Connection[Any]]) -> Iterable[Connection[Any]]:
        """An element that is here waits for the others."""
        lacking = [each for each in self.inlets if not each.is_available]
        return super().may_act_at(coming & {self.outlet, *lacking})

    def on_pull(self, outlet: Connection[B]) -> None:
        """Ask every inlet."""
        for inlet in self.inlets:
            self.ask(inlet)

    def on_push(self, inlet: Connection[Any]) -> None:
        """Emit when each inlet has an element."""
        if all(each.is_available for each in self.inlets):
            self.outlet.push(self._combine(*(each.grab() for each in self.inlets)))
            if self.is_ended:
                self.end()


class Broadcast(Stage[A, A]):
    """Emits each element at every outlet, once all of them have asked; one that has cancelled is not waited for."""

    def may_act_at(self, coming: Set[Connection[Any]]) -> Iterable[Connection[Any]]:
        """All outlets must have asked before it asks."""
        if self.inlet in coming:
            return super().may_act_at(coming)
        is_last = all(each in coming or each.is_asked or each.is_out_closed for each in self.outlets)
        return self.inlets if is_last else ()

    def on_pull(self, outlet: Connection[A]) -> None:
        """Ask, if this outlet was the last to do so."""
        if all(each.is_asked or each.is_out_closed for each in self.outlets):
            self.ask(self.inlet)

    def on_push(self, inlet: Connection[A]) -> None:
        """Emit the element everywhere."""
        element = inlet.grab()
        for outlet in self.outlets:
            if not outlet.is_out_closed:
                outlet.push(element)

    def on_downstream_finish(self, outlet: Connection[A]) -> None:
        """Go on for the other outlets; complete after the last one."""
        if all(each.is_out_closed for each in self.outlets):
            self.complete_stage()
        else:
            self.on_pull(outlet)


class Balance(HoldingStage[A, A]):
    """Emits each element at one outlet: the one that has waited longest.

    It asks when an outlet has asked.  If that one cancels meanwhile, the element is kept for the next that asks.
    """

    def __init__(self) -> None:
        super().__init__()
        self._waiting: deque[Connection[A]] = deque()

    def holds(self) -> bool:
        """Is an element here?"""
        return self.inlet.is_available

    def on_pull(self, outlet: Connection[A]) -> None:
        """The outlet waits."""
        self._waiting.append(outlet)
        self._go_on()

    def on_push(self, inlet: Connection[A]) -> None:
        """Emit the element."""
        self._go_on()

    def on_downstream_finish(self, outlet: Connection[A]) -> None:
        """Go on for the other outlets; complete after the last one."""
        if all(each.is_out_closed for each in self.outlets):
            self.complete_stage()
        else:
            self._go_on()

    def _go_on(self) -> None:
        inlet, waiting = self.inlet, self._waiting
        while waiting and (waiting[0].is_in_closed or waiting[0].is_out_closed):
            waiting.popleft()  # also one whose cancellation is on its way: the element would be lost
        if waiting and inlet.is_available:
            waiting.popleft().push(inlet.grab())
        if self.is_ended:
            if not inlet.is_available:
                self.end()
        elif waiting:
            self.ask(inlet)
