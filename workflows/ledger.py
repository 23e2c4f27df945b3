"""The ledger: what a campaign consists of and what became of it, in one SQLite file.

Each method is one transaction, so the ledger is whole whenever its process dies. A unit is done by its
first manifest, for good: a second one is recorded as a duplicate and changes nothing. Readers (``status``)
see a consistent state while a runner writes (write-ahead log).
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from egretta.jobs.manifest import Failure, Manifest
from egretta.kernels.errors import FailureClass, UsageError
from egretta.workflows.database import SCHEMA, TABLES, connected, explained, open_connection
from egretta.workflows.dataset import BadFile, InputFile
from egretta.workflows.layout import unit_number
from egretta.workflows.splitting import Range
from egretta.workflows.states import AttemptState, UnitState


@dataclass(frozen=True, slots=True)
class Claim:
    """An attempt that was handed out: all that is needed to make its Unit, or to judge what it left.

    ``failures`` counts the failed attempts before it; ``memory_mb`` and ``timeout_s`` are what a retry
    raised them to, None where the campaign file decides.
    """

    unit: int
    attempt: int
    failures: int
    path: str
    uuid: str
    tree: str | None
    start: int
    stop: int
    memory_mb: int | None
    timeout_s: float | None
    handle: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the retry policy decided for a unit whose attempt failed; see workflows/retry.py."""

    state: UnitState
    not_before: float = 0.0
    memory_mb: int | None = None
    timeout_s: float | None = None
    why: str = ""


class Ledger:
    """An open ledger. A context manager; ``create`` and ``open`` make it."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.connection = connection
        self.path = path

    @classmethod
    def exists(cls, path: Path) -> bool:
        """True if a campaign has been started here. One that died while being created has not."""
        if not path.is_file() or path.stat().st_size == 0:
            return False
        with connected(path) as connection, explained(path, "read"):
            query = "SELECT count(*) FROM sqlite_master WHERE name = 'meta'"
            return bool(connection.execute(query).fetchone()[0])

    @classmethod
    def create(
        cls,
        path: Path,
        meta: Mapping[str, Any],
        files: Sequence[InputFile],
        used: Sequence[int],
        ranges: Iterable[Range],
        bad_files: Iterable[BadFile] = (),
    ) -> Ledger:
        """Start a campaign, wholly or not at all. ``used[i]`` entries of file i are in the campaign."""
        with explained(path, "create"):
            path.parent.mkdir(parents=True, exist_ok=True)
        ledger = cls(open_connection(path), path)
        try:
            with ledger._transaction("create") as db:
                for statement in filter(str.strip, TABLES.split(";\n")):
                    db.execute(statement)
                db.executemany(
                    "INSERT INTO files (file, path, uuid, tree, kind, entries, used) VALUES (?,?,?,?,?,?,?)",
                    (
                        (index, file.path, file.uuid, file.tree, file.kind, file.entries, use)
                        for index, (file, use) in enumerate(zip(files, used, strict=True))
                    ),
                )
                db.executemany(
                    "INSERT INTO files (path, failure_class, error, message, hint) VALUES (?,?,?,?,?)",
                    ((bad.path, bad.failure_class, bad.error, bad.message, bad.hint) for bad in bad_files),
                )
                db.executemany(
                    "INSERT INTO units (unit, file, start, stop) VALUES (?,?,?,?)",
                    ((number, r.file_index, r.start, r.stop) for number, r in enumerate(ranges)),
                )
                ledger._set_meta({**meta, "schema": SCHEMA, "created_at": time.time()})
        except BaseException:
            ledger.close()
            raise
        return ledger

    @classmethod
    def open(cls, path: Path) -> Ledger:
        """Open the ledger of a campaign that was started. Raises UsageError for one of another version."""
        if not cls.exists(path):
            raise UsageError(f"no campaign has been started at {path.parent}", hint="start it: egretta run")
        ledger = cls(open_connection(path), path)
        schema = ledger.meta("schema")
        if schema != SCHEMA:
            ledger.close()
            raise UsageError(
                f"{path} has schema {schema}; this version of Egretta reads {SCHEMA}",
                hint="finish the campaign with the version that started it",
            )
        return ledger

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def meta(self, key: str) -> Any:
        """A fact about the campaign (plain data), or None."""
        row = self._rows("SELECT value FROM meta WHERE key = ?", (key,))
        return json.loads(row[0][0]) if row else None

    def set_meta(self, **values: Any) -> None:
        """Record facts about the campaign."""
        with self._transaction("write to"):
            self._set_meta(values)

    def claim(self, limit: int, now: float) -> list[Claim]:
        """Take up to ``limit`` pending units that may start, as new attempts; they are running from here on.

        Fresh units come before those that failed.
        """
        with self._transaction("write to") as db:
            units = db.execute(
                "SELECT unit FROM units WHERE state = 'pending' AND not_before <= ? "
                "ORDER BY not_before, unit LIMIT ?",
                (now, limit),
            ).fetchall()
            db.executemany(
                "UPDATE units SET state = 'running', attempts = attempts + 1 WHERE unit = ?", units
            )
            db.executemany(
                "INSERT INTO attempts (unit, attempt, state, submitted_at) "
                "SELECT unit, attempts, 'running', ? FROM units WHERE unit = ?",
                ((now, unit) for (unit,) in units),
            )
            return [self._claims("units.unit = ?", (unit,))[0] for (unit,) in units]

    def set_handles(self, handles: Iterable[tuple[int, int, str]]) -> None:
        """Record what the backend calls its jobs: (unit, attempt, handle)."""
        with self._transaction("write to") as db:
            db.executemany(
                "UPDATE attempts SET handle = ? WHERE unit = ? AND attempt = ?",
                ((handle, unit, attempt) for unit, attempt, handle in handles),
            )

    def running(self) -> list[Claim]:
        """The attempts that were handed out and of which nothing has been heard since."""
        return self._claims("units.state = 'running'", ())

    def next_start(self) -> float | None:
        """The time at which the next pending unit may start; None if no unit is pending."""
        return self._rows("SELECT min(not_before) FROM units WHERE state = 'pending'")[0][0]  # type: ignore[no-any-return]

    def commit(self, manifest: Manifest, now: float) -> bool:
        """Take in the manifest of an attempt that succeeded. True if it is its unit's first.

        False: another attempt's manifest stands, this one's output must be removed.
        """
        unit = unit_number(manifest.unit_id)
        with self._transaction("write to") as db:
            first = db.execute(
                "INSERT OR IGNORE INTO manifests (unit, attempt, checksum, output_bytes, text) "
                "VALUES (?,?,?,?,?)",
                (unit, manifest.attempt, manifest.checksum, manifest.output_bytes, manifest.to_json()),
            ).rowcount
            state = AttemptState.DONE
            if first:
                db.execute(
                    "UPDATE units SET state = 'done', processed = ?, quarantined = ?, failure_class = NULL, "
                    "error = NULL, message = NULL WHERE unit = ?",
                    (manifest.events_processed, len(manifest.quarantined), unit),
                )
                db.executemany(
                    "INSERT INTO quarantined_events VALUES (?,?,?,?,?)",
                    ((unit, q.entry, q.event, q.failure_class, q.reason) for q in manifest.quarantined),
                )
            elif not self._is_winner(unit, manifest.attempt):
                state = AttemptState.DUPLICATE
            self._end_attempt(unit, manifest.attempt, state, now, manifest)
        return state is AttemptState.DONE

    def fail(
        self, claim: Claim, failure: Failure, verdict: Verdict, now: float, manifest: Manifest | None = None
    ) -> None:
        """Record a failed attempt and what is to become of its unit.

        ``manifest`` is the failed attempt's own account, if it could leave one.
        """
        with self._transaction("write to") as db:
            self._end_attempt(claim.unit, claim.attempt, AttemptState.FAILED, now, manifest, failure)
            db.execute(
                "UPDATE units SET state = ?, failures = failures + 1, not_before = ?, failure_class = ?, "
                "error = ?, message = ?, memory_mb = coalesce(?, memory_mb), "
                "timeout_s = coalesce(?, timeout_s) WHERE unit = ? AND state = 'running'",
                (
                    verdict.state,
                    verdict.not_before,
                    failure.failure_class,
                    failure.error,
                    failure.message,
                    verdict.memory_mb,
                    verdict.timeout_s,
                    claim.unit,
                ),
            )

    def release(self, claims: Iterable[Claim], state: AttemptState, now: float) -> None:
        """Put units back to pending whose attempts were lost or cancelled: no fault of theirs."""
        with self._transaction("write to") as db:
            for claim in claims:
                self._end_attempt(claim.unit, claim.attempt, state, now)
                db.execute(
                    "UPDATE units SET state = 'pending' WHERE unit = ? AND state = 'running'", (claim.unit,)
                )

    def reopen(
        self,
        failure_class: FailureClass | None = None,
        units: Sequence[int] = (),
        memory_mb: int | None = None,
        timeout_s: float | None = None,
    ) -> tuple[int, int]:
        """Make failed and quarantined units pending again, with all their attempts before them.

        Narrowed to a failure class and to named units. Returns the units and the events reopened.
        """
        condition = "state IN ('failed', 'quarantined')"
        values: list[Any] = []
        if failure_class is not None:
            condition += " AND failure_class = ?"
            values.append(failure_class)
        if units:
            condition += f" AND unit IN ({','.join('?' * len(units))})"
            values.extend(units)
        with self._transaction("write to") as db:
            count, events = db.execute(
                f"SELECT count(*), coalesce(sum(stop - start), 0) FROM units WHERE {condition}", values
            ).fetchone()
            db.execute(
                "UPDATE units SET state = 'pending', failures = 0, not_before = 0, "
                "memory_mb = coalesce(?, memory_mb), timeout_s = coalesce(?, timeout_s) "
                f"WHERE {condition}",
                [memory_mb, timeout_s, *values],
            )
        return count, events

    def admit(self, row: int, files: Sequence[tuple[InputFile, int, Iterable[Range]]]) -> tuple[int, int]:
        """Put files in the place of a skipped one (its row): (file, entries used, its ranges).

        Returns the new units and their events. Raises UsageError for a file that the campaign has already.
        """
        units = events = 0
        with self._transaction("write to") as db:
            for file, used, ranges in files:
                known = db.execute("SELECT path FROM files WHERE uuid = ?", (file.uuid,)).fetchone()
                if known:
                    raise UsageError(
                        f"{file.path} is {known[0]} (UUID {file.uuid}), which the campaign has already",
                        hint="its events would be counted twice; leave it out",
                    )
                number = db.execute(
                    "INSERT INTO files (path, uuid, tree, kind, entries, used) VALUES (?,?,?,?,?,?)",
                    (file.path, file.uuid, file.tree, file.kind, file.entries, used),
                ).lastrowid
                units += db.executemany(
                    "INSERT INTO units (file, start, stop) VALUES (?,?,?)",
                    ((number, part.start, part.stop) for part in ranges),
                ).rowcount
                events += used
            db.execute("DELETE FROM files WHERE file = ?", (row,))
        return units, events

    def skipped(self) -> list[tuple[int, str]]:
        """The input files that were left out: row and path or pattern."""
        return self._rows("SELECT file, path FROM files WHERE failure_class IS NOT NULL ORDER BY file")

    def undo(self, units: Iterable[int]) -> None:
        """Make done units pending again, as if they had never run: their outputs are lost or damaged."""
        with self._transaction("write to") as db:
            for unit in units:
                db.execute("DELETE FROM quarantined_events WHERE unit = ?", (unit,))
                db.execute("DELETE FROM manifests WHERE unit = ?", (unit,))
                db.execute(
                    "UPDATE units SET state = 'pending', failures = 0, not_before = 0, processed = 0, "
                    "quarantined = 0 WHERE unit = ? AND state = 'done'",
                    (unit,),
                )

    def manifests(self) -> Iterator[Manifest]:
        """The manifests that stand, one for each unit that is done, in unit order."""
        for (text,) in self.connection.execute("SELECT text FROM manifests ORDER BY unit"):
            yield Manifest.from_json(text, source=f"the ledger {self.path}")

    def _claims(self, condition: str, values: Sequence[Any]) -> list[Claim]:
        rows = self._rows(
            "SELECT units.unit, attempts.attempt, failures, path, uuid, tree, start, stop, memory_mb, "
            "timeout_s, handle FROM units JOIN files USING (file) JOIN attempts ON "
            "attempts.unit = units.unit AND attempts.attempt = units.attempts "
            f"WHERE {condition} ORDER BY units.unit",
            values,
        )
        return [Claim(*row) for row in rows]

    def _is_winner(self, unit: int, attempt: int) -> bool:
        return bool(self._rows("SELECT 1 FROM manifests WHERE unit = ? AND attempt = ?", (unit, attempt)))

    def _end_attempt(
        self,
        unit: int,
        attempt: int,
        state: AttemptState,
        now: float,
        manifest: Manifest | None = None,
        failure: Failure | None = None,
    ) -> None:
        used: tuple[Any, ...] = (None, None, None, None)
        if manifest is not None:
            used = (manifest.host, manifest.wall_seconds, manifest.cpu_seconds, manifest.peak_memory_mb)
        why: tuple[Any, ...] = (None, None, None, None)
        if failure is not None:
            why = (failure.failure_class, failure.error, failure.message, failure.hint)
        self.connection.execute(
            "UPDATE attempts SET state = ?, finished_at = ?, host = ?, wall_s = ?, cpu_s = ?, "
            "peak_memory_mb = ?, failure_class = ?, error = ?, message = ?, hint = ? "
            "WHERE unit = ? AND attempt = ?",
            (state, now, *used, *why, unit, attempt),
        )

    def _set_meta(self, values: Mapping[str, Any]) -> None:
        self.connection.executemany(
            "INSERT INTO meta VALUES (?,?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            ((key, json.dumps(value, sort_keys=True)) for key, value in values.items()),
        )

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        with explained(self.path, "read"):
            return self.connection.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self, doing: str) -> Iterator[sqlite3.Connection]:
        with explained(self.path, doing):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise
