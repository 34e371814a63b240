"""Where a service may send a request on to: the same host by the same scheme, and only what reads.

Any other place is one that nobody has named. Following it would let a service have requests made in this machine's
network, or have credentials sent elsewhere.
"""

from __future__ import annotations

from urllib.parse import SplitResult, urljoin, urlsplit

from kbnav.errors import BadResponse, ServiceError

MOST = 5
"""Redirects of one request that are followed."""
STATUSES = frozenset({301, 302, 303, 307, 308})


def host_of(url: str) -> str:
    """Host and port as they may be shown: without a user's name and password."""
    return urlsplit(url).netloc.rpartition("@")[2]


def next_place(url: str, location: str, method: str) -> str:
    """The address to go on to. Raises BadResponse where a request may not be sent on there."""
    target = urljoin(url, location)
    old, new = urlsplit(url), urlsplit(target)
    same = (old.scheme, old.hostname, _port(old)) == (new.scheme, new.hostname, _port(new))
    shown = f"{new.scheme}://{host_of(target)}{new.path}"
    if not same:
        raise BadResponse(
            f"{host_of(url)} sends the request on to {shown}: only the same host is followed; "
            "if that is where it belongs, set the address to it"
        )
    if method != "GET":
        raise BadResponse(
            f"{host_of(url)} sends a posted request on to {shown}, which is not followed: set the address to that"
        )
    return target


def _port(parts: SplitResult) -> int | None:
    try:
        return parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:  # no number
        return -1


def too_many(url: str) -> BadResponse:
    """The error for a service that sends a request round."""
    return BadResponse(f"{host_of(url)} sends the request on more than {MOST} times")


def untrusted(url: str, reason: object) -> ServiceError:
    """The error for a certificate that fails; trying again would not help."""
    return ServiceError(
        f"{host_of(url)} cannot be trusted: {reason}. Where its certificate is your own, name the file of the "
        "authority that signed it in SSL_CERT_FILE and REQUESTS_CA_BUNDLE"
    )
