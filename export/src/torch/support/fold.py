class Fold:
    """Chunks of every row, then chunks of their vectors, until one vector per row is left.

    Inside, a row is a chunk. `captured` is a list of a value and the axis along which it is packed (see Rows.part).
    """

    def __init__(self, rows, nodes, over, axis, cut, filled=None, captured=()):
        self.entered, self.nodes, self.cut, self.axis = rows, nodes, cut, axis
        self.filled, self.captured = filled, captured
        self.going, self.left = list(range(rows.count)), list(rows[over].lengths)
        outer = over.removesuffix("+2")
        padded = rows.width + len(over) - len(outer) if outer == "length" else 0
        self.longest = max([padded, *self.left])
        self.order, self.roots, self.sums, self.count = [], [], None, [0] * rows.count

    def levels(self):
        """For every level: all chunks of all rows, their nodes, and what is captured."""
        level = 0
        while True:
            if level > 0 or not self.cut.single:
                self.settle()
            if not self.going:
                return
            width = self.cut.width(self.longest)
            cuts = [self.cut.chunks(n, width if self.cut.by_batch else self.cut.width(n)) for n in self.left]
            self.owners = [row for row, cut in zip(self.going, cuts) for _ in cut]
            lengths = [length for cut in cuts for _, length in cut]
            axes = {self.axis: Axis(lengths, self.entered.device, [start for cut in cuts for start, _ in cut])}
            if self.filled:
                axes[self.filled] = Axis([self.cut.filled(n, level) for n in lengths], self.entered.device)
            self.left, self.longest = [len(cut) for cut in cuts], -(-self.longest // width)
            captured = [x for x, _ in self.entered.parts(self.captured, self.owners)]
            yield self.entered.take(self.owners, **axes), self.nodes, *captured
            level += 1

    def next(self, vector, *numbers):
        """Takes a vector for every chunk, and numbers whose means are results, too."""
        self.nodes = vector
        owners = torch.tensor(self.owners, device=vector.device)
        self.count = [n + self.owners.count(row) for row, n in enumerate(self.count)]
        sums = self.sums or [vector.new_zeros(self.entered.count) for _ in numbers]
        self.sums = [sum.index_add(0, owners, number) for sum, number in zip(sums, numbers)]

    def settle(self):
        """Rows with one vector left are done."""
        ends = [self.longest == 1 if self.cut.by_batch else n == 1 for n in self.left]
        if not any(ends):
            return
        axis = Axis(self.left, self.entered.device)
        done, kept = [n for n, end in enumerate(ends) if end], [n for n, end in enumerate(ends) if not end]
        self.order += [self.going[n] for n in done]
        self.roots.append(self.nodes[axis.places(done)])
        self.nodes = self.nodes[axis.places(kept)]
        self.going, self.left = [self.going[n] for n in kept], [self.left[n] for n in kept]

    def end(self, numbers=0):
        """The root of every row, and the means of the numbers over its chunks."""
        places = [self.order.index(row) for row in range(len(self.order))]
        root = torch.cat(self.roots)[places]
        count = root.new_tensor(self.count).clamp(min=1)
        return [root, *[sum / count for sum in self.sums or [root.new_zeros(len(count))] * numbers]]
