"""Texts rendered and encoded by the machines of a Ray cluster, through Ray Data; needs the extra ``ray``.

A row of a dataset is a window of nodes. Ray Data gives rows to workers, takes only as many of their results at once as
memory holds, starts a worker again that died and gives it its rows once more. Every machine must see the folder that is
built in, as a shared file system has it: from there workers read the documents, and only texts and vectors travel.
"""

from __future__ import annotations

import logging
import pickle
import socket
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kbnav import encoders
from kbnav.encoders import Encoder
from kbnav.encoders.lsa import LSA
from kbnav.errors import KbnavError, ServiceError
from kbnav.knowledge.ray_cluster import connected, share_of
from kbnav.knowledge.skb.build import Texts
from kbnav.knowledge.skb.rendering import indexed_texts
from kbnav.knowledge.skb.schema import NodeText
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.skb.vectors import WINDOW, Made, Reused, Window, encode
from kbnav.settings.plugins import needs

_BLOCKS = 4096
"""Into how many parts a dataset is split at most; a part is what is done again where a worker dies."""
_DEATHS = 3
"""How often a worker may die of one part; more often, it would die of it for ever."""
Row = dict[str, bytes]
"""``item`` is what is sent, pickled."""


class Rendering:
    """What one worker does: the texts of windows. The SKB is opened when the first comes."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._skb: SKB | None = None

    def __call__(self, row: Row) -> Row:
        """The window and its texts; or what rendering them raised, which Ray would wrap."""
        window: Window = pickle.loads(row["item"])
        return _row(lambda: (window, self.nodes(window)))

    def nodes(self, window: Window) -> list[NodeText]:
        """The texts of a window. Raises ServiceError where this machine does not see the folder."""
        if self._skb is None:
            try:
                self._skb = self._texts.opened()
            except OSError as error:
                raise ServiceError(
                    f"{socket.gethostname()}, a machine of the Ray cluster, does not see {self._texts.folder}: build "
                    "in a folder that all of them share"
                ) from error
        return list(indexed_texts(self._skb, relations=self._texts.relations, among=window.nodes))


class Encoding:
    """What one worker does: the vectors of windows, whose texts it renders where they do not come with them."""

    def __init__(self, texts: Texts, load: Callable[[], Encoder], previous: Path | None) -> None:
        """``load`` is called when the first window comes."""
        self._rendering = Rendering(texts)
        self._load, self._previous = load, previous
        self._encoder: Encoder | None = None

    def __call__(self, row: Row) -> Row:
        """What came of the window; or what encoding it raised."""
        return _row(lambda: self._made(pickle.loads(row["item"])))

    def _made(self, item: Window | tuple[Window, list[NodeText]] | Exception) -> Made:
        if isinstance(item, Exception):
            raise item
        window, nodes = (item, self._rendering.nodes(item)) if isinstance(item, Window) else item
        if self._encoder is None:
            self._encoder = self._load()
            self._old = Reused.of(self._previous, self._encoder.name)
        return encode(nodes, window, self._encoder, self._old)


def _row(work: Callable[[], object]) -> Row:
    try:
        item = work()
    except MemoryError:
        item = ServiceError(f"a worker on {socket.gethostname()} has too little memory: use fewer workers")
    except (KbnavError, OSError) as error:
        item = error
    return {"item": pickle.dumps(item)}


@dataclass(frozen=True)
class OnRay:
    """See ``Workers``."""

    ray: Any
    count: int
    share: float
    """Processors of a worker."""
    gpus: float
    """GPUs of a worker that encodes; others then render."""
    load: Callable[[str], Encoder]
    """Makes an encoder of a name anew."""

    def rendered(self, texts: Texts) -> Iterator[NodeText]:
        """See ``Workers``."""
        starts = range(0, texts.meta.nodes, WINDOW)
        windows = [Window(range(first, min(first + WINDOW, texts.meta.nodes)), None) for first in starts]
        data = self._data(windows)
        data.context.execution_options.preserve_order = True
        for _, nodes in self._results(self._mapped(data, len(windows), Rendering, texts)):
            yield from nodes

    def encoded(
        self, texts: Texts, encoder: Encoder, folder: Path, windows: Iterable[Window], previous: Path | None
    ) -> Iterator[Made]:
        """See ``Workers``."""
        all_windows = list(windows)
        data, count = self._data(all_windows), len(all_windows)
        if self.gpus:
            data = self._mapped(data, count, Rendering, texts)
        load = partial(LSA.load, folder) if isinstance(encoder, LSA) else partial(self.load, encoder.name)
        yield from self._results(self._mapped(data, count, Encoding, texts, load, previous, gpus=self.gpus))

    def _data(self, windows: Sequence[Window]) -> Any:
        rows = [{"item": pickle.dumps(window)} for window in windows]
        return self.ray.data.from_items(rows, override_num_blocks=max(1, min(len(rows), _BLOCKS)))

    def _mapped(self, data: Any, rows: int, work: type, *told: object, gpus: float = 0.0) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ray has no other way yet to say how often a row is tried
            return data.map(
                work,
                fn_constructor_args=told,
                concurrency=max(1, min(self.count, rows)),
                num_cpus=self.share,
                num_gpus=gpus or None,
                max_task_retries=_DEATHS,
            )

    def _results(self, data: Any) -> Iterator[Any]:
        """What workers return, as it comes. Raises what they raised, and ServiceError where one died too often."""
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


def one_thread(name: str, base_url: str = "", api_key: str = "") -> Encoder:
    """See ``encoders.load``; there is a worker for each processor."""
    return encoders.load(name, base_url=base_url, api_key=api_key, threads=1)


@contextmanager
def on_ray(
    workers: int | None = None, gpus: float = 0.0, load: Callable[[str], Encoder] = one_thread
) -> Iterator[OnRay]:
    """The workers of a cluster: as many as it has processors, unless it is said how many.

    ``load`` makes the encoder of a name, where that is not fitted on the texts. Raises as ``connected``, and
    ServiceError where the cluster lacks the GPUs.
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
        yield OnRay(ray, count, share, gpus, load)
