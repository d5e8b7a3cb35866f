"""Log files that a full disk ends with one sentence, where the standard library prints a traceback for every record."""

from __future__ import annotations

import logging
import sys


class LogFile(logging.FileHandler):
    """A log file that says once why it can take no more, and then takes no more."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Report an error of the disk in one line; any other one is a fault of the program and shown in full."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self.setLevel(logging.CRITICAL + 1)
        sys.stderr.write(f"warning: {self.baseFilename} cannot be written ({error.strerror}): it ends here\n")

    def close(self) -> None:
        """Close the file; what a full disk has not taken is given up, and was reported."""
        try:
            super().close()
        except OSError:
            if self.level <= logging.CRITICAL:
                raise
