"""``python -m egretta.jobs UNIT.json``: run one unit, by hand or under any backend.

Exit codes: 0 the output and its manifest are in place; 2 the unit file cannot be used; otherwise the attempt
failed and its manifest says why: 10 transient, 11 data, 12 resource, 13 site, 14 code.
"""

from __future__ import annotations

import sys
import time

from egretta.jobs.failures import EXIT_USAGE
from egretta.jobs.limits import die_with_parent, set_threads
from egretta.jobs.unit import Unit
from egretta.kernels.errors import EgrettaError, UsageError


def main(arguments: list[str]) -> int:
    """Run the unit of the file that the one argument names."""
    began = time.perf_counter()
    if arguments in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    die_with_parent()
    try:
        if len(arguments) != 1:
            raise UsageError("one argument is needed", hint="python -m egretta.jobs UNIT.json")
        unit = Unit.load(arguments[0])
    except EgrettaError as error:
        print(f"egretta.jobs: {error}", file=sys.stderr)
        return EXIT_USAGE
    set_threads(unit.threads)  # before the import below brings in NumPy and, later, Numba
    from egretta.jobs.account import Account
    from egretta.jobs.job import attempt

    return attempt(unit, Account(unit, began=began))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
