import logging
from pathlib import Path

import pytest

from benchmarks.logs import LogFile


def _logger(place: Path) -> tuple[logging.Logger, LogFile]:
    handler = LogFile(place, encoding="utf-8")
    logger = logging.Logger("a log of its own")
    logger.addHandler(handler)
    return logger, handler


def test_a_full_disk_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    logger, handler = _logger(Path("/dev/full"))
    for number in range(3):
        logger.error("record %d", number)
    handler.close()
    assert capsys.readouterr().err == ("warning: /dev/full cannot be written (No space left on device): it ends here\n")


def test_a_fault_of_the_program_is_shown_in_full(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logger, handler = _logger(tmp_path / "log.txt")
    logger.error("%d", "no number")
    handler.close()
    assert "Traceback" in capsys.readouterr().err


def test_records_are_written(tmp_path: Path) -> None:
    logger, handler = _logger(tmp_path / "log.txt")
    logger.error("a record")
    handler.close()
    assert (tmp_path / "log.txt").read_text(encoding="utf-8") == "a record\n"
