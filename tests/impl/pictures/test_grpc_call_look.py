"""A gRPC call in pictures: there are words for exactly the guards that the model has, and messages are numbers."""

from permitflow.pictures.looks.grpc_call import LOOK, WORDS
from permitflow.pictures.specification import guards_of
from permitflow_model.grpc_call import SYSTEM, Message
from permitflow_model.kernel.queue import Fifo


def test_there_are_words_for_exactly_the_guards_that_the_model_has() -> None:
    assert {*WORDS} == {guard for action in SYSTEM.actions for guard in guards_of(action.perform)}


def test_a_message_is_its_number_and_its_bytes_if_it_has_more_than_one() -> None:
    assert LOOK.value(Fifo((Message(0, 1), Message(12, 3_000)))) == "⟨#0, #12 (3,000 B)⟩"
