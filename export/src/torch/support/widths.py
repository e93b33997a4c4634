def equal_widths(axis, size, padded):
    """The width of the chunks of every row: as equal as possible for the longest row of the batch, as the published code cuts."""
    longest = [max(padded, n) for n in axis.lengths]
    return [-(-n // -(-n // size)) for n in longest]
