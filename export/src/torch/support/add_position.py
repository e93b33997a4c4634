def learned_positions(table, axis):
    if max(axis.lengths) > len(table):
        raise ValueError(f"a row has {max(axis.lengths)} tokens, and the model has learned {len(table)} positions")
    return table[axis.position]
