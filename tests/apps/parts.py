"""The command line, run as a person would, within the process of a test."""

import io
import sys

import pytest

from kbnav.apps.cli import main
from tests.models.stub import Canned, ModelStub, completion

QUESTION = "Which elements were discovered by Marie Curie?"
QUERY = "SELECT ?element WHERE { ?element wdt:P61 wd:Q7186 }"


class Cli:
    """Runs the command line in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *first: str) -> None:
        """``first``: what every command begins with."""
        self._monkeypatch, self._capsys, self._first = monkeypatch, capsys, first

    def __call__(self, *arguments: str, typed: str = "") -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        self._monkeypatch.setattr(sys, "argv", ["kbnav", *self._first, *arguments])
        self._monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        with pytest.raises(SystemExit) as ended:
            main()
        out, error = self._capsys.readouterr()
        return int(ended.value.code or 0), out, error

    def out(self, *arguments: str, typed: str = "") -> str:
        """Standard output of what ends well."""
        code, out, error = self(*arguments, typed=typed)
        assert code == 0, error
        return out

    def refused(self, *arguments: str) -> str:
        """Standard error of what is wrong use; nothing is printed but that."""
        code, out, error = self(*arguments)
        assert (code, out, "Traceback" in error) == (2, "", False), error
        return error


def curie(*, query: str = QUERY, said: str = "Polonium and radium.") -> list[Canned]:
    """A model that searches, queries, finishes and writes."""
    return [
        completion(None, [("search_entities", {"thought": "Who is she?", "query": "Marie Curie"})]),
        completion(None, [("execute_query", {"thought": "Ask.", "query": query})]),
        completion(None, [("finish", {"thought": "Done."})]),
        completion(said),
    ]


def model(stub: ModelStub) -> list[str]:
    return ["--model", "stub", "--base-url", stub.base_url]
