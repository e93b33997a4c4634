class Axis:
    """The part of every row along one axis: row r has positions starts[r] to starts[r + 1] of a packed tensor."""

    def __init__(self, lengths, device, origins=None):
        self.lengths = lengths
        self.starts = [0, *accumulate(lengths)]
        self.origins = [0] * len(lengths) if origins is None else origins  # of the first position, in the whole row
        self.device = device

    @cached_property
    def length(self):
        return torch.tensor(self.lengths, dtype=torch.long, device=self.device)

    @cached_property
    def start(self):
        return torch.tensor(self.starts[:-1], dtype=torch.long, device=self.device)

    @cached_property
    def row(self):
        """The row of every position."""
        return torch.repeat_interleave(self.length, output_size=self.starts[-1])

    @cached_property
    def position(self):
        """The place of every position in its row."""
        return torch.arange(self.starts[-1], device=self.device) - self.start[self.row]

    @cached_property
    def exists(self):
        """[rows, longest]: where a padded tensor holds something."""
        return torch.arange(max(self.lengths), device=self.device) < self.length[:, None]

    def take(self, rows):
        return Axis([self.lengths[r] for r in rows], self.device, [self.origins[r] for r in rows])

    def places(self, rows, skip=0, lengths=None):
        """The positions of some rows, in the order of `rows`; `lengths` of them after the first `skip`."""
        lengths = [self.lengths[r] for r in rows] if lengths is None else lengths
        part = Axis(lengths, self.device)
        starts = torch.tensor([self.starts[r] + skip for r in rows], dtype=torch.long, device=self.device)
        return starts[part.row] + part.position

    def pad(self, x):
        """[total, ...] to [rows, longest, ...], with zeros where a row has ended."""
        padded = x.new_zeros(len(self.lengths), max(self.lengths), *x.shape[1:])
        return padded.index_put((self.row, self.position), x)

    def pack(self, x):
        """[rows, longest or more, ...] to [total, ...]."""
        return x[self.row, self.position]

    def sum(self, x):
        return x.new_zeros(len(self.lengths), *x.shape[1:]).index_add(0, self.row, x)

    def mean(self, x):
        return self.sum(x) / self.length.clamp(min=1).view(-1, *[1] * (x.dim() - 1))

    def any(self, x):
        return self.sum(x.long()) > 0

    def first(self, x):
        return x[self.start]

    def last(self, x):
        return x[self.start + self.length - 1]


class Rows:
    """The rows that take part at one place of the model, and their parts along every axis.

    What has a number of vectors per row is packed: the vectors of all rows lie end to end, [total, width], without padding.
    What has one vector per row is [rows, width].
    """

    def __init__(self, count, axes, device, width, depths=None):
        self.count, self.axes, self.device = count, axes, device
        self.width = width  # the longest row of the batch
        self.depths = depths

    @classmethod
    def of(cls, lengths, device, depths=None):
        return cls(len(lengths), {"length": Axis(lengths, device)}, device, max(lengths), depths)

    def __getitem__(self, name):
        """An axis; "a+2" is axis a with START and END, "prefix3+a" with three positions before it."""
        if name not in self.axes:
            first, _, behind = name.partition("+")
            count = first.removeprefix("prefix")
            more, inner = (int(count), behind) if count.isdigit() else (2, name.removesuffix("+2"))
            inner = self[inner]
            self.axes[name] = Axis([n + more for n in inner.lengths], self.device, inner.origins)
        return self.axes[name]

    def take(self, rows, **axes):
        """Some of the rows, in this order, with further axes."""
        depths = self.depths and [self.depths[r] for r in rows]
        kept = {name: axis.take(rows) for name, axis in self.axes.items()}
        return Rows(len(rows), kept | axes, self.device, self.width, depths)

    def part(self, x, axis, rows):
        """The part of x that belongs to some of the rows. x is packed along `axis`, holds one entry per row where that is
        "row", and is the same for all rows where it is None."""
        return x if axis is None else x[self.places(axis, rows)]

    def places(self, axis, rows):
        if axis == "row":
            return torch.tensor(rows, dtype=torch.long, device=self.device)
        return self[axis].places(rows)

    def parts(self, values, rows):
        return [(self.part(x, axis, rows), axis) for x, axis in values]
