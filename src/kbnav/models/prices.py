"""What models cost: one's own prices, and list prices of common models, dated, at their makers' own endpoints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from kbnav.errors import UsageError
from kbnav.runs.trajectory import Usage
from kbnav.settings.model import OFFLINE, Price, Settings

_FILE = Path(__file__).with_name("prices.json")
_USUAL = "api.openai.com"
"""Where models are asked that have no endpoint of their own."""


@cache
def list_prices() -> tuple[str, Mapping[str, Mapping[str, Price]]]:
    """The day the list is of, and the prices by host and model."""
    told = json.loads(_FILE.read_text(encoding="utf-8"))
    hosts = {
        host: {name: Price(**price) for name, price in of["models"].items()} for host, of in told["endpoints"].items()
    }
    return told["as_of"], hosts


def known_prices(settings: Settings) -> Mapping[str, Price]:
    """Prices by model: the settings' own go before the list's, which hold at their makers' endpoints alone."""
    host = (urlsplit(settings.base_url).hostname or "") if settings.base_url else _USUAL
    return {**list_prices()[1].get(host, {}), **settings.prices}


def price_of(settings: Settings, model: str) -> Price | None:
    """The price of a model; None where it is not known, or rules answer."""
    return None if model == OFFLINE else known_prices(settings).get(model)


def needed_price(settings: Settings, limit: str) -> Price:
    """The price of the settings' model. Raises UsageError, which names the limit, where it is not known."""
    if settings.model == OFFLINE:
        return Price(prompt=0, completion=0)
    price = price_of(settings, settings.model)
    if price is None:
        raise UsageError(f"{limit} needs the price of {settings.model}: set prices.{settings.model} in kbnav.toml")
    return price


def cost_of(usage: Usage, price: Price | None) -> float | None:
    """US dollars; None without a price. Cached prompt tokens cost their own price, or else the full one."""
    if price is None:
        return None
    cached = min(usage.cached, usage.prompt) if price.cached is not None else 0
    read = (usage.prompt - cached) * price.prompt + cached * (price.cached or 0.0)
    return (read + usage.completion * price.completion) / 1e6
