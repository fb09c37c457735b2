"""`NotificationQueue`: bounded by what there is to tell, not by how often it changes."""

from __future__ import annotations

import threading
from typing import Callable, List, Optional

import pytest

from minimcp.engine.requests import NotificationQueue

Work = Callable[[], Optional[bytes]]


def test_what_waits_already_is_not_sent_twice() -> None:
    works: List[Work] = []
    notices = NotificationQueue(works.append)
    for number in range(1000):
        notices.put("a", b"a%d\n" % number)
        notices.put("b", b"b\n")
    assert len(works) == 1 and repr(notices) == "<NotificationQueue 2 waiting>"
    assert works.pop()() == b"a999\nb\n"
    notices.put("b", b"b\n")
    assert works.pop()() == b"b\n"


def test_what_is_held_waits_for_its_release() -> None:
    works: List[Work] = []
    notices = NotificationQueue(works.append, held=True)
    notices.put("a", b"a\n")
    assert not works
    notices.release()
    assert works.pop()() == b"a\n"
    notices.release()
    assert not works  # or each session of an HTTP server would keep work that is none


@pytest.mark.requirement("M:SUB-14")
def test_nothing_is_lost_between_many_who_put_and_one_who_takes() -> None:
    works: List[Work] = []
    taken: List[bytes] = []
    notices = NotificationQueue(works.append)

    def put(name: int) -> None:
        for number in range(500):
            notices.put((name, number), b"%d-%d\n" % (name, number))

    threads = [threading.Thread(target=put, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) or works:
        if works:
            taken += (works.pop(0)() or b"").splitlines()
    for thread in threads:
        thread.join()
    while works:
        taken += (works.pop(0)() or b"").splitlines()
    assert sorted(taken) == sorted(b"%d-%d" % (name, number) for name in range(4) for number in range(500))
