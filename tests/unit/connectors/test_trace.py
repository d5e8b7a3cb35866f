from __future__ import annotations

from math import isnan

from connectors.trace import PassRecord, Trace


def record(committed: int, ms: float) -> PassRecord:
    pathways, drafted_by = [0] * committed, ["pld"] * committed
    return PassRecord(1, 2, 2, 3, 2, 2, committed - 1, committed, pathways, drafted_by, ms, 2 * ms, 3 * ms, 4 * ms)


def test_parts_add_up() -> None:
    trace = Trace(prefill_ms=100.0, tail_ms=0.5, passes=[record(3, 1.0), record(1, 0.1)])
    assert trace.passes[0].total_ms == 10.0
    assert trace.decode_ms == 11.5
    assert trace.tau == 2.0


def test_without_a_pass_there_is_no_tau() -> None:
    assert isnan(Trace().tau)
    assert Trace(tail_ms=2.0).decode_ms == 2.0
