"""Where tokens are kept: `TokenFile`, a file that this user alone reads, and `TokenMemory`.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import json
import os
import stat
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Iterator, Optional, Protocol, Union

from ..errors import AuthorizationError
from ..log import logger

log = logger("minimcp.auth")

# Seconds between two tries to get a lock that another process has.
PAUSE_SECONDS = 0.05

# The end of a message about a file or folder that cannot be used.
ELSEWHERE = ": name another file by the environment variable MINIMCP_TOKENS, or TokenFile(path)"

# What writing the file may take another process.
WRITE_SECONDS = 10.0


class TokenStore(Protocol):
    """What keeps tokens and registrations: two methods that any thread calls.

    One that several processes share may have a third, ``lock(key, timeout)``: a context manager, in
    which no other thread or process is; without it, each process renews a token for itself.
    """

    def get(self, key: str) -> Any:
        """The value that `put` got, a mapping of JSON values; None where there is none."""

    def put(self, key: str, value: Optional[dict[str, Any]]) -> None:
        """Keep a value; None forgets it."""


Store = TokenStore  # the name before 0.1.0, which programs import


class TokenMemory:
    """Keeps tokens as long as the process runs. Thread-safe."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, Any]] = {}

    def __repr__(self) -> str:
        return f"TokenMemory({len(self._values)} entries)"

    def get(self, key: str) -> Optional[dict[str, Any]]:
        """As `TokenStore`."""
        return self._values.get(key)

    def put(self, key: str, value: Optional[dict[str, Any]]) -> None:
        """As `TokenStore`."""
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = dict(value)


class TokenFile:
    """Keeps tokens in a file that this user alone may read, shared by all processes of the user.
    Thread-safe.

    Args:
        path: Path of the file; None takes the environment variable MINIMCP_TOKENS, or
            ``minimcp/tokens.json`` in the folder in which programs of this user keep their state.
            ``~`` means the user's home folder. The file is created when something is stored.
    """

    def __init__(self, path: Union[str, os.PathLike[str], None] = None) -> None:
        found = path or os.environ.get("MINIMCP_TOKENS")
        found = found or _state_folder() / "minimcp" / "tokens.json"
        self.path = Path(os.path.expanduser(found))

    def __repr__(self) -> str:
        return f"TokenFile({str(self.path)!r})"

    def get(self, key: str) -> Any:
        """As `TokenStore`. Raises AuthorizationError: the file cannot be read, is broken, or is
        another user's, or none."""
        return self._read().get(key)

    def put(self, key: str, value: Optional[dict[str, Any]]) -> None:
        """As `TokenStore`. Raises AuthorizationError: as `get`, or the file cannot be written."""
        with self.lock("the file", WRITE_SECONDS):
            values = self._read()
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value
            try:  # mkstemp: for this user alone
                number, name = tempfile.mkstemp(dir=self.path.parent, prefix=self.path.name)
                try:
                    with open(number, "w", encoding="utf-8") as file:
                        json.dump(values, file, indent=1)
                    os.replace(name, self.path)
                except BaseException:
                    os.unlink(name)
                    raise
            except OSError as error:
                told = f"{self.path}: tokens cannot be kept: {error}{ELSEWHERE}"
                raise AuthorizationError(told) from error

    @contextmanager
    def lock(self, key: str, timeout: float) -> Iterator[None]:
        """No other thread or process is in here with the same key.

        Args:
            key: Of what is to be changed.
            timeout: Seconds to wait for it.

        Raises:
            AuthorizationError: Another one was in here all the time, or there can be no lock.
        """
        ends = time.monotonic() + timeout
        self._check_home()
        name = self.path.with_name(f"{self.path.name}.{sha256(key.encode()).hexdigest()[:8]}.lock")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            number = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise AuthorizationError(f"{name}: there can be no lock: {error}{ELSEWHERE}") from error
        with open(number, "r+") as file:
            while not _locked(file):
                if time.monotonic() > ends:
                    raise AuthorizationError(
                        f"{name}: another process has held it for {timeout:g} s"
                    )
                time.sleep(PAUSE_SECONDS)
            try:
                yield
            finally:
                _unlock(file)

    def _check_home(self) -> None:
        """Raise an AuthorizationError if the path is in a home folder that does not exist."""
        if self.path.parts[:1] == ("~",):
            raise AuthorizationError(f"this user has no home folder to keep tokens in{ELSEWHERE}")

    def _read(self) -> dict[str, Any]:
        try:
            with open(self.path, encoding="utf-8") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise AuthorizationError(f"{self.path} is no file: tokens cannot be kept there")
                if os.name != "nt" and status.st_uid != os.geteuid():
                    told = (
                        f"{self.path} belongs to another user: its tokens are not used{ELSEWHERE}"
                    )
                    raise AuthorizationError(told)
                if os.name != "nt" and status.st_mode & 0o077:
                    log.warning("%s could be read by other users: it cannot any more", self.path)
                    with suppress(OSError):  # of a file system that is read-only or has no modes
                        os.fchmod(file.fileno(), 0o600)
                values = json.load(file)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise AuthorizationError(f"{self.path}: the tokens cannot be read: {error}") from error
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            raise AuthorizationError(
                f"{self.path} is no file of tokens: delete it, and sign in again"
            )
        return values


def _state_folder() -> Path:
    """The folder in which programs of this user keep what they have to remember."""
    home = Path(os.path.expanduser("~"))
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    return Path(os.environ.get("XDG_STATE_HOME") or home / ".local" / "state")


def _locked(file: Any) -> bool:
    """Lock a file until it is closed; whether that went."""
    with suppress(OSError):
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _unlock(file: Any) -> None:
    """Unlock a file before it is closed: a process that was forked meanwhile has it open, too, and
    for long."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_UN)
