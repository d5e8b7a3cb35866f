from __future__ import annotations

from time import perf_counter, sleep

import pytest

from connectors.clock import Clock


def test_laps_leave_no_time_between_them() -> None:
    started = perf_counter()
    clock = Clock(lambda: None)
    laps = []
    for _ in range(50):
        laps.append(clock.lap())
        sleep(1e-3)
    laps.append(clock.lap())
    whole = (perf_counter() - started) * 1e3
    assert sum(laps) == pytest.approx(whole, abs=20)
    assert sum(laps) <= whole
    assert sum(laps[1:]) >= 50


def test_a_lap_holds_what_the_device_does_until_it_ends() -> None:
    work = [0.0, 0.1, 0.0]
    clock = Clock(lambda: sleep(work.pop(0)))
    assert clock.lap() >= 100
    assert clock.lap() < 80


def test_a_restart_leaves_out_what_came_before() -> None:
    clock = Clock(lambda: None)
    sleep(0.1)
    clock.restart()
    assert clock.lap() < 80
