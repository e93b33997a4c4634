#!/usr/bin/env python3
"""What data parallel training gives on many ranks, by a model of two parts: measured times of micro-batches, and a network in which a
message of n bytes takes alpha + n / beta seconds. Prints the tables of docs/lab/data_parallel.md. Needs nothing but Python.

    tests/rank_model.py [--alpha SECONDS] [--beta BYTES_PER_SECOND] [--seed N]
"""

import argparse
import random

# Seconds of a training step on one core of an AMD EPYC (Zen 5), from docs/lab/performance.md; rows of its batch; parameters by `rtc cost`.
# Those at 2,048 are scaled from 512: 16 times the operations.
MODELS = {
    "gut, 128": (0.512, 32, 0.38e6),
    "gutlb, 128": (0.301, 32, 0.65e6),
    "gut, 512": (0.802, 8, 3.94e6),
    "gutlb, 512": (0.680, 8, 7.10e6),
    "gut, 2,048 (scaled)": (0.802 * 16, 8, 62.9e6),
    "gutlb, 2,048 (scaled)": (0.680 * 16, 8, 113e6),
}
RANKS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]


def exchange(ranks, parameters, alpha, beta):
    """Seconds of the sum: two exchanges of a slice with every other rank, as runtime/train/src/ranks/sum.rs makes them, and the commands and
    answers of rank 0, which sends to each rank in turn: two of each for every update."""
    if ranks == 1:
        return 0.0
    slices = 2 * (ranks - 1) * (alpha + 4 * parameters / ranks / beta)
    return slices + 4 * (ranks - 1) * alpha


def scaling(alpha, beta):
    print("Updates per second where every rank has a micro-batch of the size that was measured, so that the batch grows with the ranks, and the")
    print("share of the time that is not the exchange:\n")
    print("| ranks | " + " | ".join(MODELS) + " |")
    print("|---|" + "---|" * len(MODELS))
    for ranks in RANKS:
        cells = []
        for step, _, parameters in MODELS.values():
            whole = step + exchange(ranks, parameters, alpha, beta)
            cells.append(f"{1 / whole:.3g} ({100 * step / whole:.1f} %)")
        print(f"| {ranks:,} | " + " | ".join(cells) + " |")
    print("\nOne batch of the size that was measured, shared by the ranks down to a row for each: times as fast as one rank. Smaller batches are taken to")
    print("cost no more per row, which is not so for few rows:\n")
    print("| ranks | " + " | ".join(MODELS) + " |")
    print("|---|" + "---|" * len(MODELS))
    for ranks in RANKS[:6]:
        cells = []
        for step, rows, parameters in MODELS.values():
            if ranks > rows:
                cells.append("-")
                continue
            cells.append(f"{step / (step / ranks + exchange(ranks, parameters, alpha, beta)):.2f}")
        print(f"| {ranks} | " + " | ".join(cells) + " |")


def rows_of(draw, rows):
    """Lengths of a batch, and the steps that each of its rows takes. Lengths are spread as those of ListOps, steps around a mean that grows
    slowly with the length."""
    lengths = [round(10 ** draw.uniform(1.0, 2.0)) for _ in range(rows)]
    steps = [max(1, min(20, draw.gauss(3 + 0.05 * length, 2))) for length in lengths]
    return lengths, steps


def contiguous(order, parts):
    rows = -(-len(order) // parts)
    return [order[at : at + rows] for at in range(0, len(order), rows)]


def small(order, parts, lengths):
    """Micro-batches of 4 rows, dealt to neighbouring ranks by their tokens, as runtime/exec/src/gradient_tree.rs does."""
    batches = [order[at : at + 4] for at in range(0, len(order), 4)]
    costs = [sum(lengths[row] for row in batch) for batch in batches]
    whole, at, spent, dealt = sum(costs), 0, 0, []
    for part in range(parts):
        start, share = at, whole * (part + 1)
        while at < len(costs) and (part + 1 == parts or abs((spent + costs[at]) * parts - share) <= abs(spent * parts - share)):
            spent, at = spent + costs[at], at + 1
        dealt.append([row for batch in batches[start:at] for row in batch])
    return dealt


def snake(order, parts):
    dealt = [[] for _ in range(parts)]
    for place, row in enumerate(order):
        turn, at = divmod(place, parts)
        dealt[at if turn % 2 == 0 else parts - 1 - at].append(row)
    return dealt


def imbalance(parts, cost):
    sums = [sum(cost[row] for row in part) for part in parts]
    return max(sums) / (sum(sums) / len(sums))


def halting(seed):
    rows, updates = 256, 200
    print(f"\nThe slowest rank over the mean, for {rows} rows an update, mean of {updates} updates (the cost of a row is its length times its steps):\n")
    print("| ranks | one micro-batch a rank | micro-batches of 4 rows | buckets of lengths | rows dealt by length | by length and steps |")
    print("|---|---|---|---|---|---|")
    for ranks in [2, 4, 8, 16, 32, 64]:
        draw, sums = random.Random(seed), [0.0] * 5
        for _ in range(updates):
            lengths, steps = rows_of(draw, rows)
            cost = [length * step for length, step in zip(lengths, steps)]
            by_length = sorted(range(rows), key=lambda row: -lengths[row])
            by_cost = sorted(range(rows), key=lambda row: -cost[row])
            # With buckets a batch has rows of like lengths: here a band of a tenth.
            like = [50 * draw.uniform(0.95, 1.05) * step for step in steps]
            found = [
                imbalance(contiguous(list(range(rows)), ranks), cost),
                imbalance(small(list(range(rows)), ranks, lengths), cost),
                imbalance(contiguous(list(range(rows)), ranks), like),
                imbalance(snake(by_length, ranks), cost),
                imbalance(snake(by_cost, ranks), cost),
            ]
            sums = [total + one for total, one in zip(sums, found)]
        print(f"| {ranks} | " + " | ".join(f"{total / updates:.2f}" for total in sums) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alpha", type=float, default=2e-6, help="seconds of a message without content")
    parser.add_argument("--beta", type=float, default=1.25e10, help="bytes per second of a link: 1.25e10 is 100 Gbit/s")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"A message takes {options.alpha:g} s and a second for every {options.beta:g} bytes.\n")
    scaling(options.alpha, options.beta)
    halting(options.seed)


if __name__ == "__main__":
    main()
