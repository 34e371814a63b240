"""Files as STaRK saves them, made without PyTorch: ``torch.save``'s zip with a pickle and raw storages."""

import pickle
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

STORAGES = {"int64": "LongStorage", "float32": "FloatStorage", "int32": "IntStorage", "uint8": "ByteStorage"}


def plain(value: Any) -> bytes:
    """The opcodes that push a value, without the frame around them."""
    return pickle.dumps(value, protocol=2)[2:-1]


def tensor_pickle(
    storage: str, elements: int, offset: int, shape: Sequence[int], stride: Sequence[int], function: str = ""
) -> bytes:
    """What ``torch.save`` writes into ``data.pkl`` for one tensor (PyTorch 1.6 to 2.13, protocol 2)."""
    rebuild = function or "torch._utils\n_rebuild_tensor_v2"
    pid = b"(" + plain("storage") + f"ctorch\n{storage}\n".encode() + plain("0") + plain("cpu") + plain(elements) + b"t"
    hooks = b"ccollections\nOrderedDict\n)R"
    rest = plain(offset) + plain(tuple(shape)) + plain(tuple(stride)) + b"\x89" + hooks
    return b"\x80\x02" + f"c{rebuild}\n".encode() + b"(" + pid + b"Q" + rest + b"tR."


def save_tensor(path: Path, array: npt.NDArray[Any], content: bytes | None = None) -> None:
    """Save a contiguous array as ``torch.save`` does; ``content`` is another ``data.pkl``."""
    array = np.ascontiguousarray(array)
    stride = [step // array.itemsize for step in array.strides]
    made = tensor_pickle(STORAGES[array.dtype.name], array.size, 0, array.shape, stride)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", made if content is None else content)
        archive.writestr("archive/byteorder", "little")
        archive.writestr("archive/data/0", array.tobytes())
        archive.writestr("archive/version", "3\n")


def save_pickle(path: Path, value: Any) -> None:
    path.write_bytes(pickle.dumps(value))


def save_stark(
    folder: Path,
    nodes: Sequence[dict[str, Any]],
    node_types: Sequence[int],
    edges: Sequence[tuple[int, int, int]],
    names: tuple[dict[int, str], dict[int, str]] | None,
) -> Path:
    """A folder of processed files; ``edges`` are (source, edge type, target)."""
    folder.mkdir(parents=True)
    columns = np.array(edges, np.int64).reshape(-1, 3).T
    save_pickle(folder / "node_info.pkl", dict(enumerate(nodes)))
    save_tensor(folder / "node_types.pt", np.array(node_types, np.int64))
    save_tensor(folder / "edge_index.pt", columns[[0, 2]])
    save_tensor(folder / "edge_types.pt", columns[1])
    if names:
        save_pickle(folder / "node_type_dict.pkl", names[0])
        save_pickle(folder / "edge_type_dict.pkl", names[1])
    return folder


class Hostile:
    """What a malicious pickle holds: a call."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]
