"""Whatever comes as a schema or a batch: it is refused with a type, or sound, and takes bounded memory."""

from hypothesis import given

from tests.hostile.arrow import Chunk, chunks, decode_chunk, decode_schema, hostile_schemas


@given(hostile_schemas)
def test_a_schema_is_refused_in_words_or_sound(data: bytes) -> None:
    decode_schema(data)


@given(chunks())
def test_a_chunk_is_refused_in_words_or_sound(chunk: Chunk) -> None:
    decode_chunk(chunk)
