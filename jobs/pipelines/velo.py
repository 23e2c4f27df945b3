"""The pipeline ``velo``: raw banks or hits of the VELO to straight tracks.

decode → embedding → nearest neighbours → straight triplets → graph network → threshold → connected
components → peeling into tracks, absorption of overlap hits, line fit. ``docs/velo.md`` tells why each step
is there.
"""

from __future__ import annotations

import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, TypeVar

import numpy as np

from egretta.engines.models import shipped
from egretta.engines.opening import open_engine
from egretta.engines.protocol import Engine
from egretta.jobs.pipelines.base import BatchResult, RejectedEvent
from egretta.jobs.pipelines.velo_options import VeloOptions, read_options
from egretta.jobs.tracks import concatenate, offsets_of
from egretta.kernels.batches import BankBatch, Float32, HitBatch, TrackBatch
from egretta.kernels.checks import check_hits, without_events
from egretta.kernels.decoding import decode_banks
from egretta.kernels.errors import CodeError, FailureClass
from egretta.kernels.geometry import VeloGeometry
from egretta.kernels.knn import N_GAPS, nearest_neighbours
from egretta.kernels.tracking import TrackingConfig, components_of, find_candidates
from egretta.kernels.triplets import straight_triplets

T = TypeVar("T")

# Events are taken through the steps in groups of about this many hits: large enough to spread the cost of
# calls, small enough that memory does not grow with the batch.
_GROUP_HITS = 8192


def make_pipeline(options: Mapping[str, Any]) -> VeloPipeline:
    """Build the pipeline from a unit's options; see PipelineFactory."""
    return VeloPipeline(read_options(options))


class VeloPipeline:
    """Tracks of the VELO, a batch of events at a time."""

    def __init__(self, options: VeloOptions) -> None:
        self._options = options
        geometry = options.geometry
        self._geometry = VeloGeometry.load(geometry) if geometry else VeloGeometry.nominal()
        threads = int(os.environ.get("EGRETTA_THREADS", "1"))
        self._embedding = self._engine("embedding", ("query", "key"), threads)
        self._gnn = self._engine("gnn", ("triplet_logit",), threads)
        self._d_max = self._distances()
        self._k = options.k or self._setting(self._embedding, "k", _count)
        self._kink_max = options.kink_max or self._setting(self._embedding, "kink_max", _positive)
        threshold = options.threshold
        if threshold is None:
            threshold = self._setting(self._gnn, "threshold", _number)
        self._tracking = TrackingConfig(threshold=threshold)

    def _engine(self, role: Literal["embedding", "gnn"], outputs: tuple[str, ...], threads: int) -> Engine:
        """The model of that role in the chosen engine; it must give these outputs."""
        path = self._options.models.get(role, shipped(f"velo-{role}"))
        engine = open_engine(self._options.engine, path, threads=threads)
        given = [tensor.name for tensor in engine.spec.outputs]
        if not set(outputs) <= set(given):
            raise CodeError(
                f"{path} cannot be the {role}: it gives {', '.join(given)}, not {', '.join(outputs)}",
                hint="check which model each role has under [inference] models",
            )
        return engine

    def _setting(self, engine: Engine, name: str, parse: Callable[[str], T]) -> T:
        """A setting that the model was trained with, where the campaign does not set it."""
        value = engine.spec.settings.get(name)
        if value is None:
            raise CodeError(
                f"the model {engine.spec.name} does not say its {name!r}",
                hint=f"set {name} under [pipeline], or put it into the model's metadata",
            )
        try:
            return parse(value)
        except ValueError as error:
            raise CodeError(
                f"the model {engine.spec.name} says {name} = {value!r}, which cannot be used: {error}",
                hint=f"set {name} under [pipeline], or mend the model's metadata",
            ) from error

    def _distances(self) -> Float32:
        given = self._options.d_max or self._setting(self._embedding, "d_max", _numbers)
        if len(given) != N_GAPS:
            raise CodeError(
                f"d_max holds {len(given)} distances, one for each of {N_GAPS} gaps is needed",
                hint="give three numbers: for the same, the next and the next but one station",
            )
        return np.array(given, np.float32)

    def process(self, batch: BankBatch | HitBatch) -> BatchResult:
        """Tracks of one batch; events with bad banks or hits are rejected."""
        clock = _Stopwatch()
        with clock("decode"):
            hits, rejected = self._hits_of(batch)
        counts: dict[str, int] = defaultdict(int)
        parts = [self._track(group, clock, counts) for group in _groups(hits)]
        with clock("peel"):
            tracks = concatenate(parts) if parts else _no_tracks(hits)
        counts["hits"] = hits.n_hits
        counts["tracks"] = tracks.n_tracks
        return BatchResult(tracks, hits, rejected, clock.seconds, counts)

    def _hits_of(self, batch: BankBatch | HitBatch) -> tuple[HitBatch, tuple[RejectedEvent, ...]]:
        """Decoded or checked hits; rejected events have none left."""
        if isinstance(batch, BankBatch):
            hits, decoded = decode_banks(batch, self._geometry, self._options.banks)
            bad = np.flatnonzero(decoded.code)
            reasons = [decoded.reason(batch, int(e)) for e in bad]
        else:
            checked = check_hits(batch)
            bad = np.flatnonzero(checked.code)
            reasons = [checked.reason(int(e)) for e in bad]
            hits = without_events(batch, checked.code != 0) if len(bad) else batch
        rejected = tuple(
            RejectedEvent(int(e), FailureClass.DATA, reason) for e, reason in zip(bad, reasons, strict=True)
        )
        return hits, rejected

    def _track(self, hits: HitBatch, clock: _Stopwatch, counts: dict[str, int]) -> TrackBatch:
        with clock("embed"):
            position = np.stack((hits.x, hits.y, hits.z), axis=1)
            embedded = self._embedding.run({"position": position})
        with clock("knn"):
            edges = nearest_neighbours(
                hits.offsets, hits.module, embedded["query"], embedded["key"], self._d_max, self._k
            )
        with clock("link"):
            graph = straight_triplets(edges, hits.x, hits.y, hits.z, self._kink_max)
        with clock("gnn"):
            logits = self._gnn.run(
                {
                    "position": position,
                    "source": graph.source,
                    "target": graph.target,
                    "first": graph.first,
                    "second": graph.second,
                }
            )["triplet_logit"]
        with clock("wcc"):
            component = components_of(graph, logits > self._tracking.threshold, hits.n_hits)
        with clock("peel"):
            found = find_candidates(
                graph, logits, component, hits.offsets, hits.module, hits.x, hits.y, hits.z, self._tracking
            )
            event_of_track = np.searchsorted(hits.offsets, found.hit[found.offsets[:-1]], side="right") - 1
            first_hit = hits.offsets[np.repeat(event_of_track, np.diff(found.offsets))]
            tracks = TrackBatch(
                entry=hits.entry,
                event=hits.event,
                offsets=offsets_of(np.bincount(event_of_track, minlength=hits.n_events)),
                x=found.lines.x,
                y=found.lines.y,
                z=found.lines.z,
                tx=found.lines.tx,
                ty=found.lines.ty,
                chi2=found.lines.chi2,
                hit_offsets=found.offsets,
                hit_index=(found.hit - first_hit).astype(np.int32),
                lhcb_id=hits.lhcb_id[found.hit],
            )
        counts["neighbours"] += len(edges)
        counts["edges"] += graph.n_edges
        counts["triplets"] += graph.n_triplets
        return tracks

    def close(self) -> None:
        """Release both engines."""
        self._embedding.close()
        self._gnn.close()


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("it is not finite")
    return value


def _positive(text: str) -> float:
    value = _number(text)
    if value <= 0:
        raise ValueError("it is not positive")
    return value


def _count(text: str) -> int:
    _positive(text)
    return int(text)


def _numbers(text: str) -> list[float]:
    return [_number(word) for word in text.split()]


class _Stopwatch:
    """Adds up wall time by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[stage] += time.perf_counter() - began


def _groups(hits: HitBatch) -> Iterator[HitBatch]:
    """The batch in runs of whole events with about ``_GROUP_HITS`` hits each."""
    begin = 0
    while begin < hits.n_events:
        limit = hits.offsets[begin] + _GROUP_HITS
        end = max(begin + 1, int(np.searchsorted(hits.offsets, limit, side="right")) - 1)
        rows = slice(int(hits.offsets[begin]), int(hits.offsets[end]))
        events = slice(begin, end)
        yield replace(
            hits,
            entry=hits.entry[events],
            event=hits.event[events],
            offsets=hits.offsets[begin : end + 1] - hits.offsets[begin],
            x=hits.x[rows],
            y=hits.y[rows],
            z=hits.z[rows],
            module=hits.module[rows],
            lhcb_id=hits.lhcb_id[rows],
        )
        begin = end


def _no_tracks(hits: HitBatch) -> TrackBatch:
    """The tracks of no events."""
    none, zero = np.zeros(0, np.float32), np.zeros(1, np.int64)
    return TrackBatch(
        hits.entry,
        hits.event,
        zero,
        none,
        none,
        none,
        none,
        none,
        none,
        zero,
        np.zeros(0, np.int32),
        np.zeros(0, np.uint32),
    )
