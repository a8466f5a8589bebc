"""What the types of a schema say of its batches, before one has come."""

import pyarrow as pa

__all__ = ["holds_any_bytes", "holds_dictionary", "row_bytes"]

# Whatever the bytes of such a value are, it is one.  Of others Arrow's ``ValidateArrayFull`` looks at the values, too:
# at offsets and texts, at decimals that have too many digits, at times behind midnight.
_ANY_BYTES = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_date32,
    pa.types.is_timestamp,
    pa.types.is_duration,
    pa.types.is_fixed_size_binary,
)


def holds_any_bytes(schema: pa.Schema) -> bool:
    """Is every batch valid whose buffers are long enough, if no value is missing, whatever is in these buffers?"""
    return all(any(holds(field.type) for holds in _ANY_BYTES) for field in schema)


def row_bytes(schema: pa.Schema) -> float | None:
    """Bytes of a row, where all columns have a fixed width."""
    try:
        return float(sum((field.type.bit_width + 1) / 8 for field in schema))
    except ValueError:
        return None


def holds_dictionary(kind: pa.DataType) -> bool:
    """Is there a dictionary in it, at any depth?"""
    if pa.types.is_dictionary(kind):
        return True
    return any(holds_dictionary(kind.field(position).type) for position in range(kind.num_fields))
