"""The Ray cluster that work is given to: that of ``RAY_ADDRESS``, or one on this machine; needs the extra ``ray``."""

from __future__ import annotations

import logging
import os
import pickle
import socket
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from kbnav import encoders
from kbnav.encoders import Encoder
from kbnav.encoders.lsa import LSA
from kbnav.errors import KbnavError, ServiceError
from kbnav.knowledge.skb.build import Texts
from kbnav.knowledge.skb.rendering import indexed_texts
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.skb.vectors import Made, Reused, Window, encode
from kbnav.settings.model import Settings
from kbnav.settings.plugins import needs

_CONNECT = 10.0
"""Seconds in which the head of a cluster must take a connection; Ray itself would try for minutes."""


@contextmanager
def connected(use: str) -> Iterator[Any]:
    """Ray, connected; a cluster that is started here ends with it.

    Raises UsageError, which names the ``use``, where Ray is not installed, and ServiceError where ``RAY_ADDRESS`` has
    no cluster, or one of another version, or where none could be started.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # or Ray would tell its makers about the machine
    with needs("ray", use):
        import ray

    if ray.is_initialized():
        yield ray
        return
    address = os.environ.get("RAY_ADDRESS", "")
    try:
        host, colon, port = address.rpartition("://")[2].rpartition(":")
        if colon and port.isdecimal():
            socket.create_connection((host, int(port)), _CONNECT).close()
        ray.init(log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    except Exception as error:  # Ray raises no other, where a machine is too busy to start it
        place = f"no Ray cluster at RAY_ADDRESS={address}" if address else "no Ray cluster could be started here"
        raise ServiceError(f"{place}: {str(error).strip().splitlines()[0]}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def share_of(ray: Any, workers: int | None, most: int | None = None) -> tuple[int, float]:
    """How many workers, by processors up to ``most`` unless ``workers`` says, and processors of each (≤ 1)."""
    processors = ray.cluster_resources().get("CPU", 1.0)
    count = workers or max(1, int(processors))
    if most is not None:
        count = min(count, most)
    return count, min(1.0, processors / count)


def for_workers(settings: Settings) -> Settings:
    """The settings with whole paths: a worker is not started where this process was."""
    kb = str(Path(settings.kb).resolve()) if os.path.exists(settings.kb) else settings.kb  # noqa: PTH110 - or a URL
    return settings.model_copy(update={"kb": kb, "home": settings.home.resolve()})


class Pool:
    """Workers of a cluster that threads share; begun with the first call, and begun again once where killed."""

    def __init__(
        self, ray: Any, kind: type, given: tuple[Any, ...], count: int, share: float, at_once: int = 1
    ) -> None:
        """``count`` of a ``kind`` that is made with ``given``, each with a ``share`` of a processor.

        Each does ``at_once`` calls at most.
        """
        made = ray.remote(num_cpus=share, max_restarts=-1, max_task_retries=1)(kind)
        self._ray, self._kind = ray, made.options(max_concurrency=at_once)
        self._given, self._count = given, count
        self._lock = Lock()
        self._under_way: dict[Any, int] = {}

    def call(self, method: str, *arguments: Any) -> Any:
        """What a method of the worker with least to do gives or raises. Raises RayError where a worker died twice."""
        with self._lock:
            if not self._under_way:
                self._under_way = {self._kind.remote(*self._given): 0 for _ in range(self._count)}
            worker = min(self._under_way, key=lambda one: self._under_way[one])
            self._under_way[worker] += 1
        try:
            return self._ray.get(getattr(worker, method).remote(*arguments))
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        finally:
            with self._lock:
                self._under_way[worker] -= 1

    def close(self) -> None:
        """End the workers."""
        for worker in self._under_way:
            self._ray.kill(worker)


# Texts of an SKB encoded through Ray Data: workers read a window of nodes from the folder, which each machine must see

_BLOCKS = 4096
"""Into how many parts a dataset is split at most; a part is what is done again where a worker dies."""
_DEATHS = 3
"""How often a worker may die of one part; more often, it would die of it for ever."""
Row = dict[str, bytes]
"""``item`` is what is sent, pickled."""


class Encoding:
    """What one worker does: render the texts of windows, and encode them. The SKB is opened when the first comes."""

    def __init__(self, texts: Texts, load: Callable[[], Encoder], previous: Path | None) -> None:
        """``load`` is called when the first window comes."""
        self._texts, self._load, self._previous = texts, load, previous
        self._opened: tuple[SKB, Encoder, Reused] | None = None

    def __call__(self, row: Row) -> Row:
        """What came of the window, or what encoding it raised, which Ray would wrap."""
        item: object
        try:
            item = self._encoded(pickle.loads(row["item"]))
        except MemoryError:
            item = ServiceError(f"a worker on {socket.gethostname()} has too little memory: use fewer workers")
        except (KbnavError, OSError) as error:
            item = error
        return {"item": pickle.dumps(item)}

    def _encoded(self, window: Window) -> Made:
        if self._opened is None:
            try:
                skb = self._texts.opened()
            except OSError as error:
                raise ServiceError(
                    f"{socket.gethostname()}, a machine of the Ray cluster, does not see {self._texts.folder}: build "
                    "in a folder that all of them share"
                ) from error
            encoder = self._load()
            self._opened = skb, encoder, Reused.of(self._previous, encoder.name)
        skb, encoder, old = self._opened
        nodes = list(indexed_texts(skb, relations=self._texts.relations, among=window.nodes))
        return encode(nodes, window, encoder, old)


@dataclass(frozen=True)
class OnRay:
    """See ``Workers``."""

    ray: Any
    count: int
    share: float
    """Processors of a worker."""
    gpus: float
    """GPUs of a worker."""
    load: Callable[[str], Encoder]
    """Makes an encoder of a name anew."""

    def encoded(
        self, texts: Texts, encoder: Encoder, windows: Iterable[Window], *, folder: Path, previous: Path | None
    ) -> Iterator[Made]:
        """See ``Workers``. Raises what workers raised, and ServiceError where one died too often."""
        rows = [{"item": pickle.dumps(window)} for window in windows]
        load = partial(LSA.load, folder) if isinstance(encoder, LSA) else partial(self.load, encoder.name)
        data = self.ray.data.from_items(rows, override_num_blocks=max(1, min(len(rows), _BLOCKS)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ray has no other way yet to say how often a row is tried
            data = data.map(
                Encoding,
                fn_constructor_args=(texts, load, previous),
                concurrency=max(1, min(self.count, len(rows))),
                num_cpus=self.share,
                num_gpus=self.gpus or None,
                max_task_retries=_DEATHS,
            )
        try:
            # Each block at once: what waits for the next one would be lost with this process.
            for block in data.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
                for row in block["item"].to_pylist():
                    item = pickle.loads(row)
                    if isinstance(item, Exception):
                        raise item
                    yield item
        except self.ray.exceptions.RayError as error:
            first = str(error).strip().splitlines()[0]
            raise ServiceError(f"a worker of the Ray cluster failed more than {_DEATHS} times: {first}") from error


@contextmanager
def on_ray(workers: int | None = None, gpus: float = 0.0, *, base_url: str = "", api_key: str = "") -> Iterator[OnRay]:
    """The workers of a cluster: as many as it has processors, unless it is said how many.

    ``base_url`` and ``api_key`` as of ``encoders.load``, for encoders that are not fitted on the texts. Raises as
    ``connected``, and ServiceError where the cluster lacks the GPUs.
    """
    with connected("--on ray") as ray:
        with needs("ray", "--on ray"):
            import ray.data as data

        context: Any = data.DataContext.get_current()
        context.enable_progress_bars = False
        context.max_consecutive_actor_init_deaths = _DEATHS
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        there = ray.cluster_resources().get("GPU", 0.0)
        if gpus > there:
            raise ServiceError(f"the Ray cluster has {there:g} GPUs, and each worker is to have {gpus:g}")
        count, share = share_of(ray, workers, int(there / gpus) if gpus else None)
        # There is a worker for each processor.
        yield OnRay(ray, count, share, gpus, partial(encoders.load, base_url=base_url, api_key=api_key, threads=1))
