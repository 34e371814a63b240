"""Every exception kbnav raises on purpose, in one tree.

There are two kinds of error, and nothing in between. ``TellModel`` becomes the observation of the step, and the run
goes on. ``StopRun`` ends the run; its trajectory is saved first, and ``exit_code`` is that of the command line.
"""

from __future__ import annotations


class KbnavError(Exception):
    """Root of the tree; its text is one line or a few that a person can act on."""


class TellModel(KbnavError):
    """The model can do something about it: the text becomes the observation."""


class BadArguments(TellModel):
    """A tool call with an unknown tool, unreadable arguments or arguments of the wrong type."""


class UnknownId(TellModel):
    """An id that the knowledge base does not have."""


class QuerySyntaxError(TellModel):
    """A query that does not parse; ``line`` and ``column`` count from 1, 0 where unknown."""

    def __init__(self, message: str, *, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class QueryRefused(TellModel):
    """A query that parses but may not run here: an update, or a SERVICE that is not on the allow-list."""


class QueryTimeout(TellModel):
    """A query stopped by a limit of time or memory."""


class StopRun(KbnavError):
    """Nothing the model does would help; the run ends and the caller hears of it."""

    exit_code = 3


class Stopped(StopRun):
    """A person asked for the run to end, or it reached a limit of time or money."""


class UsageError(StopRun):
    """The person asked for something that cannot be: a missing file, an unknown name."""

    exit_code = 2


class DataError(UsageError):
    """A file that is corrupt or not in the format it should be in."""


class DamagedKB(DataError):
    """What a knowledge base that is open reads from its files cannot be: they were changed, or broken."""


class PromptTooLong(UsageError):
    """A model was sent more than its endpoint lets it read at once."""


class NotOffered(UsageError):
    """What a server is asked for by name, and does not have."""


class Busy(UsageError):
    """A session is still at the question before."""


class LimitReached(UsageError):
    """A limit of a server on what it does at once, or for one user."""


class TooBusy(LimitReached):
    """More wait at a server than may; nobody's fault, and soon over."""


class ServiceError(StopRun):
    """A service that cannot be reached, or that keeps failing after retries."""


class CredentialsError(ServiceError):
    """A key or a contact that is missing or was refused; the text says what to set."""


class Banned(ServiceError):
    """The service has banned this client; going on would make it worse."""


class NotAnswering(ServiceError):
    """A knowledge base that is left alone for a while, because it failed again and again, or is out of service."""


class DatabaseAway(ServiceError):
    """The database of a server's sessions does not answer, is full or may not be written."""


class Overdue(ServiceError):
    """No answer in the time that a server gives to one request."""


class BadResponse(ServiceError):
    """An answer that breaks the protocol: HTML instead of JSON, a body that is cut off."""


FATAL = (CredentialsError, Banned)
"""Failures after which no other call of the same service can fare better."""
