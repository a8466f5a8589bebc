"""Every deliberate exception: listed, composed of its facts, and the same after a journey between processes."""

import copy
import inspect
import pickle

import pytest
from pyspark import cloudpickle

from permitflow import errors
from permitflow.errors import (
    ChannelError,
    HandshakeError,
    LocalProtocolError,
    PermitflowError,
    ProtocolError,
    RemoteProtocolError,
    TransportError,
)

SAMPLES: dict[str, object] = {
    "str": "a word",
    "int": 4_711,
    "float": 0.5,
    "bool": True,
    "object": "something",
    "tuple[str, ...]": ("orders/0", "orders/1"),
}


def every_class() -> list[type[PermitflowError]]:
    found = {PermitflowError}
    queue = [PermitflowError]
    while queue:
        below = [cls for cls in queue.pop().__subclasses__() if cls.__module__ == errors.__name__]
        queue += below
        found.update(below)
    return sorted(found, key=lambda cls: cls.__name__)


CLASSES = every_class()


def arguments_of(cls: type[PermitflowError]) -> dict[str, object]:
    """A sample for each argument of a constructor, by its annotation."""
    parameters = inspect.signature(cls).parameters.values()
    return {
        parameter.name: SAMPLES[inspect.formatannotation(parameter.annotation)]
        for parameter in parameters
        if parameter.kind is not parameter.VAR_KEYWORD
    }


def sample(cls: type[PermitflowError]) -> PermitflowError:
    return cls(**arguments_of(cls))  # type: ignore[arg-type]  # samples of every kind


def pickled(error: PermitflowError) -> object:
    return pickle.loads(pickle.dumps(error))


def pickled_by_spark(error: PermitflowError) -> object:
    return cloudpickle.loads(cloudpickle.dumps(error))  # type: ignore[no-untyped-call]  # as it is


def test_every_exception_of_the_module_is_one_of_the_package() -> None:
    defined = {value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, Exception)}
    assert defined == set(CLASSES)
    assert len(CLASSES) > 20


@pytest.mark.parametrize("cls", CLASSES)
def test_an_error_is_the_same_after_the_journey(cls: type[PermitflowError]) -> None:
    error = sample(cls)
    for journey in (pickled, pickled_by_spark, copy.deepcopy):
        arrived = journey(error)
        assert type(arrived) is cls
        assert isinstance(arrived, PermitflowError)
        assert str(arrived) == str(error) == error.message
        assert arrived.facts == error.facts
        assert {name: getattr(arrived, name) for name in error.facts} == error.facts
        assert str(pickled(arrived)) == str(error), "and it can travel on"


@pytest.mark.parametrize("cls", CLASSES)
def test_facts_are_attributes_and_the_message_tells_them(cls: type[PermitflowError]) -> None:
    arguments = arguments_of(cls)
    error = cls(**arguments)  # type: ignore[arg-type]  # samples of every kind
    arguments.pop("message", None)
    for name, value in arguments.items():
        assert getattr(error, name) == value, name
        if name not in {"undelivered", "split"}:
            told = value if isinstance(value, tuple) else (value,)
            assert all(str(part) in str(error) for part in told), name
    for name in inspect.get_annotations(cls):
        assert hasattr(error, name), f"{name} is declared and never set"


def test_the_type_says_whose_fault_it_is() -> None:
    faults = {
        "somebody broke the rules": ProtocolError,
        "the two ends could not agree": HandshakeError,
        "nobody's": ChannelError,
        "the carrier's": TransportError,
    }
    for cls in CLASSES:
        blamed = [fault for fault, base in faults.items() if issubclass(cls, base)]
        assert len(blamed) <= 1, f"{cls.__name__} blames {blamed}"
        assert not issubclass(cls, LocalProtocolError) or not issubclass(cls, RemoteProtocolError)


def test_a_carriers_error_names_the_action_and_keeps_its_cause() -> None:
    cause = ConnectionResetError("reset by peer")
    error = TransportError.of(what="sending a chunk to localhost:1", cause=cause)
    assert str(error) == "sending a chunk to localhost:1: reset by peer"
    assert error.__cause__ is cause
    assert error.facts == {"what": "sending a chunk to localhost:1"}
