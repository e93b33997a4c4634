class Cut:
    """How a balanced fold cuts the rows of a level into chunks."""

    def __init__(self, arity, strict=False, by_batch=False, first=False, single=False, padding="none"):
        self.arity, self.strict, self.by_batch = arity, strict, by_batch
        self.first, self.single, self.padding = first, single, padding

    def width(self, length):
        """Elements of a chunk where a row has so many: the last level takes up to half a chunk more, unless that is strict."""
        return self.arity if self.strict or length >= self.arity + self.arity // 2 else max(length, 1)

    def chunks(self, length, width):
        """Start and length of every chunk of a row."""
        count = -(-length // width)
        before = count * width - length if self.first else 0
        ends = [min((n + 1) * width - before, length) for n in range(count)]
        starts = [0, *ends[:-1]]
        return [(start, end - start) for start, end in zip(starts, ends)]

    def filled(self, length, level):
        fills = self.padding == "levels" or (self.padding == "input" and level == 0)
        return max(length, self.arity) if fills else length

    def whole(self):
        """The same with one chunk for all elements of a row."""
        return Cut(2**62, self.strict, self.by_batch, self.first, self.single)
