"""A line between client and server that loses, doubles, delays, swaps and cuts, by a seed. For C66."""

from __future__ import annotations

import random
import threading
from typing import Any

from minimcp.pipe import Frame, Pipe


class ChaosPipe(Pipe):
    """Wraps the client's end of a pipe. Quiet until `rage` is called; afterwards every line may suffer.

    Args:
        inner: The real pipe.
        seed: Decides everything that happens.
        cuts: Whether the line may be cut.
    """

    def __init__(self, inner: Pipe, seed: int, cuts: bool) -> None:
        self.name = f"chaos {seed}"
        self._inner = inner
        self._dice = {"in": random.Random(seed), "out": random.Random(-seed)}
        self._held: dict[str, list[bytes]] = {"in": [], "out": []}
        self._cuts = cuts
        self._raging = threading.Event()

    def rage(self) -> None:
        """From now on the line is bad."""
        self._raging.set()

    def _suffer(self, way: str, lines: list[Any]) -> list[Any]:
        dice, held = self._dice[way], self._held[way]
        found = []
        for line in lines:
            chance = dice.random()
            if chance < 0.04:
                continue  # lost
            if chance < 0.10:
                held.append(line)  # delayed behind the next ones, and so swapped
                continue
            found.append(line)
            if way == "in" and chance < 0.16:
                found.append(line)  # an answer comes twice
            if held and chance > 0.5:
                found.append(held.pop(dice.randrange(len(held))))
            if self._cuts and chance > 0.985:
                self._inner.close()
                break
        return found

    def receive(self, *arguments: Any) -> list[Frame]:
        while True:
            frames = self._inner.receive(*arguments)
            if not frames or not self._raging.is_set():
                return frames
            left = self._suffer("in", frames)
            if left:
                return left

    def send(self, data: bytes, seconds: float) -> int:
        if not self._raging.is_set() or not data.endswith(b"\n"):
            return self._inner.send(data, seconds)
        whole = b"".join(line + b"\n" for line in self._suffer("out", data[:-1].split(b"\n")))
        sent = 0
        while sent < len(whole):
            sent += self._inner.send(whole[sent:], seconds)
        return len(data)

    def finish(self) -> None:
        self._inner.finish()

    def close(self) -> None:
        self._inner.close()


class ChaosServer:
    """A server behind a bad line, for `minimcp.connect`."""

    def __init__(self, server: Any, seed: int, *, cuts: bool = False) -> None:
        self._server, self._seed, self._cuts = server, seed, cuts
        self.pipes: list[ChaosPipe] = []

    def open_pipe(self) -> ChaosPipe:
        """The client's end of a new connection."""
        self.pipes.append(ChaosPipe(self._server.open_pipe(), self._seed, self._cuts))
        return self.pipes[-1]

    def rage(self) -> None:
        """From now on every line is bad."""
        for pipe in self.pipes:
            pipe.rage()
