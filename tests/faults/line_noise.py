"""``python line_noise.py SEED COMMAND...``: run a server behind a bad line. It needs only the
standard library.

After the client has sent the word "rage", each line of either side may be dropped, doubled, delayed
behind later ones, or cut off together with the server, depending on the seed. Decisions for a
direction depend only on the seed and on the number of the line.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from typing import BinaryIO, List


class Noise:
    def __init__(self, seed: int, server: "subprocess.Popen[bytes]") -> None:
        self.server, self.raging = server, threading.Event()
        self.seed = seed

    def pass_on(self, source: BinaryIO, target: BinaryIO, way: int) -> None:
        dice, held = random.Random(self.seed * 2 + way), []  # type: ignore[var-annotated]
        for line in source:
            if way == 0 and b'"rage"' in line:
                self.raging.set()
            out = self.suffer(line, dice, held) if self.raging.is_set() else [line]
            try:
                target.write(b"".join(out))
                target.flush()
            except OSError:
                break
        if way == 0:
            target.close()

    def suffer(self, line: bytes, dice: random.Random, held: List[bytes]) -> List[bytes]:
        chance, found = dice.random(), []
        if chance > 0.995:
            self.server.kill()
        if chance < 0.04:
            return []
        if chance < 0.10:
            held.append(line)
            return []
        found = [line, line] if chance < 0.15 else [line]
        if held and dice.random() > 0.5:
            found.append(held.pop(dice.randrange(len(held))))
        return found


def main() -> None:
    """Carry both directions until the server ends."""
    server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None and server.stdout is not None
    noise = Noise(int(sys.argv[1]), server)
    forth = threading.Thread(
        target=noise.pass_on, args=(sys.stdin.buffer, server.stdin, 0), daemon=True
    )
    forth.start()
    noise.pass_on(server.stdout, sys.stdout.buffer, 1)
    server.wait()
    os._exit(0)  # the other thread still reads


if __name__ == "__main__":
    main()
