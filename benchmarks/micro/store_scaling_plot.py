"""Draw how the time of a query grows with a store, from the table of `store_scaling`.

python -m benchmarks.micro.store_scaling_plot results/store_scaling.csv results/store_scaling.svg
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

LABELS = {"tokens": "suffix array", "flat": "flat", "ivf_pq": "IVF-PQ", "hnsw": "HNSW"}


def draw(table: pd.DataFrame) -> Figure:
    """Return milliseconds a query by the number of tokens; what grows like log n is a straight line on the left."""
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    for kind, rows in table.groupby("kind", sort=False):
        right.loglog(rows["tokens"], rows["query_ms"], marker="o", label=LABELS[str(kind)])
    suffixes = table[table["kind"] == "tokens"]
    left.semilogx(suffixes["tokens"], suffixes["query_ms"], marker="o")
    left.set(title="suffix array", ylim=(0, None))
    right.set_title("all, both axes logarithmic")
    right.legend()
    for axes in (left, right):
        axes.set(xlabel="tokens in the store", ylabel="ms a query, median")
        axes.grid(visible=True, alpha=0.3)
    return figure


def main() -> None:
    """Read the table and write the picture."""
    table, picture = map(Path, sys.argv[1:])
    # The same table gives the same bytes.
    mpl.rcParams["svg.hashsalt"] = "store_scaling"
    draw(pd.read_csv(table)).savefig(picture, metadata={"Date": None})


if __name__ == "__main__":
    main()
