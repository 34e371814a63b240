"""The trace that retrieval systems write."""

import pytest

from kbnav.errors import ServiceError
from kbnav.runs.trace import Trace


@pytest.mark.parametrize("error", [ServiceError("down"), KeyboardInterrupt()])
def test_a_step_that_raises_is_recorded_as_failed_and_the_error_goes_on(error):
    def look() -> None:
        with trace.step("look", limit=3) as seen:
            seen.text, seen.nodes = "the first half", ["a"]
            raise error

    trace = Trace()
    with pytest.raises(type(error)):
        look()
    with trace.step("look"):
        pass
    failed, well = trace.steps
    assert (failed.ok, failed.observation, failed.nodes) == (False, "the first half", ("a",))
    assert well.ok
