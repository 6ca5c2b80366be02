"""An RO-Crate checked by the validator of the Workflow Run RO-Crate community, without a network."""

import importlib.resources
import json
from types import SimpleNamespace

import pytest


def issues(folder, monkeypatch):
    """Sentences on what a crate must do and does not, from its most detailed profile and all that this one is based on.

    The JSON-LD context of RO-Crate 1.1 is stood in for by the one that ``rocrate`` carries, of a later version, with
    the one name that moved.
    """
    models = pytest.importorskip("rocrate_validator.models", reason="make test installs what it needs")
    from rocrate_validator import services
    from rocrate_validator.utils.http import HttpRequester

    context = json.loads((importlib.resources.files("rocrate") / "data/ro-crate.jsonld").read_text())
    context["@context"]["ComputationalWorkflow"] = "https://bioschemas.org/ComputationalWorkflow"

    answer = SimpleNamespace(
        status_code=200, headers={"Content-Type": "application/ld+json"}, text=json.dumps(context), json=lambda: context
    )
    monkeypatch.setattr(HttpRequester, "get", lambda self, url, **_: answer, raising=False)
    settings = services.ValidationSettings(
        rocrate_uri=str(folder),
        profile_identifier="provenance-run-crate",
        requirement_severity=models.Severity.REQUIRED,
    )
    return [f"{issue.check.name}: {issue.message}" for issue in services.validate(settings).get_issues()]
