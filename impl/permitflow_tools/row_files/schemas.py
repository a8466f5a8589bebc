"""Schemas in words, as in ``n:int64,name:string,at:timestamp[us]``."""

import re

import pyarrow as pa

from permitflow.errors import InvalidParametersError

_DECIMAL = re.compile(r"decimal(128|256)?\((\d+),(-?\d+)\)")
_LIST = re.compile(r"list<(.+)>")
_TOP_COMMA = re.compile(r",(?![^(<\[]*[)>\]])")


def parsed_schema(text: str) -> pa.Schema:
    """Parse a schema: names and types of Arrow, each pair with a colon, separated by commas.

    Raises:
        InvalidParametersError: a part is not a name and type, a type is unknown, or a name stands there twice.
    """
    fields = []
    for part in _TOP_COMMA.split(text):
        name, colon, kind = part.strip().rpartition(":")
        if not colon or not name.strip():
            rule = "must be NAME:TYPE,NAME:TYPE as in n:int64,name:string"
            raise InvalidParametersError(name="schema", value=part, rule=rule)
        fields.append(pa.field(name.strip(), _type(kind.strip())))
    names = [field.name for field in fields]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InvalidParametersError(name="schema", value=twice, rule="must not name a column twice")
    return pa.schema(fields)


def _type(text: str) -> pa.DataType:
    if found := _DECIMAL.fullmatch(text.replace(" ", "")):
        make = pa.decimal256 if found[1] == "256" else pa.decimal128
        try:
            return make(int(found[2]), int(found[3]))
        except (ValueError, pa.ArrowException) as error:
            raise InvalidParametersError(name="schema", value=text, rule=f"cannot be: {error}") from error
    if found := _LIST.fullmatch(text):
        return pa.list_(_type(found[1].strip()))
    try:
        return pa.type_for_alias(text)
    except ValueError:
        rule = "must have types of Arrow, as int64, float64, string, bool, date32, timestamp[us], decimal128(10,2)"
        raise InvalidParametersError(name="schema", value=text, rule=rule) from None
