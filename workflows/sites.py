"""The site file: what each site's network can bear. Its numbers go to the planner of ``throttling``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from egretta.kernels.errors import SpecError
from egretta.throttling.planner import BandwidthPlan, JobTraffic, plan_bandwidth
from egretta.throttling.site import Site
from egretta.workflows.sources import describe_problems
from egretta.workflows.spec import CampaignSpec, Positive

# HTCondor's rules for the name of a concurrency limit: one dot at most, letters, digits and underscores.
_LIMIT = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$"


class SiteSection(BaseModel):
    """``[sites.NAME]``. ``limit`` is ``egress.NAME`` where it is left out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    egress_mbps: Positive
    background_mbps: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    headroom: Annotated[float, Field(ge=0, lt=1)] = 0.1
    limit: Annotated[str, Field(pattern=_LIMIT)] | None = None


def load_sites(path: Path) -> dict[str, Site]:
    """The sites of a site file by name. Raises SpecError, which names the key at fault."""
    try:
        with path.open("rb") as stream:
            values = tomllib.load(stream)
    except FileNotFoundError:
        raise SpecError(
            f"{path}: there is no such site file", hint="correct sites under [backend] of the campaign file"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: not a TOML file: {error}", hint="correct the line that is named") from None
    except OSError as error:
        raise SpecError(
            f"{path}: the site file cannot be read: {error.strerror}", hint="check its permissions"
        ) from error
    tables = values.get("sites")
    if not isinstance(tables, dict) or not tables or set(values) != {"sites"}:
        raise SpecError(
            f"{path}: a site file holds tables [sites.NAME] and nothing else; this one holds "
            + (", ".join(f"[{name}]" for name in values) or "nothing"),
            hint="write [sites.NAME] with egress_mbps and background_mbps",
        )
    sections, problems = {}, []
    for name, table in tables.items():
        try:
            sections[name] = SiteSection.model_validate(table)
        except ValidationError as error:
            problems += [{**found, "loc": (f"sites.{name}", *found["loc"])} for found in error.errors()]
    if problems:
        known = {f"sites.{name}": tuple(SiteSection.model_fields) for name in tables}
        raise describe_problems(path, known, problems)
    return {
        name: Site(
            name,
            section.egress_mbps,
            section.background_mbps,
            section.headroom,
            section.limit or f"egress.{name}",
        )
        for name, section in sections.items()
    }


def plan_sites(spec: CampaignSpec) -> dict[str, BandwidthPlan]:
    """Jobs at once at each site that the campaign may use; empty where it declares no bandwidth.

    Raises SpecError where it declares what a job sends but no sites, or a site that the file does not have.
    """
    declared = spec.bandwidth
    if declared.sent_mbit_per_event is None or declared.event_time_s is None:
        return {}
    if spec.backend.sites is None:
        raise SpecError(
            f"{spec.path}: [bandwidth] says what a job sends, but no site file says what a site can bear",
            hint='add sites = "site.toml" under [backend]',
        )
    path = spec.resolve(spec.backend.sites)
    sites = load_sites(path)
    if declared.site is not None and declared.site not in sites:
        raise SpecError(
            f"{path}: there is no site {declared.site!r}, which [bandwidth] site of {spec.path} names",
            hint=f"its sites are {', '.join(sites)}",
        )
    traffic = JobTraffic(declared.sent_mbit_per_event, declared.event_time_s)
    chosen = [site for name, site in sites.items() if declared.site in (None, name)]
    return {site.name: plan_bandwidth(site, traffic) for site in chosen}
