"""How a command ends: the exit codes, and which error or status leads to which."""

from __future__ import annotations

import errno
import sys
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes. Append-only: a code never changes its meaning. From 64 on they are those of sysexits.h."""

    OK = 0
    USAGE = 2  #: the command was not understood
    INACCURATE = 3  #: there is a model, but not to the tolerance asked for
    FAILED = 4  #: a numerical failure, a diverging fit, or a certificate that does not hold
    DATA = 65  #: a file is not what it should be, or its data cannot be used
    NO_INPUT = 66  #: a file to be read is not there, or may not be read
    BUG = 70  #: an error in levelprox itself; the traceback is in a file
    CANNOT_CREATE = 73  #: a file to be written cannot be, or is there already
    IO = 74  #: reading or writing failed on the way: a full disk, no memory
    TRY_AGAIN = (
        75  #: another process holds the checkpoint, a cluster does not answer, or a file changed while it was read
    )
    INTERRUPTED = 130  #: Ctrl-C
    CLOSED = 141  #: whoever read the output has gone
    TERMINATED = 143  #: SIGTERM


class CommandError(Exception):
    """What ends a command, in one line.

    Parameters
    ----------
    message : str
    code : Exit
    """

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.code = code


class UsageError(CommandError):
    """Options that do not go together."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.USAGE)


#: Errors of writing that come on the way, not at the beginning.
_ON_THE_WAY = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

#: Statuses of a fit that leave a usable model which is not to tolerance: inaccurate, max_iter, time_limit, stalled.
_SHORT = (1, 2, 3, 6)
_OF_STATUS = {0: Exit.OK, 5: Exit.OK, 4: Exit.INTERRUPTED, 10: Exit.DATA, 13: Exit.IO}


def of_status(status: int, accept_inaccurate: bool = False) -> Exit:
    """The exit code of a fit that ended with this `Status`."""
    if status in _SHORT:
        return Exit.OK if accept_inaccurate else Exit.INACCURATE
    return _OF_STATUS.get(int(status), Exit.FAILED)


def of_error(error: BaseException) -> Exit:
    """The exit code of an error; `Exit.BUG` for those that nobody has foreseen."""
    if isinstance(error, CommandError):
        return error.code
    if isinstance(error, MemoryError):
        return Exit.IO
    if isinstance(error, ImportError):
        return Exit.USAGE if "pip install" in str(error) else Exit.BUG
    return _of_levelprox(error)


def of_os_error(error: OSError, otherwise: Exit) -> Exit:
    """A full disk or the like is one thing; that a file cannot be opened at all another."""
    return Exit.IO if error.errno in _ON_THE_WAY else otherwise


def _of_levelprox(error: BaseException) -> Exit:
    if "levelprox.exceptions" not in sys.modules:  # which would have to raise it
        return Exit.BUG
    from levelprox import exceptions as errors

    if isinstance(error, errors.CheckpointLockedError | errors.BackendError):
        return Exit.TRY_AGAIN
    if isinstance(error, errors.CheckpointError):
        cause = error.__cause__
        return of_os_error(cause, Exit.CANNOT_CREATE) if isinstance(cause, OSError) else Exit.DATA
    if isinstance(error, errors.InvalidInputError):
        return Exit.DATA
    return Exit.FAILED if isinstance(error, errors.NumericalError) else Exit.BUG
