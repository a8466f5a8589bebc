"""Generated from proto/permitflow/wire/v1: never edited by hand."""
