def tied_dropout(x, p, axis):
    """Dropout of whole channels of a row."""
    return x * F.dropout(x.new_ones(len(axis.lengths), x.shape[-1]), p)[axis.row]
