"""The reference page and the catalogue."""

from pathlib import Path

from stepwell.telemetry.catalogue import CATALOGUE, Kind
from stepwell.telemetry.reference import render_reference

PAGE = Path(__file__).parents[3] / "docs/reference/metrics.md"


def test_page_is_in_sync() -> None:
    """The page in the repository is the one the catalogue gives: regenerate it if this fails."""
    assert PAGE.read_text(encoding="utf-8") == render_reference()


def test_catalogue_is_regular() -> None:
    """Names are unique and have the prefix; counters end in _total; buckets ascend."""
    names = [metric.name for metric in CATALOGUE]
    assert len(set(names)) == len(names)
    for metric in CATALOGUE:
        assert metric.name.startswith("stepwell_")
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
        assert bool(metric.buckets) == (metric.kind is Kind.HISTOGRAM)
        assert list(metric.buckets) == sorted(set(metric.buckets))
