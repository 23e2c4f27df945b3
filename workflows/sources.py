"""Where a campaign's settings come from, laid over each other, and how a wrong one is told."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from egretta.kernels.errors import SpecError

# Section -> its known keys; None for a free table.
KnownKeys = Mapping[str, Sequence[str] | None]

ENVIRONMENT_PREFIX = "EGRETTA_"


def read_layers(
    path: Path, known: KnownKeys, overrides: Mapping[str, Any], environment: Mapping[str, str]
) -> dict[str, Any]:
    """Environment, file and command line, each laid over the one before; unchecked beyond its form.

    Raises SpecError for a file that cannot be read, that is not TOML, or a setting of no known section.
    """
    values = _from_environment(known, environment)
    for section, table in _from_file(path).items():
        if isinstance(table, dict) and isinstance(values.get(section, {}), dict):
            values[section] = {**values.get(section, {}), **table}
        else:
            values[section] = table
    for name, value in overrides.items():
        section, dot, key = name.partition(".")
        if not dot or section not in known:
            raise SpecError(
                f"command line: there is no setting {name!r}",
                hint=f"write section.key=value with a section of {', '.join(known)}",
            )
        values[section] = {**values.get(section, {}), key: value}
    return values


def parse_value(text: str) -> Any:
    """A value as TOML reads it; a bare word is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word that was most likely meant: a misspelling, or a name without its unit."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return close[0]
    parts = [name for name in known if word and (word in name or name in word)]
    return parts[0] if parts else None


def describe_problems(path: Path, known: KnownKeys, problems: Sequence[Mapping[str, Any]]) -> SpecError:
    """One SpecError for all that pydantic found wrong (its ``errors()``)."""
    lines = []
    hints = []
    for problem in problems:
        location = [str(part) for part in problem["loc"]]
        message, hint = _describe(path, location, problem, known)
        lines.append(message)
        hints.append(hint)
    text = lines[0] if len(lines) == 1 else "\n    ".join(["several settings are wrong:", *lines])
    return SpecError(f"{path}: {text}", hint="; ".join(dict.fromkeys(filter(None, hints))))


def _describe(
    path: Path, location: list[str], problem: Mapping[str, Any], known: KnownKeys
) -> tuple[str, str]:
    section, key = location[0], ".".join(location[1:])
    keys = known.get(section) or ()
    where = f"[{section}] {key}" if key else f"[{section}]"
    if problem["type"] == "extra_forbidden":
        candidates = list(keys) if key else list(known)
        guess = nearest(location[-1], candidates)
        kind = "key" if key else "section"
        hint = f"did you mean {guess!r}?" if guess else f"known {kind}s here: {', '.join(candidates)}"
        return f"{where}: unknown {kind}", hint
    if problem["type"] == "missing":
        example = f"[{section}] {key} = ..." if key else f"a section [{section}]"
        return f"{where} is missing", f"add {example} to {path.name}"
    why = str(problem["msg"]).removeprefix("Value error, ")
    given = problem.get("input")
    shown = "" if isinstance(given, dict) else f" (given: {given!r})"
    return f"{where}: {why}{shown}", f"correct {where}"


def _from_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            return tomllib.load(stream)
    except FileNotFoundError:
        similar = nearest(path.name, [other.name for other in path.parent.glob("*.toml")])
        hint = f"did you mean {path.parent / similar}?" if similar else "name an existing campaign file"
        raise SpecError(f"{path}: there is no such campaign file", hint=hint) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: not a TOML file: {error}", hint="correct the line that is named") from None
    except OSError as error:
        raise SpecError(
            f"{path}: the campaign file cannot be read: {error.strerror}", hint="check its permissions"
        ) from None


def _from_environment(known: KnownKeys, environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for variable, text in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        section, underscore, key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().partition("_")
        if not underscore or section not in known:
            continue  # EGRETTA_SHARED_DATA and its like are no settings of a campaign
        keys = known[section]
        if keys is not None and key not in keys:
            guess = nearest(key, keys)
            raise SpecError(
                f"environment variable {variable}: [{section}] has no key {key!r}",
                hint=f"did you mean {ENVIRONMENT_PREFIX}{section.upper()}_{guess.upper()}?"
                if guess
                else f"known keys: {', '.join(keys)}",
            )
        values.setdefault(section, {})[key] = parse_value(text)
    return values
