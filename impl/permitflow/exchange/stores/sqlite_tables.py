"""What a durable store writes down, as tables.

The bytes of a chunk are written once: what is published moves from ``staged`` to ``kept`` by its number.
"""

__all__ = ["TABLES", "TABLES_VERSION"]

TABLES_VERSION = 2
"""Another number for tables that an older release would not understand.  Version 1 has no count of commits."""

_CHANNELS = """
CREATE TABLE IF NOT EXISTS channels (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    log_id TEXT NOT NULL,              -- the log in which its rows are counted
    row_permits INTEGER NOT NULL,
    permit_batch INTEGER NOT NULL,
    max_chunk_cost INTEGER NOT NULL,
    barrier_permits INTEGER NOT NULL,
    oversize TEXT NOT NULL,
    schema BLOB,                       -- Arrow IPC; NULL until a producer has stated it
    next_row INTEGER NOT NULL,
    state TEXT NOT NULL,               -- open, ended, broken
    reason TEXT NOT NULL               -- why it is broken
) STRICT
"""

_CONSUMERS = """
CREATE TABLE IF NOT EXISTS consumers (
    channel INTEGER NOT NULL REFERENCES channels,
    name TEXT NOT NULL,
    acknowledged_row INTEGER NOT NULL, -- it needs none before this one
    PRIMARY KEY (channel, name)
) STRICT, WITHOUT ROWID
"""

_PRODUCERS = """
CREATE TABLE IF NOT EXISTS producers (
    channel INTEGER NOT NULL REFERENCES channels,
    name TEXT NOT NULL,
    rows INTEGER NOT NULL,             -- of it that were ever taken over
    PRIMARY KEY (channel, name)
) STRICT, WITHOUT ROWID
"""

_BATCHES = """
CREATE TABLE IF NOT EXISTS batches (
    id INTEGER PRIMARY KEY,
    arrow BLOB NOT NULL,               -- Arrow IPC, without the schema
    checksum INTEGER NOT NULL          -- CRC-32 of it: SQLite has none of its own
) STRICT
"""

_KEPT = """
CREATE TABLE IF NOT EXISTS kept (
    channel INTEGER NOT NULL REFERENCES channels,
    first_row INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    batch INTEGER NOT NULL REFERENCES batches,
    PRIMARY KEY (channel, first_row)
) STRICT, WITHOUT ROWID
"""

# In the order in which they began.
_PARTS = """
CREATE TABLE IF NOT EXISTS parts (
    id INTEGER PRIMARY KEY,
    channel INTEGER NOT NULL REFERENCES channels,
    query TEXT NOT NULL,
    batch INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    attempt TEXT NOT NULL,
    turn INTEGER                       -- NULL; older releases: in the line of published parts
) STRICT
"""

_PARTS_INDEX = "CREATE INDEX IF NOT EXISTS parts_by_key ON parts (channel, query, batch, partition, attempt)"

_STAGED = """
CREATE TABLE IF NOT EXISTS staged (
    part INTEGER NOT NULL REFERENCES parts,
    position INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    batch INTEGER NOT NULL REFERENCES batches,
    PRIMARY KEY (part, position)
) STRICT, WITHOUT ROWID
"""

_PUBLISHED = """
CREATE TABLE IF NOT EXISTS published (
    query TEXT PRIMARY KEY,
    batch INTEGER NOT NULL             -- the last one
) STRICT, WITHOUT ROWID
"""

# A table of its own, as the first releases had none.
_PUBLISHING = """
CREATE TABLE IF NOT EXISTS publishing (
    turn INTEGER PRIMARY KEY,          -- who has published last has the largest
    query TEXT NOT NULL UNIQUE
) STRICT
"""

# One row: see sqlite_journal.
_COMMITS = """
CREATE TABLE IF NOT EXISTS commits (
    store TEXT NOT NULL,               -- made with the tables; its journal has the same
    number INTEGER NOT NULL,           -- of the last commit
    digest INTEGER NOT NULL,           -- of the other tables but ``batches`` and ``kept``
    previous_digest INTEGER NOT NULL   -- as the commit before has left it
) STRICT
"""

TABLES = (
    _CHANNELS,
    _CONSUMERS,
    _PRODUCERS,
    _BATCHES,
    _KEPT,
    _PARTS,
    _PARTS_INDEX,
    _STAGED,
    _PUBLISHED,
    _PUBLISHING,
    _COMMITS,
)
