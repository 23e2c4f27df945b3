"""Frozen dataclasses to and from JSON files: checked when read, whole or absent when written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from egretta.jobs.atomic import AtomicFile
from egretta.kernels.errors import UsageError

T = TypeVar("T")


def checked(kind: type[T], text: str, schema: int, *, source: str, hint: str) -> T:
    """Build ``kind`` from JSON text, refusing unknown keys, wrong types and another schema.

    Raises UsageError that names ``source`` and every fault in it.
    """
    # pydantic takes 0.1 s to import, which a command that reads no file need not pay
    from pydantic import TypeAdapter, ValidationError

    try:
        plain: Any = json.loads(text)
    except ValueError as error:
        raise UsageError(f"cannot read {source}: not JSON ({error})", hint=hint) from error
    found = plain.pop("schema", None) if isinstance(plain, dict) else None
    if found != schema:
        raise UsageError(
            f"cannot use {source}: its schema is {found!r}, this version of Egretta reads {schema}", hint=hint
        )
    try:
        return TypeAdapter(kind).validate_json(json.dumps(plain))
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg'].lower()}"
            for fault in error.errors(include_url=False, include_context=False, include_input=False)
        )
        raise UsageError(f"cannot use {source}: {faults}", hint=hint) from error


def read_text(path: str | Path, *, what: str, hint: str) -> str:
    """The text of a file. Raises UsageError when it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UsageError(f"cannot read {what} {path}: {reason}", hint=hint) from error


def write_text(path: str | Path, text: str, *, what: str) -> None:
    """Write a file so that a reader sees all of it or nothing. Raises SiteError or ResourceError."""
    with AtomicFile(path, what=what) as file:
        file.write(text.encode("utf-8"))
        file.commit()
