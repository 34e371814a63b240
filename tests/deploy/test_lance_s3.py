"""An SKB in tables on an S3 server, moto's, is asked as the same SKB in its folder is."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from kbnav.errors import CredentialsError, ServiceError, UsageError
from kbnav.knowledge.open import bundled_skb
from kbnav.knowledge.skb.lance import connect, open_tables, write
from kbnav.knowledge.skb.maintenance import check
from kbnav.knowledge.skb.store import SKB
from tests.ending import started, until
from tests.services import free_port, s3_server

QUESTION = "Which instrument made by somebody from Little Mew has a love letter hidden in it?"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an empty bucket; what it asks for is in the environment."""
    with s3_server() as (url, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield url


def test_the_answers_are_those_of_the_folder(bucket, demo_home, tmp_path):
    with pytest.raises(UsageError, match="not an SKB on LanceDB: no finished copy of one is there"):
        open_tables(f"{bucket}/demo", tmp_path)
    with pytest.raises(UsageError, match="s3://other/demo: there is no bucket 'other' at http://127"):
        open_tables("s3://other/demo", tmp_path)
    with SKB.open(bundled_skb(demo_home)) as local:
        write(local, f"{bucket}/demo")
        with open_tables(f"{bucket}/demo", tmp_path) as lance:
            assert list(lance.documents) == list(local.documents)
            for given in ({}, {"ranges": [local.type_range("instrument")]}, {"among": range(0, 200, 3)}):
                words, its = (skb.text.search(QUESTION, **given) for skb in (local, lance))
                assert [node for node, _ in its] == [node for node, _ in words]
                assert lance.vectors.search(QUESTION, **given) == local.vectors.search(QUESTION, **given)
            assert (tmp_path / local.meta.data / "graph" / "out-nodes.npy").is_file()


def test_what_cannot_be_reached_is_said_in_a_line(bucket, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(ServiceError, match=r"^s3://kbnav/demo: http://127\.0\.0\.1:\d+ does not answer$"):
        open_tables(f"{bucket}/demo", tmp_path)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(CredentialsError, match=r"^s3://kbnav/demo: no credentials: set AWS_ACCESS_KEY_ID"):
        open_tables(f"{bucket}/demo", tmp_path)


def test_after_a_copy_to_s3_that_was_killed_the_next_one_is_whole(bucket, demo_home, tmp_path):
    folder = str(bundled_skb(demo_home))
    command = [sys.executable, "-m", "kbnav", "skb", "copy", folder, "--out", f"{bucket}/killed"]
    with started(command):
        until(lambda: "nodes" in connect(f"{bucket}/killed").list_tables().tables, seconds=60)
    subprocess.run(command, check=True)
    assert check(f"{bucket}/killed", tmp_path) == []
