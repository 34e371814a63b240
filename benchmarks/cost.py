"""What a question costs: the 387 published SPINACH runs on QALD-10, with kbnav's own prompts, counted in tokens.

    python -m benchmarks.cost [--data ../shared/data] [--models gpt-4o gpt-4.1-mini gpt-4o-mini]

The actions and observations are those recorded with GPT-4o. Each is put through kbnav's state machine, so that every
call has the messages that kbnav would send: instructions, descriptions of the tools, the question and the path so far;
and at the end the call that writes the answer. Tokens are those of the encoding o200k_base (GPT-4o and later), by
tiktoken, which fetches it once. Prices are those of kbnav's list. Tokens that an endpoint would have cached are those
of the messages that a call shares, from the first on, with the one before it in the same run, in steps of 128 from
1,024 on (OpenAI's prompt caching); what questions share with each other is left out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.replay_spinach_runs import RecordedTools, recorded_runs, replay, script
from langchain_core.messages import AIMessage, BaseMessage

from kbnav.agents.common.answering import ModelWriter
from kbnav.models.prices import cost_of, list_prices
from kbnav.models.scripted import ScriptedModel
from kbnav.runs.trajectory import Usage

if TYPE_CHECKING:
    import tiktoken

LEAST, STEP = 1024, 128
"""Tokens from which on an endpoint caches what prompts share, and in what steps."""
FRAME = 4
"""Tokens around each message that say who speaks."""


def tokens(encoding: tiktoken.Encoding, messages: Sequence[BaseMessage]) -> int:
    """Tokens of messages with their calls."""
    return sum(
        FRAME + sum(len(encoding.encode(text, disallowed_special=())) for text in _texts(message))
        for message in messages
    )


def _texts(message: BaseMessage) -> list[str]:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return [message.text, *(f"{call['name']} {json.dumps(call['args'], ensure_ascii=False)}" for call in calls)]


def spent(encoding: tiktoken.Encoding, recorded: dict[str, Any], home: Path) -> Usage:
    """Calls, prompt tokens, cached ones among them, and completion tokens of one question."""
    policy, writer = script(recorded), ScriptedModel(replies=[])
    run = replay(recorded, home, policy, ModelWriter(writer))
    schemas = len(encoding.encode(json.dumps(RecordedTools(recorded).schemas)))
    prompt = sum(tokens(encoding, seen) + schemas for seen in policy.seen)
    prompt += sum(tokens(encoding, seen) for seen in writer.seen)
    completion = sum(tokens(encoding, [reply]) for reply in policy.replies[: len(policy.seen)])
    completion += len(encoding.encode(run.outcome.text))  # the plain answer: how a model would put it was not recorded
    cached = sum(_cached(encoding, before, seen, schemas) for before, seen in pairwise(policy.seen))
    return Usage(prompt, completion, cached, len(policy.seen) + len(writer.seen))


def _cached(encoding: tiktoken.Encoding, before: Sequence[BaseMessage], seen: Sequence[BaseMessage], head: int) -> int:
    """Tokens that two calls share at their beginning, as far as they are cached; ``head`` are those of the tools."""
    same = [
        two for _, two in takewhile(lambda pair: _texts(pair[0]) == _texts(pair[1]), zip(before, seen, strict=False))
    ]
    shared = head + tokens(encoding, same)
    return shared - shared % STEP if shared >= LEAST else 0


def main() -> None:
    """Print the counts and the cost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--models", nargs="+", default=["gpt-4o", "gpt-4.1-mini", "gpt-4o-mini"])
    given = parser.parse_args()
    import requests
    import tiktoken

    recorded = recorded_runs(given.data)
    try:
        encoding = tiktoken.get_encoding("o200k_base")
    except requests.RequestException as error:
        raise SystemExit("tiktoken cannot fetch the encoding o200k_base: it needs a network once") from error
    with tempfile.TemporaryDirectory() as home:
        each = list(map(partial(spent, encoding, home=Path(home)), recorded))
    prices = {name: price for host in list_prices()[1].values() for name, price in host.items()}
    print(f"{len(each)} questions")
    print(f"{'':26}{'median':>10}{'mean':>10}{'nine of ten under':>20}")
    columns: dict[str, tuple[Sequence[float], str]] = {
        "calls": ([one.calls for one in each], ",.1f"),
        "prompt tokens": ([one.prompt for one in each], ",.0f"),
        "of them cached": ([one.cached for one in each], ",.0f"),
        "completion tokens": ([one.completion for one in each], ",.0f"),
    }
    for name in given.models:
        columns[f"$ {name}"] = ([cost_of(one, prices[name]) or 0.0 for one in each], ".4f")
        whole = prices[name].model_copy(update={"cached": None})
        columns[f"  {name}, no cache"] = ([cost_of(one, whole) or 0.0 for one in each], ".4f")
    _print_columns(columns)


def _print_columns(columns: Mapping[str, tuple[Sequence[float], str]]) -> None:
    for name, (values, form) in columns.items():
        most = statistics.quantiles(values, n=10)[-1]
        print(f"{name:26}{statistics.median(values):>10{form}}{statistics.fmean(values):>10{form}}{most:>20{form}}")


if __name__ == "__main__":
    main()
