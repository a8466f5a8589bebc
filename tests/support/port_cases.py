"""The cases of Pekko's GraphInterpreterPortsSpec, and who plays them.

A case is a run of one connection: calls (``pull``, ``push``, ``grab``, ``complete``, ``fail``, ``cancel``), calls that
are refused (``!push``), one event (``step``) or all of them (``run``) with what the stages then hear (``->asked``), and
the flags that hold (``[aP]``): of the outlet, a for asked, c for closed; of the inlet, A for available, P for pulled, C
for closed.
"""

from abc import ABC, abstractmethod

import pytest

from permitflow.errors import LocalProtocolError
from permitflow.stages import Connection, Stage
from permitflow.stages.core.ports import Island

CASES = {
    "push and pull": """
        [] !push !grab
        pull ->nothing [P] !pull !push !grab
        run ->asked [aP] !pull !grab
        push ->nothing [P] !pull !push !grab
        run ->element [A] !push
        grab ->nothing [] !push !grab""",
    "a pull drops an element that was not grabbed": "pull step push step ->asked,element pull !grab",
    "complete while the inlet is ready": """
        complete ->nothing [c] !push
        run ->end [cC] !pull !push !grab
        cancel run ->nothing [cC] !pull !push !grab
        complete run ->nothing [cC] !pull !push !grab""",
    "complete while the outlet is ready": """
        pull run ->asked [aP] complete ->nothing [cP] !push
        run ->end [cC] !pull !push !grab
        cancel run ->nothing [cC] complete run ->nothing [cC] !pull !push !grab""",
    "complete while a pull is in flight": """
        pull [P] complete ->nothing [cP] !push
        run ->end [cC] !pull !push !grab
        cancel run ->nothing [cC] complete run ->nothing [cC] !pull !push !grab""",
    "complete while a push is in flight": """
        pull run ->asked push [P] complete ->nothing [cP] !push
        step ->element [cA] !push grab !grab
        step ->end [cC] !pull !push !grab
        complete run ->nothing [cC] !pull !push !grab""",
    "complete while a push is in flight, and the element is not grabbed": """
        pull run ->asked push complete step ->element step ->end [cAC] grab [cC] !grab""",
    "complete while a push is in flight, and the inlet asks again": """
        pull run ->asked push complete step ->element grab pull
        run ->end [cC] !pull !push !grab""",
    "pull while completing": "complete pull [cP] run ->end [cC] !pull !push !grab",
    "cancel while the inlet is ready": """
        cancel ->nothing [C] !pull !grab
        run ->cancelled [cC] !pull !push !grab
        complete run ->nothing [cC] cancel run ->nothing [cC] !pull !push !grab""",
    "cancel while the outlet is ready": """
        pull run ->asked [aP] cancel ->nothing [aC] !pull !grab
        run ->cancelled [cC] !pull !push !grab
        complete run ->nothing [cC] cancel run ->nothing [cC] !pull !push !grab""",
    "cancel while a pull is in flight": """
        pull cancel ->nothing [C] !push !grab
        run ->cancelled [cC] !pull !push !grab
        complete run ->nothing [cC] cancel run ->nothing [cC] !pull !push !grab""",
    "cancel while a push is in flight": """
        pull run ->asked push [P] cancel ->nothing [C] !pull
        run ->cancelled [cC] !pull !push !grab
        complete run ->nothing [cC] cancel run ->nothing [cC] !pull !push !grab""",
    "push while cancelling": "pull run ->asked cancel push [C] run ->cancelled [cC] !pull !push !grab",
    "cancel drops an element that was not grabbed": """
        pull run push run ->asked,element cancel ->nothing [C] !pull !grab
        run ->cancelled [cC] !pull !push !grab""",
    "cancel, then complete": "cancel complete run ->nothing [cC] !pull !push !grab",
    "complete, then cancel": "complete cancel run ->nothing [cC] !pull !push !grab",
    "push and complete, cancelled in flight": """
        pull run ->asked push complete cancel run ->nothing [cC] !pull !push !grab""",
    "push and complete, cancelled after the element": """
        pull run ->asked push complete step ->element [cA] !push grab
        cancel run ->nothing [cC] !pull !push !grab""",
    "grab before the element arrives": "pull run push !grab",
    "grab after a cancellation": "pull run push cancel run !grab",
    "fail while the inlet is ready": """
        fail ->nothing [c] !push
        run ->failure [cC] !pull !push !grab
        cancel run ->nothing [cC] complete run ->nothing [cC] !pull !push !grab""",
    "fail while the outlet is ready": """
        pull run ->asked [aP] fail ->nothing [cP] !push
        run ->failure [cC] !pull !push !grab
        cancel run ->nothing [cC] complete run ->nothing [cC] !pull !push !grab""",
    "fail while a pull is in flight": """
        pull [P] fail ->nothing [cP] !push
        run ->failure [cC] !pull !push !grab
        cancel run ->nothing [cC] complete run ->nothing [cC] !pull !push !grab""",
    "fail while a push is in flight": """
        pull run ->asked push [P] fail ->nothing [cP] !push
        step ->element [cA] !push grab !grab
        step ->failure [cC] !pull !push !grab
        complete run ->nothing [cC] !pull !push !grab""",
    "fail while a push is in flight, and the element is not grabbed": """
        pull run ->asked push fail step ->element step ->failure [cAC] grab [cC] !grab""",
    "fail while a push is in flight, and the inlet asks again": """
        pull run ->asked push fail step ->element grab pull
        run ->failure [cC] !pull !push !grab""",
    "pull while failing": "fail pull [cP] run ->failure [cC] !pull !push !grab",
    "cancel, then fail": "cancel fail run ->nothing [cC] !pull !push !grab",
    "fail, then cancel": "fail cancel run ->nothing [cC] !pull !push !grab",
    "push and fail, cancelled in flight": """
        pull run ->asked push fail cancel run ->nothing [cC] !pull !push !grab""",
    "push and fail, cancelled after the element": """
        pull run ->asked push fail step ->element [cA] !push grab
        cancel run ->nothing [cC] !pull !push !grab""",
}
ERROR = OSError("of the outlet")


class Player(ABC):
    """A connection that can play a case."""

    heard: list[str]
    """What its stages have heard since a case looked."""

    @abstractmethod
    def flags(self) -> str: ...

    @abstractmethod
    def call(self, name: str) -> None: ...

    @abstractmethod
    def refuse(self, name: str) -> None:
        """Assert that this call is refused, and changes nothing."""

    @abstractmethod
    def process(self, most: int) -> None:
        """Process so many events at most."""

    def play(self, case: str) -> None:
        """Play a case; an assertion fails where this connection does something else."""
        for word in case.split():
            if word.startswith("["):
                assert self.flags() == word[1:-1]
            elif word.startswith("!"):
                self.refuse(word[1:])
            elif word.startswith("->"):
                assert (",".join(self.heard) or "nothing") == word[2:]
                self.heard.clear()
            elif word in ("step", "run"):
                self.process(1 if word == "step" else 100)
            else:
                self.call(word)


class Listener(Stage[str, str]):
    """Notes what it hears, and does nothing."""

    def __init__(self, heard: list[str]) -> None:
        super().__init__()
        self.heard = heard

    def on_push(self, inlet: Connection[str]) -> None:
        # An assertion would only fail the stage.
        self.heard.append(inlet.element)

    def on_pull(self, outlet: Connection[str]) -> None:
        self.heard.append("asked")

    def on_upstream_finish(self, inlet: Connection[str]) -> None:
        self.heard.append("end")

    def on_upstream_failure(self, inlet: Connection[str], error: BaseException) -> None:
        self.heard.append("failure" if error is ERROR else "another failure")

    def on_downstream_finish(self, outlet: Connection[str]) -> None:
        self.heard.append("cancelled")


class OneConnection(Player):
    """A connection of the library between two listeners."""

    def __init__(self) -> None:
        self.heard = []
        self.island = Island()
        self.port: Connection[str] = self.island.connect(Listener(self.heard), Listener(self.heard))

    def call(self, name: str) -> None:
        arguments: dict[str, tuple[object, ...]] = {"push": ("element",), "fail": (ERROR,)}
        result = getattr(self.port, name)(*arguments.get(name, ()))
        assert name != "grab" or result == "element"

    def refuse(self, name: str) -> None:
        before = (self.port.state, self.port.element)
        with pytest.raises(LocalProtocolError, match=f"^{name}: "):
            self.call(name)
        assert (self.port.state, self.port.element) == before

    def process(self, most: int) -> None:
        assert not self.island.run(most) or most == 1, "events go on for ever"

    def flags(self) -> str:
        port = self.port
        held = {
            "a": port.is_asked,
            "c": port.is_out_closed,
            "A": port.is_available,
            "P": port.has_been_pulled,
            "C": port.is_in_closed,
        }
        return "".join(letter for letter, holds in held.items() if holds)
