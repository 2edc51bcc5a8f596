"""What the kernel does for us about parents and children."""

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(signum: int) -> None:
    """Have the kernel send `signum` to this process when the thread that started it ends (Linux; elsewhere nothing).

    For a child just after its fork. Set it again after a change of user: that clears it. Raises OSError.
    """
    if sys.platform != "linux":
        return
    if _libc.prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
