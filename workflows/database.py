"""The ledger's tables, and its file opened with errors that say what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from egretta.kernels.errors import EgrettaError, ResourceError, SiteError, UsageError

SCHEMA = 1

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE files (
    file INTEGER PRIMARY KEY, path TEXT NOT NULL, uuid TEXT UNIQUE, tree TEXT, kind TEXT,
    entries INTEGER NOT NULL DEFAULT 0, used INTEGER NOT NULL DEFAULT 0,
    failure_class TEXT, error TEXT, message TEXT, hint TEXT
);
CREATE TABLE units (
    unit INTEGER PRIMARY KEY, file INTEGER NOT NULL REFERENCES files, start INTEGER NOT NULL,
    stop INTEGER NOT NULL, state TEXT NOT NULL DEFAULT 'pending', attempts INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0, not_before REAL NOT NULL DEFAULT 0, memory_mb INTEGER,
    timeout_s REAL, processed INTEGER NOT NULL DEFAULT 0, quarantined INTEGER NOT NULL DEFAULT 0,
    failure_class TEXT, error TEXT, message TEXT
);
CREATE INDEX units_pending ON units (not_before, unit) WHERE state = 'pending';
CREATE INDEX units_running ON units (unit) WHERE state = 'running';
CREATE INDEX units_troubled ON units (failure_class, error, state, start, stop)
    WHERE failure_class IS NOT NULL;
CREATE TABLE attempts (
    unit INTEGER NOT NULL REFERENCES units, attempt INTEGER NOT NULL, state TEXT NOT NULL, handle TEXT,
    host TEXT, submitted_at REAL NOT NULL, finished_at REAL, wall_s REAL, cpu_s REAL, peak_memory_mb REAL,
    failure_class TEXT, error TEXT, message TEXT, hint TEXT, PRIMARY KEY (unit, attempt)
) WITHOUT ROWID;
CREATE TABLE manifests (
    unit INTEGER PRIMARY KEY REFERENCES units, attempt INTEGER NOT NULL, checksum TEXT,
    output_bytes INTEGER NOT NULL, text TEXT NOT NULL
);
CREATE TABLE quarantined_events (
    unit INTEGER NOT NULL REFERENCES units, entry INTEGER NOT NULL, event INTEGER NOT NULL,
    failure_class TEXT NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (unit, entry)
) WITHOUT ROWID;
"""


@contextmanager
def connected(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection for a moment."""
    connection = open_connection(path)
    try:
        yield connection
    finally:
        connection.close()


def open_connection(path: Path) -> sqlite3.Connection:
    """A connection in autocommit mode with the write-ahead log on. Raises as ``explained`` does."""
    with explained(path, "open"):
        # Autocommit mode: every transaction is opened by _transaction and by nothing else.
        connection = sqlite3.connect(path, timeout=60.0, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def explained(path: Path, doing: str) -> Iterator[None]:
    """Turn errors of SQLite and the system into ResourceError (full), UsageError (damaged) or SiteError."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explain(path, doing, str(error)) from error
    except OSError as error:
        raise _explain(path, doing, error.strerror or str(error)) from error


def _explain(path: Path, doing: str, why: str) -> EgrettaError:
    message = f"cannot {doing} the ledger {path}: {why}"
    if "full" in why or "No space" in why or "disk I/O" in why:
        return ResourceError(message, hint="free space there, then run the same command again: it continues")
    if "not a database" in why or "malformed" in why:
        return UsageError(message, hint="the ledger is damaged; give [output] directory another name")
    return SiteError(message, hint="give [output] a directory that this user can write to")
