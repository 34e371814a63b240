"""Folders and object stores that tables are in: how they are reached, and what goes wrong, told in a line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from kbnav.errors import CredentialsError, KbnavError, ServiceError, UsageError
from kbnav.settings.plugins import needs

SCHEMES = ("s3://", "gs://", "az://")
"""How the address of a place in an object store begins."""
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
"""Variables that name another S3 server than Amazon's."""

_NO_KEYS = ("Failed to get AWS credentials", "CredentialsNotLoaded", "credential provider was not enabled")
_REFUSED = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "ExpiredToken", "status: 401", "status: 403")
_SILENT = (
    "kind: Connect",
    "ConnectError",
    "kind: Timeout",
    "error sending request",
    "operation timed out",
    "dns error",
    "status: 503",
)


def is_address(place: str) -> bool:
    """Whether a place is in an object store."""
    return place.startswith(SCHEMES)


def require() -> Any:
    """The package ``lancedb``. Raises UsageError where it is not installed."""
    os.environ.setdefault("LANCEDB_LOG", "error")  # else it warns of each table that it makes
    with needs("lance", "an SKB on LanceDB"):
        import lancedb
    return lancedb


def connect(place: str) -> Any:
    """The tables in a folder or below an address such as s3://bucket/name; what that asks for is in the environment.

    Raises UsageError without ``lancedb``.
    """
    return require().connect(place, storage_options=_options(place))


def _options(place: str) -> dict[str, str]:
    """What LanceDB is told of an object store beside what it finds itself: no more than other tools need."""
    if not is_address(place):
        return {}
    # By default ten tries in three minutes: whoever waits at a prompt should hear sooner that nothing is there.
    told = {"client_max_retries": "3", "client_retry_timeout": "20", "connect_timeout": "10s"}
    endpoint = s3_endpoint()
    if place.startswith("s3://") and endpoint:
        told |= {"aws_endpoint": endpoint, "allow_http": str(endpoint.startswith("http://")).lower()}
    return told


def s3_endpoint() -> str:
    """The S3 server that the environment names; empty for Amazon's."""
    return next((os.environ[name] for name in ENDPOINTS if os.environ.get(name)), "")


@contextmanager
def asking(place: str) -> Iterator[None]:
    """Around what asks tables: what LanceDB raises, pages of it, becomes one line that begins with the place.

    Raises CredentialsError, ServiceError where the object store does not answer, and UsageError for all else.
    """
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        raise trouble(place, error) or UsageError(f"{place}: {_first_line(error)}") from error


@contextmanager
def reaching(place: str) -> Iterator[None]:
    """Around what reads tables that are open: only what is the object store's fault is told as by ``asking``."""
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        if told := trouble(place, error):
            raise told from error
        raise


def trouble(place: str, error: BaseException) -> KbnavError | None:
    """The error to raise where a store cannot be reached or refuses; None for any other."""
    told, bucket = str(error), urlsplit(place).netloc
    where = s3_endpoint() or "its object store"
    if any(mark in told for mark in _NO_KEYS):
        return CredentialsError(
            f"{place}: no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        )
    if "NoSuchBucket" in told:
        return UsageError(f"{place}: there is no bucket {bucket!r} at {where}")
    if any(mark in told for mark in _REFUSED):
        code = re.search(r"<Code>(\w+)</Code>", told)
        return CredentialsError(f"{place}: {where} refuses the credentials{f' ({code[1]})' if code else ''}")
    if any(mark in told for mark in _SILENT):
        return ServiceError(f"{place}: {where} does not answer")
    return None


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
