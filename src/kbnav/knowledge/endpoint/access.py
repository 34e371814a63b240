"""Where an endpoint is asked, and as whom: addresses without secrets, credentials from the environment."""

from __future__ import annotations

import base64
import os
from urllib.parse import urlsplit

from kbnav.errors import CredentialsError, UsageError
from kbnav.settings.model import SparqlSource


def checked_url(url: str) -> str:
    """The address of an endpoint. Raises UsageError where it is none, or holds a user's name and password."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"not the address of a SPARQL endpoint: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError(f"not the address of a SPARQL endpoint: {url!r}; it begins with http:// or https://")
    if parts.username or parts.password:
        raise UsageError(
            "the address of an endpoint may hold no password: give it a name in kbnav.toml, [sparql.NAME], with "
            "user_variable and password_variable, the environment variables that hold them"
        )
    return url


def authorization(source: SparqlSource) -> str:
    """The header of the credentials that an endpoint wants; empty where it wants none.

    Raises CredentialsError where a variable is not set, UsageError where there is a user without a password.
    """
    if source.token_variable:
        return f"Bearer {_held(source.token_variable)}"
    if bool(source.user_variable) != bool(source.password_variable):
        raise UsageError(f"{source.url}: user_variable and password_variable belong together; one is missing")
    if not source.user_variable:
        return ""
    pair = f"{_held(source.user_variable)}:{_held(source.password_variable)}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _held(variable: str) -> str:
    value = os.environ.get(variable, "")
    if not value:
        raise CredentialsError(f"the environment variable {variable}, which is to hold a credential, is not set")
    if not (value.isprintable() and value.isascii()):
        raise CredentialsError(f"the environment variable {variable} must be plain ASCII on one line")
    return value
