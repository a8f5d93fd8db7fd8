"""From settings to what decides."""

from pathlib import Path

import pytest

from stepwell.assembly.deciding import calibration_of, checks_of, make_acceptance
from stepwell.assembly.settings import parse_settings
from stepwell.assembly.settings_semantic import Semantic
from stepwell.core.errors import ConfigError
from stepwell.semantic.acceptance.boundary import Prior
from stepwell.semantic.acceptance.threshold import Threshold
from stepwell.semantic.acceptance.verdict import Accepted, Pair, Refused
from stepwell.semantic.acceptance.verified import Verified
from stepwell.semantic.evidence import Evidence
from stepwell.semantic.valve.reading import read
from stepwell.semantic.valve.valve import CHECKS
from stepwell.testing.entries import make_key

MODEL = "multilingual-e5-small@0123"


def table(toml: dict[str, object]) -> Semantic:
    return parse_settings({"semantic": toml}).semantic


def test_levels_are_measured_and_can_be_set() -> None:
    """What is not set stays as measured; what contradicts is refused."""
    measured = calibration_of(table({}), MODEL)
    own = calibration_of(table({"levels": {"general": 0.9}}), MODEL)
    assert own.min_similarity["general"] == 0.9
    assert own.min_similarity["strict"] == measured.min_similarity["strict"]
    assert own.prior == measured.prior
    with pytest.raises(ConfigError, match="strict >= general >= faq"):
        calibration_of(table({"levels": {"faq": 0.99}}), MODEL)


@pytest.mark.parametrize(("policy", "kind"), [("verified", Verified), ("threshold", Threshold)])
def test_policies_and_own_opposites(tmp_path: Path, policy: str, kind: type) -> None:
    """Either policy asks the user's own opposites too."""
    path = tmp_path / "own.txt"
    path.write_text("starboard | port side\n")
    evidence = Evidence(Prior(0.8))
    pair = Pair(make_key("e"), read("paint the starboard"), read("paint the port side"), 0.99)
    for opposites, verdict in ((None, Accepted), (str(path), Refused)):
        given = table({"policy": policy, "opposites": opposites})
        acceptance = make_acceptance(given, calibration_of(given, MODEL), evidence)
        assert isinstance(acceptance, kind)
        assert isinstance(acceptance.judge(pair, "general", 0.0), verdict)
    assert checks_of(table({})) == CHECKS
    with pytest.raises(ConfigError, match="cannot be read"):
        checks_of(table({"opposites": str(tmp_path / "none")}))


@pytest.mark.parametrize("kind", ["redis", "postgres"])
def test_who_is_to_search_must_be_named(kind: str) -> None:
    """A server that no table tells of cannot search."""
    settings: dict[str, object] = {"semantic": {"index": {"kind": kind}}}
    with pytest.raises(ConfigError, match=rf'kind = "{kind}" needs stores\.{kind}\.url'):
        parse_settings(settings)
    url = {"redis": "redis://a", "postgres": "postgresql://a/b"}[kind]
    parse_settings({**settings, "stores": {kind: {"url": url}}})
