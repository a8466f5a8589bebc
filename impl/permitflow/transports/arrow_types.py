"""What the types of a schema say of its batches, before one has come."""

import pyarrow as pa

__all__ = ["holds_dictionary", "row_bytes"]


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
