"""Every recorded body and error is read, or refused with the one error that it stands for."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbnav.errors import (
    Banned,
    CredentialsError,
    KbnavError,
    QueryRefused,
    QuerySyntaxError,
    QueryTimeout,
    ServiceError,
    UnknownId,
)
from kbnav.knowledge.replies import Lagged
from tests.knowledge.wikidata.serving import JSON, Answer, client, serving

EXPECTED: Mapping[str, type[KbnavError]] = {
    "wdqs_timeout_200_truncated": QueryTimeout,
    "wdqs_429_throttled": ServiceError,
    "wdqs_429_retry_0": ServiceError,
    "wdqs_504_nginx": QueryTimeout,
    "wdqs_400_malformed": QuerySyntaxError,
    "wdqs_triples_mode_400": QueryRefused,
    "wdqs_timeout_json_spliced": QueryTimeout,
    "wdqs_query_timeout_messages": QueryTimeout,
    "qlever_400": QuerySyntaxError,
    "mw_maxlag_queryservice": Lagged,
    "mw_maxlag_db": Lagged,
    "mw_badtoken": CredentialsError,
    "mw_editconflict_formatversion2": ServiceError,
    "mw_ratelimited": ServiceError,
    "mw_readonly": ServiceError,
    "mw_failed_save_abusefilter": ServiceError,
    "wb_no_such_entity": UnknownId,
}


def errors(shared_data: Path) -> dict[str, dict[str, Any]]:
    records = json.loads((shared_data / "api-errors" / "errors.json").read_text())
    for record in records:
        if "file" in record:
            record["body"] = (shared_data / "api-errors" / record["file"]).read_text()
    return {record["kind"]: record for record in records}


def outcome(answer: Answer, *, sparql: bool = False, entity: str = "Q42") -> Any:
    """What the client makes of an answer to everything: an error, or the result."""
    with serving(lambda _: answer) as served, client(served.url, retries=1) as opened:
        try:
            if sparql:
                return opened.kb.execute_query("SELECT * WHERE { ?s ?p ?o }")
            return opened.kb.get_entry(entity)
        except KbnavError as error:
            return error


def test_every_recorded_error_has_its_own_kind(shared_data):
    records = errors(shared_data)
    assert set(records) >= set(EXPECTED)
    for kind, record in records.items():
        sparql = kind.startswith(("wdqs", "qlever"))
        answer = Answer(record["body"], record.get("http_status", 200), JSON, record.get("headers", {}))
        found = outcome(answer, sparql=sparql)
        expected = Banned if "banned" in kind else EXPECTED[kind]
        assert type(found) is expected, kind
        assert "\n" not in str(found), kind
        assert "java." not in str(found), kind
        assert len(str(found)) < 500, kind
