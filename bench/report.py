"""Print bench.json as the Markdown table of docs/performance.md."""

from __future__ import annotations

import json

from bench.place import ROOT

MET = {True: "met", False: "**missed**", None: ""}


def main() -> None:
    """Print one row per figure."""
    print("| figure | measured | goal | |\n|---|---:|---:|---|")
    for row in json.loads((ROOT / "bench.json").read_text()):
        goal = "" if row["goal"] is None else f"≤ {row['goal']:.3g} {row['unit']}"
        value = f"{row['value']:.4g} {row['unit']}"
        print(f"| {row['name']} | {value} | {goal} | {MET[row['met']]} |")


if __name__ == "__main__":
    main()
