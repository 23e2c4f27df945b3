"""Physics of the VELO pipeline beside velopix, on the same events: ``python -m benchmarks.velo_physics``.

Egretta's tracks come from a job, file to file, velopix's from SearchByTripletTrie with its defaults; both are
judged by egretta.workflows.validation.
"""

from __future__ import annotations

from typing import Any

from benchmarks.events import Sample, with_truth
from benchmarks.processes import entries, output_of, run_job
from benchmarks.tables import Setting, Table, number, standalone

# Of issue 2, in %, for any match and all eta: at least, or for rates at most.
GOALS = {"velo": "≥ 97", "long": "≥ 99.3", "long_electrons": "≥ 95", "ghost_rate": "≤ 2", "clone_rate": "≤ 2"}
_CATEGORIES = ("velo", "long", "long_p5", "long_beauty", "long_strange", "velo_electrons", "long_electrons")
Figures = dict[str, Any]


def measure(setting: Setting) -> list[Table]:
    return [_compare(setting, with_truth(setting, name)) for name in ("bsphiphi", "minbias")]


def _compare(setting: Setting, sample: Sample) -> Table:
    from benchmarks.velopix_peer import read_hits, run_velopix
    from egretta.workflows.validation.judge import judge
    from egretta.workflows.validation.metrics import RANGES, evaluate
    from egretta.workflows.validation.truth import read_truth

    there = entries(sample.path, "Velo")
    n_events = setting.size(there, min(there, 20))
    job = run_job(setting.work, sample.path, n_events, tree="Velo")
    ours = judge(output_of(setting.work, job), [sample.path], allow_missing=n_events < there).metrics
    hits = read_hits(str(sample.path), n_events)
    truth, offsets = next(read_truth(sample.path, batch_events=n_events))
    theirs = evaluate(truth, run_velopix(hits)[0], offsets)
    pairs = [(ours.to_dict()[name], theirs.to_dict()[name]) for name in RANGES]
    return Table.of(
        f"Physics, {sample.title}, {n_events} events",
        ("%", "to reach", "Egretta", "velopix", "ratio", "Egretta 2 < η < 5", "velopix 2 < η < 5", "ratio"),
        _rows(pairs),
        "any match unless said; ± is one standard deviation, binomial",
        "ratio: what is lost (100 % - figure), or for ghosts and clones the rate, Egretta's over velopix's: "
        "below 1 is better than velopix",
    )


def _rows(pairs: list[tuple[Figures, Figures]]) -> list[list[str]]:
    from egretta.workflows.validation.metrics import TITLES

    rows = []
    for name in _CATEGORIES:
        cells = [TITLES[name], GOALS.get(name, "")]
        for pair in pairs:
            figures = [(f[name]["efficiency"], f[name]["efficiency_uncertainty"]) for f in pair]
            cells += _beside(figures, lost=True)
        rows.append(cells)
    for name, key in (
        ("velo", "efficiency_best_match"),
        ("long_electrons", "efficiency_best_match"),
        ("velo", "hit_efficiency"),
        ("long", "hit_efficiency"),
        ("velo", "hit_purity"),
        ("long", "hit_purity"),
    ):
        what = key.removeprefix("efficiency_").replace("_", " ")
        cells = [f"{TITLES[name]}, {what}", ""]
        for pair in pairs:
            cells += _beside([(f[name][key], None) for f in pair], lost=True)
        rows.append(cells)
    for key in ("ghost_rate", "clone_rate"):
        cells = [key.replace("_rate", "s"), GOALS[key]]
        for pair in pairs:
            cells += _beside([(f[key], f[f"{key}_uncertainty"]) for f in pair], lost=False)
        rows.append(cells)
    return rows


def _beside(figures: list[tuple[float | None, float | None]], *, lost: bool) -> list[str]:
    """Both figures and their ratio."""
    cells = [
        "" if value is None else f"{100 * value:.2f}" + ("" if error is None else f" ± {100 * error:.2f}")
        for value, error in figures
    ]
    (ours, _), (theirs, _) = figures
    if ours is None or theirs is None:
        return [*cells, ""]
    parts = (1 - ours, 1 - theirs) if lost else (ours, theirs)
    return [*cells, number(parts[0] / parts[1]) if parts[1] else ""]


if __name__ == "__main__":
    standalone(measure, __doc__)
