"""What must never be shown: keys, tokens, passwords, and the database's URL."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from kbnav.models.transport import SHORTEST
from kbnav.settings.model import SEPARATOR, Settings, with_texts


class Secrets:
    """Keeps what must never be shown out of everything that is told or logged."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self._secrets = sorted({secret for secret in secrets if len(secret) >= SHORTEST}, key=len, reverse=True)

    def hidden(self, text: str) -> str:
        """The text without the secrets."""
        for secret in self._secrets:
            text = text.replace(secret, "[hidden]")
        return text

    def hidden_in(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The same for every text among the values of JSON data; names of fields and numbers stay as they are."""
        found: dict[str, Any] = with_texts(data, self.hidden)
        return found


def secrets_of(settings: Settings) -> Secrets:
    """All that the settings hold, with what stands before the host of an address, plain and as it is sent."""
    held = (
        settings.api_key,
        settings.access_token,
        settings.bot.password,
        settings.database,
        *settings.web.tokens.values(),
    )
    users = [urlsplit(url).netloc.rpartition("@")[0] for url in (settings.base_url, *settings.kb.split(SEPARATOR))]
    sent = [base64.b64encode(unquote(user).encode()).decode() for user in users]
    passwords = [unquote(user.partition(":")[2]) for user in users]
    keys = [os.environ.get(one.key_variable, "") for one in settings.model_endpoints.values()]
    credentials = [os.environ.get(one.credentials_variable, "") for one in settings.sparql.values()]
    passwords += [one.partition(":")[2] for one in credentials]
    return Secrets([*(secret.get_secret_value() for secret in held), *users, *sent, *passwords, *keys, *credentials])
