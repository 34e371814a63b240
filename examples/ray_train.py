"""Run a ``kbnav train`` command in several processes through Ray Train, on one machine or on all of a Ray cluster.

    pip install 'kbnav[train]' 'ray[train]'
    python examples/ray_train.py 2 dense --kb my.skb --dataset train.jsonl --out my.dense

The number is of processes; with ``--gpu`` before it each has a GPU of its own. Ray starts them and lets them find one
another, as ``torchrun`` does; what follows is the command's own. On several machines all paths must be on a disk that
all of them see.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer


def process(given: dict[str, list[str]]) -> None:
    """What each process does: the command, in the folder in which it was given."""
    os.chdir(given["folder"][0])
    sys.argv = ["kbnav", "train", *given["command"]]
    from kbnav.apps.cli.root import main

    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise RuntimeError(f"kbnav train ended with {ended.code}") from ended


def main() -> None:
    """Train."""
    arguments = sys.argv[1:]
    gpu = arguments[:1] == ["--gpu"]
    count, *command = arguments[gpu:] or [""]
    if not count.isdigit() or not command:
        sys.exit("usage: python examples/ray_train.py [--gpu] PROCESSES dense|qagnn OPTIONS")
    given = {"folder": [str(Path.cwd())], "command": command}
    scaling = ScalingConfig(num_workers=int(count), use_gpu=gpu)
    TorchTrainer(process, train_loop_config=given, scaling_config=scaling).fit()


if __name__ == "__main__":
    main()
