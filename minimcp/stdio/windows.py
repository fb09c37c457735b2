"""A Job Object: Windows' group of processes that end together. Written for Windows, not run on it.

Without it a killed `npx` or `cmd` leaves the server that it started behind. And how a program is found there.
https://learn.microsoft.com/windows/win32/procthread/job-objects
"""

from __future__ import annotations

import sys
from typing import Mapping

if sys.platform == "win32":  # pragma: no cover - not run on
    import ctypes
    from ctypes import wintypes

    _KILL_ON_CLOSE = 0x2000
    _EXTENDED_LIMITS = 9
    _SET_QUOTA_AND_TERMINATE = 0x0100 | 0x0001

    class _BasicLimits(ctypes.Structure):
        _fields_ = [
            ("PerProcessUserTimeLimit", ctypes.c_int64),
            ("PerJobUserTimeLimit", ctypes.c_int64),
            ("LimitFlags", wintypes.DWORD),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", wintypes.DWORD),
            ("SchedulingClass", wintypes.DWORD),
        ]

    class _Limits(ctypes.Structure):
        _fields_ = [
            ("Basic", _BasicLimits),
            ("IoCounters", ctypes.c_uint64 * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        ]

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    for _name in ("CreateJobObjectW", "OpenProcess"):
        getattr(_kernel, _name).restype = wintypes.HANDLE

    class Job:
        """Everything that a process starts from now on ends with it, or with us.

        Args:
            pid: The process. What it started before this call is not in the job.

        Raises:
            OSError: The system refuses.
        """

        __slots__ = ("_handle",)

        def __init__(self, pid: int) -> None:
            self._handle = _checked(_kernel.CreateJobObjectW(None, None))
            try:
                self._limit()
                self._assign(pid)
            except BaseException:
                self.close()
                raise

        def _limit(self) -> None:
            limits = _Limits()
            limits.Basic.LimitFlags = _KILL_ON_CLOSE
            _checked(
                _kernel.SetInformationJobObject(
                    wintypes.HANDLE(self._handle), _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits)
                )
            )

        def _assign(self, pid: int) -> None:
            process = _checked(_kernel.OpenProcess(_SET_QUOTA_AND_TERMINATE, False, pid))
            try:
                _checked(_kernel.AssignProcessToJobObject(wintypes.HANDLE(self._handle), wintypes.HANDLE(process)))
            finally:
                _kernel.CloseHandle(wintypes.HANDLE(process))

        def terminate(self) -> None:
            """End every process of the job."""
            _kernel.TerminateJobObject(wintypes.HANDLE(self._handle), 1)

        def close(self) -> None:
            """Let go of the job, which ends what is left in it. Idempotent."""
            handle, self._handle = self._handle, 0
            if handle:
                _kernel.CloseHandle(wintypes.HANDLE(handle))

    def program(name: str, env: Mapping[str, str]) -> str:
        """The file that `name` stands for: without this `npx` is not found, which is a file `npx.cmd`."""
        import shutil

        return shutil.which(name, path=env.get("PATH")) or name

    def _checked(result: int) -> int:
        if not result:
            raise ctypes.WinError(ctypes.get_last_error())
        return result
