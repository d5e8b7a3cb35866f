"""Tables 1 to 4: speedup and tau of methods, of SENSE's ablations and of verifiers."""

from __future__ import annotations

from typing import Final

from benchmarks.paper.comparison import Comparison
from benchmarks.paper.runs import Pick

TAU_NOTE: Final = (
    "τ counts every token that a pass commits, the target's own next token included, so plain decoding is 1; "
    "Speed is the ratio of decode times per token to plain decoding of the same prompts."
)
MEAN_NOTE: Final = "Mean: over all four sets, and only where all four are there."

SENSE_OOD: Final = Pick(("SENSE(OOD)",), "sen", "soft_gated", "ood")
SENSE_ID: Final = Pick(("SENSE(ID)",), "sen", "soft_gated", "id")
WITHOUT_SEN: Final = {"drafter.require_hit": True}

TABLE_1: Final = Comparison(
    "table1",
    "Training-free methods: speedup over plain decoding and τ",
    ("Method",),
    [
        Pick(("SpS",), "sps"),
        Pick(("PLD",), "pld"),
        Pick(("REST(OOD)",), "rest", store="ood"),
        Pick(("REST(ID)",), "rest", store="id"),
        Pick(("DReSD(OOD)",), "dresd", store="ood"),
        Pick(("DReSD(ID)",), "dresd", store="id"),
        SENSE_OOD,
        SENSE_ID,
    ],
    notes=[TAU_NOTE, MEAN_NOTE],
)

TABLE_2: Final = Comparison(
    "table2",
    "Training-based methods and SENSE: speedup over plain decoding and τ",
    ("Method",),
    [Pick(("EAGLE-2",), "eagle2"), Pick(("EAGLE-3",), "eagle3"), SENSE_ID],
    sets=("gsm8k", "codealpaca"),
    notes=[TAU_NOTE, "Mean: over both sets, and only where both are there."],
)

TABLE_3: Final = Comparison(
    "table3",
    "Ablation of SENSE: w/o SEN only candidates that begin with the target's own token, w/o SE exact verification",
    ("Store", "Method"),
    [
        pick
        for store in ("ood", "id")
        for pick in (
            Pick((store.upper(), "SENSE"), "sen", "soft_gated", store),
            Pick((store.upper(), "w/o SEN"), "sen", "soft_gated", store, WITHOUT_SEN),
            Pick((store.upper(), "w/o SE"), "sen", "exact", store),
        )
    ],
    notes=[TAU_NOTE, f"{MEAN_NOTE} The paper's table has no such column."],
)

TABLE_4: Final = Comparison(
    "table4",
    "Verification methods over the drafts of SEN, ID store: speedup over plain decoding and τ",
    ("Verifier",),
    [
        Pick(("ARC",), "sen", "arc", "id"),
        Pick(("FLy",), "sen", "fly", "id"),
        Pick(("SE",), "sen", "soft_gated", "id"),
    ],
    notes=[TAU_NOTE, MEAN_NOTE],
)
