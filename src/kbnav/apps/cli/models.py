"""``kbnav models``: what --model may name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kbnav.apps.cli.arguments import BaseUrlOption, JsonOption, load

if TYPE_CHECKING:
    from kbnav.settings.model import Settings


def models(base_url: BaseUrlOption = None, as_json: JsonOption = False) -> None:
    """List what --model may name: what needs no key, and what the endpoint offers."""
    from kbnav.settings.model import OFFLINE

    settings = load(base_url=base_url)
    found: list[dict[str, Any]] = [
        {"model": OFFLINE, "about": "no language model: rules that are a baseline; needs no key"},
        {"model": "replay:RUN.json", "about": "the replies of a saved run, once more"},
    ]
    asked = bool(settings.base_url or settings.api_key.get_secret_value())
    if asked:
        found += [{"model": name, "about": _price(settings, name)} for name in _offered(settings)]
    if as_json:
        print(json.dumps(found, ensure_ascii=False, indent=1))
        return
    longest = max(len(one["model"]) for one in found)
    for one in found:
        print(f"{one['model']:<{longest}}  {one['about']}".rstrip())
    if not asked:
        print("\nany model of OpenAI's once OPENAI_API_KEY is set; or of your own server, which lists what it offers:")
        print("  kbnav models --base-url http://127.0.0.1:11434/v1     Ollama (vLLM: port 8000, llama.cpp: port 8080)")


def _offered(settings: Settings) -> list[str]:
    """The names of an endpoint's models. Raises StopRun as a call of a model."""
    from kbnav.models.chat import offered_models

    return offered_models(settings)


def _price(settings: Settings, name: str) -> str:
    from kbnav.models.prices import price_of

    price = price_of(settings, name)
    return f"${price.prompt:g} read, ${price.completion:g} written, per million tokens" if price else ""
