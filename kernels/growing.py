"""Arrays that grow inside kernels whose output size is known only at their end."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def grown(values, used, capacity):  # type: ignore[no-untyped-def]
    """A copy with room for ``capacity`` elements, of which the first ``used`` are kept."""
    larger = np.empty(capacity, values.dtype)
    larger[:used] = values[:used]
    return larger
