"""What LangChain's conformance tests expect of a test run."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Know the marks that some of them carry: marks are strict here."""
    for mark in ("benchmark", "vcr"):
        config.addinivalue_line("markers", f"{mark}: of langchain-tests")
