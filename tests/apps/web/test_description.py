"""The REST API against its own description."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from tests.apps.web.parts import Visit

CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance]
EXAMPLES = 8
"""Requests made up for each operation."""


@pytest.mark.slow
def test_no_made_up_request_breaks_the_server_or_is_answered_otherwise_than_described(server):
    visit = Visit(server.url)
    described = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    operations = [found.ok() for found in described.get_all_operations()]
    assert len(operations) > 20
    for operation in operations:

        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def holds(case: schemathesis.Case) -> None:
            response = case.call(base_url=server.url, session=visit.http, timeout=60)
            case.validate_response(response, checks=CHECKS)

        given(case=operation.as_strategy())(holds)()
