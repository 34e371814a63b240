"""Pickles and PyTorch tensors from files that cannot be trusted, read without PyTorch.

A pickle is a program: it may name any function and call it. The reader here knows the few names that plain data,
NumPy values and tensors need, answers each with a stand-in of its own that only holds data, and refuses every other.
"""

from __future__ import annotations

import io
import math
import pickle
import re
import resource
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.schema import MEMORY

_STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "<i1",
    "ByteStorage": "<u1",
    "BoolStorage": "|b1",
}
_DAMAGE = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What reading a damaged pickle can raise."""
_UNPACKED = 40
"""How many times its file the data of a pickle may take: a small number has two bytes there, and thirty in memory."""
_KINDS = frozenset("biufSU")
"""NumPy kinds that are plain values: boolean, integers, floats, bytes, text."""


def read_pickle(path: Path, *, memory: int = MEMORY) -> Any:
    """Plain data from a ``.pkl`` file; NumPy scalars and arrays in it become Python's numbers and lists.

    ``memory`` is in bytes, beside what the file itself has. Raises UsageError where the file is missing, DataError
    where it is damaged, takes more memory, or names anything that is not data.
    """
    with _opened(path) as file, bounded(memory + _UNPACKED * path.stat().st_size):
        return _load(_Reader(file), path)


def read_tensor(path: Path, *, memory: int = MEMORY) -> npt.NDArray[Any]:
    """The one tensor that ``torch.save`` put in a ``.pt`` file (the zip format, of PyTorch 1.6 and later).

    ``memory`` is in bytes. Raises UsageError where the file is missing, DataError where it is damaged, takes more
    memory, or holds anything but a tensor.
    """

    def content(archive: zipfile.ZipFile, name: str) -> bytes:
        if archive.getinfo(name).file_size > memory:
            raise DataError(f"{path}: {name} is larger than {memory / (1 << 20):g} MiB")
        return archive.read(name)

    try:
        with _opened(path) as file, zipfile.ZipFile(file) as archive:
            pickles = [name for name in archive.namelist() if name.endswith("/data.pkl")]
            if len(pickles) != 1:
                raise DataError(f"{path}: not a tensor as torch.save writes it: it has no data.pkl")
            root = pickles[0].removesuffix("data.pkl")
            if f"{root}byteorder" in archive.namelist() and content(archive, f"{root}byteorder") != b"little":
                raise DataError(f"{path}: a tensor of a big-endian machine cannot be read")
            program = io.BytesIO(content(archive, pickles[0]))
            with bounded(3 * memory):  # a storage, as it is unpacked, and the tensor
                found = _load(_TensorReader(program, lambda key: content(archive, f"{root}data/{key}")), path)
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, RuntimeError, OSError) as error:
        raise DataError(f"{path}: {error}; tensors must be in the zip format of PyTorch 1.6 and later") from error
    if not isinstance(found, np.ndarray):
        raise DataError(f"{path}: holds {type(found).__name__}, not one tensor")
    return found


@contextmanager
def bounded(memory: int) -> Iterator[None]:
    """Let the process take so many bytes more; beyond them, Python and NumPy raise MemoryError. On Linux only.

    A pickle of ten bytes can ask for gigabytes before anything else is looked at.
    """
    status = Path("/proc/self/status")
    held = re.search(r"VmData:\s+(\d+)", status.read_text()) if status.is_file() else None
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = int(held[1]) * 1024 + memory if held else 0
    if not held or any(one != resource.RLIM_INFINITY and one < limit for one in (soft, hard)):
        yield
        return
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _load(reader: pickle.Unpickler, path: Path) -> Any:
    try:
        return reader.load()
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except MemoryError as error:
        raise DataError(f"{path}: takes more memory than it may") from error
    except _DAMAGE as error:
        raise DataError(f"{path}: damaged: {error!r}") from error


class _Reader(pickle.Unpickler):
    _known: dict[tuple[str, str], Any]

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self._known = {
            ("collections", "OrderedDict"): dict,
            ("_codecs", "encode"): _latin1,
            ("__builtin__", "bytes"): lambda: b"",
            ("numpy", "dtype"): _Dtype,
            ("numpy", "ndarray"): _NAME_ONLY,
        }
        for package in ("numpy.core", "numpy._core"):
            self._known[f"{package}.multiarray", "scalar"] = _scalar
            self._known[f"{package}.multiarray", "_reconstruct"] = lambda *_: _Array()
            self._known[f"{package}.numeric", "_frombuffer"] = _from_buffer

    def find_class(self, module: str, name: str) -> Any:
        """Called for each name in the file."""
        try:
            return self._known[module, name]
        except KeyError as error:
            raise DataError(f"refused, because it asks for {module}.{name}, which is not data") from error


class _TensorReader(_Reader):
    """Unpickles one tensor; ``storage`` gives the bytes of a storage by its key."""

    def __init__(self, file: IO[bytes], storage: Callable[[str], bytes]) -> None:
        super().__init__(file)
        self._storage = storage
        self._known["torch._utils", "_rebuild_tensor_v2"] = _tensor
        for name, dtype in _STORAGES.items():
            self._known["torch", name] = np.dtype(dtype)

    def persistent_load(self, pid: Any) -> npt.NDArray[Any]:
        """A storage, named from outside the pickle: ("storage", type, key, device, number of elements)."""
        _, dtype, key, _, size = pid
        array = np.frombuffer(self._storage(str(key)), dtype)
        if not isinstance(dtype, np.dtype) or len(array) != size:
            raise DataError(f"storage {key} does not hold the {size} values it should")
        return array


def _tensor(storage: Any, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> npt.NDArray[Any]:
    if not isinstance(storage, np.ndarray) or offset < 0 or len(size) != len(stride) or min((*size, *stride, 0)) < 0:
        raise DataError("a tensor with an impossible shape")
    last = offset + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    if math.prod(size) > len(storage):
        raise DataError("a tensor of more values than its storage has")
    if 0 not in size and last >= len(storage):
        raise DataError("a tensor that reaches behind its storage")
    bytes_stride = [step * storage.itemsize for step in stride]
    return np.lib.stride_tricks.as_strided(storage[offset:], size, bytes_stride, writeable=False).copy()


_NAME_ONLY = object()
"""Stands for a class that is named as an argument and never called here."""


class _Dtype:
    """Stands for ``numpy.dtype``: only plain kinds, and objects inside an array."""

    def __init__(self, code: Any, *_: Any) -> None:
        self.code = str(code)
        self.order = "<"
        if self.code[:1] not in _KINDS | {"O"}:
            raise DataError(f"NumPy values of type {self.code} are not plain data")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = ">" if state[1] == ">" else "<"

    @property
    def real(self) -> np.dtype[Any]:
        """The dtype itself. Raises DataError for objects."""
        if self.code.startswith("O"):
            raise DataError("NumPy values of type object are not plain data")
        return np.dtype(self.order + self.code)


class _Array(list[Any]):
    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, _, content = state
        if len(shape) != 1 or not isinstance(dtype, _Dtype):
            raise DataError("NumPy arrays of other than one dimension are not read")
        self.extend(content if isinstance(content, list) else np.frombuffer(content, dtype.real).tolist())


def _from_buffer(content: Any, dtype: Any, shape: tuple[int, ...], *_: Any) -> list[Any]:
    array = _Array()
    array.__setstate__((1, shape, dtype, False, content))
    return array


def _scalar(dtype: Any, content: bytes = b"") -> Any:
    if not isinstance(dtype, _Dtype):
        raise DataError("a NumPy scalar without a type")
    return np.frombuffer(content, dtype.real)[0].item()


def _latin1(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise DataError(f"refused, because it asks for the encoding {encoding}")
    return text.encode("latin1")
