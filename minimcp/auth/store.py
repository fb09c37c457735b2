"""Token stores: `TokenFile`, a file that only this user can read, `TokenKeyring` and `TokenMemory`.

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

# Interval between two attempts to acquire a lock that another process holds.
PAUSE_SECONDS = 0.05

# The end of a message about a file or folder that cannot be used.
ELSEWHERE = ": choose another file with the environment variable MINIMCP_TOKENS or TokenFile(path)"

# How long to wait while another process writes the file.
WRITE_SECONDS = 10.0


class TokenStore(Protocol):
    """The interface of a store for tokens and registrations. Any thread may call its methods.

    A store that several processes share should also have a method ``lock(key, timeout)``, which
    returns a context manager that excludes other threads and processes. Without it, each process
    renews a token for itself.
    """

    def get(self, key: str) -> Any:
        """Return the value that was stored with `put`, or None if there is none."""

    def put(self, key: str, value: Optional[dict[str, Any]]) -> None:
        """Store a value, which is a dict of JSON values. If it is None, delete the key."""


Store = TokenStore  # an older name that programs import


class TokenMemory:
    """A store that keeps tokens while the process runs. Thread-safe."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, Any]] = {}

    def __repr__(self) -> str:
        return f"TokenMemory({len(self._values)} entries)"

    def get(self, key: str) -> Optional[dict[str, Any]]:
        """Return a value. See `TokenStore`."""
        return self._values.get(key)

    def put(self, key: str, value: Optional[dict[str, Any]]) -> None:
        """Store or delete a value. See `TokenStore`."""
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = dict(value)


class TokenFile:
    """A store in a file that only this user can read, shared by all processes of the user.

    Thread-safe.

    Args:
        path: The path of the file; ``~`` means the user's home folder. None means the value of the
            environment variable MINIMCP_TOKENS, or ``minimcp/tokens.json`` in the system's folder
            for the state of programs. The file is created when a value is stored.
    """

    def __init__(self, path: Union[str, os.PathLike[str], None] = None) -> None:
        found = path or os.environ.get("MINIMCP_TOKENS")
        found = found or _state_folder() / "minimcp" / "tokens.json"
        self.path = Path(os.path.expanduser(found))

    def __repr__(self) -> str:
        return f"TokenFile({str(self.path)!r})"

    def get(self, key: str) -> Any:
        """Return a value. See `TokenStore`.

        Raises:
            AuthorizationError: The file cannot be read, is damaged, or belongs to another user.
        """
        return self._read().get(key)

    def put(self, key: str, value: Optional[dict[str, Any]]) -> None:
        """Store or delete a value. See `TokenStore`.

        Raises:
            AuthorizationError: The file cannot be read or written.
        """
        with self.lock("the file", WRITE_SECONDS):
            values = self._read()
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value
            try:
                # Only this user can read a file from mkstemp.
                descriptor, name = tempfile.mkstemp(dir=self.path.parent, prefix=self.path.name)
                try:
                    with open(descriptor, "w", encoding="utf-8") as file:
                        json.dump(values, file, indent=1)
                    os.replace(name, self.path)
                except BaseException:
                    os.unlink(name)
                    raise
            except OSError as error:
                raise AuthorizationError(
                    f"{self.path}: tokens cannot be stored: {error}{ELSEWHERE}"
                ) from error

    @contextmanager
    def lock(self, key: str, timeout: float) -> Iterator[None]:
        """Exclude other threads and processes that lock the same key.

        Args:
            key: The key of the value that is to be changed.
            timeout: Seconds to wait for the lock.

        Raises:
            AuthorizationError: The lock was not released in time, or it cannot be created.
        """
        deadline = time.monotonic() + timeout
        self._check_home()
        name = self.path.with_name(f"{self.path.name}.{sha256(key.encode()).hexdigest()[:8]}.lock")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise AuthorizationError(
                f"{name}: the lock cannot be created: {error}{ELSEWHERE}"
            ) from error
        with open(descriptor, "r+") as file:
            while not _lock(file):
                if time.monotonic() > deadline:
                    raise AuthorizationError(
                        f"{name}: another process has held the lock for {timeout:g} s"
                    )
                time.sleep(PAUSE_SECONDS)
            try:
                yield
            finally:
                _unlock(file)

    def _check_home(self) -> None:
        """Raise AuthorizationError if the path needs a home folder and the user has none."""
        if self.path.parts[:1] == ("~",):
            raise AuthorizationError(f"this user has no home folder for tokens{ELSEWHERE}")

    def _read(self) -> dict[str, Any]:
        try:
            with open(self.path, encoding="utf-8") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise AuthorizationError(
                        f"{self.path} is not a file: tokens cannot be stored there"
                    )
                if os.name != "nt" and status.st_uid != os.geteuid():
                    raise AuthorizationError(
                        f"{self.path} belongs to another user: its tokens are not used{ELSEWHERE}"
                    )
                if os.name != "nt" and status.st_mode & 0o077:
                    log.warning("%s was readable by other users: its mode was changed", self.path)
                    with suppress(OSError):  # the file system is read-only or has no modes
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
                f"{self.path} is not a valid token file: delete it, and sign in again"
            )
        return values


class TokenKeyring:
    """A store in the keyring of the operating system, shared by all processes of the user.

    It needs the package ``keyring``. Windows limits a value to 1,280 characters. Thread-safe.

    Args:
        service: The name under which the keyring shows the values.

    Raises:
        ImportError: The package is not installed.
    """

    def __init__(self, service: str = "minimcp") -> None:
        try:
            import keyring
            from keyring.errors import KeyringError
        except ImportError as error:
            raise ImportError(
                "TokenKeyring needs the package keyring: pip install keyring"
            ) from error
        self._keyring = keyring
        self._error = KeyringError
        self.service = service

    def __repr__(self) -> str:
        return f"TokenKeyring({self.service!r})"

    def get(self, key: str) -> Any:
        """Return a value. See `TokenStore`.

        Raises:
            AuthorizationError: The keyring cannot be read, or its value is damaged.
        """
        with self._failing("read"):
            text = self._keyring.get_password(self.service, key)
        if text is None:
            return None
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise AuthorizationError(
                f"the keyring has an invalid token under {self.service!r}: delete it, and sign in "
                "again"
            )
        return value

    def put(self, key: str, value: Optional[dict[str, Any]]) -> None:
        """Store or delete a value. See `TokenStore`.

        Raises:
            AuthorizationError: The keyring is locked or cannot be written.
        """
        with self._failing("written"):
            if value is not None:
                self._keyring.set_password(self.service, key, json.dumps(value))
            elif self._keyring.get_password(self.service, key) is not None:
                self._keyring.delete_password(self.service, key)

    @contextmanager
    def lock(self, key: str, timeout: float) -> Iterator[None]:
        """Exclude other threads and processes, with a file next to that of `TokenFile`.

        Args and errors are those of `TokenFile.lock`.
        """
        with TokenFile().lock(f"{self.service} {key}", timeout):
            yield

    @contextmanager
    def _failing(self, done: str) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            reason = str(error) or type(error).__name__
            raise AuthorizationError(f"the keyring cannot be {done}: {reason}") from error


def _state_folder() -> Path:
    """Return this system's folder for the state of the user's programs."""
    home = Path(os.path.expanduser("~"))
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    return Path(os.environ.get("XDG_STATE_HOME") or home / ".local" / "state")


def _lock(file: Any) -> bool:
    """Lock a file until it is closed. Return False if another process holds the lock."""
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
    """Unlock a file explicitly. Closing is not enough: a forked process may keep it open."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_UN)
