import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import datasets
import pytest

from corpora import hub
from corpora.hub import HubError, answers, load_rows


@contextmanager
def _server(reply: bytes | None) -> Iterator[str]:
    """A server on this machine that sends `reply`, or takes the connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(1024)
                if reply is None:
                    time.sleep(1.0)
                else:
                    connection.sendall(reply)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


@pytest.mark.parametrize(
    ("status", "expected"), [(b"200 OK", True), (b"401 Unauthorized", True), (b"503 Service Unavailable", False)]
)
def test_a_server_answers_unless_it_is_broken(status: bytes, expected: bool) -> None:
    with _server(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n") as url:
        assert answers(url) is expected


def test_a_silent_server_costs_the_time_limit_once() -> None:
    with _server(None) as url:
        begin = time.monotonic()
        assert not answers(url, 0.2)
        assert time.monotonic() - begin < 0.9
        begin = time.monotonic()
        assert not answers(url, 0.2)
        assert time.monotonic() - begin < 0.1


def test_a_closed_port_is_no_answer() -> None:
    assert not answers("http://127.0.0.1:9", 2.0)


class _Hub:
    """Stands in for `datasets.load_dataset`: what the cache and the hub hold."""

    def __init__(self, cached: bool, online: bool) -> None:
        self.cached, self.online = cached, online
        self.asked: list[bool] = []

    def load_dataset(self, hub_id: str, config: str | None, split: str) -> list[str]:
        offline = bool(datasets.config.HF_HUB_OFFLINE)
        self.asked.append(offline)
        if (offline and not self.cached) or (not offline and not self.online):
            raise ConnectionError(f"no {hub_id}\nand a long story")
        return [split]


def _fake(monkeypatch: pytest.MonkeyPatch, cached: bool, online: bool, reachable: bool, offline: bool = False) -> _Hub:
    fake = _Hub(cached, online)
    monkeypatch.setattr(datasets, "load_dataset", fake.load_dataset)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", offline)
    monkeypatch.setattr(hub, "answers", lambda url: reachable)
    return fake


def test_the_cache_goes_first_and_needs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = _fake(monkeypatch, cached=True, online=True, reachable=True)
    assert load_rows("a/b", None, "test") == (["test"], "hub cache")
    assert fake.asked == [True]
    assert datasets.config.HF_HUB_OFFLINE is False


def test_the_hub_is_asked_when_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = _fake(monkeypatch, cached=False, online=True, reachable=True)
    assert load_rows("a/b", None, "test") == (["test"], "hub")
    assert fake.asked == [True, False]


@pytest.mark.parametrize(
    ("reachable", "offline", "reason"),
    [(False, False, "does not answer"), (True, True, "offline mode is on"), (True, False, r"\(no a/b\)$")],
)
def test_no_source_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, reachable: bool, offline: bool, reason: str
) -> None:
    fake = _fake(monkeypatch, cached=False, online=False, reachable=reachable, offline=offline)
    with pytest.raises(HubError, match=reason):
        load_rows("a/b", None, "test")
    assert len(fake.asked) == (2 if reachable and not offline else 1)
