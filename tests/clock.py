"""Time as a test has it."""


class Clock:
    """A clock that moves when it is told to, and when somebody sleeps."""

    def __init__(self, now: float = 0.0) -> None:
        self.now, self.slept = now, 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds
        assert self.slept < 600, "it waits for ever"
