class ChosenAxis(Axis):
    """Positions that a choice has left of every row: the place of each in the row, its index among those it was chosen of, and the
    positions of every row."""

    def __init__(self, lengths, device, origins, place, of, part):
        super().__init__(lengths, device, origins)
        self.place, self.of, self.part = place, of, part

    def take(self, rows):
        axis, kept = super().take(rows), self.places(rows)
        return ChosenAxis(axis.lengths, self.device, axis.origins, self.place[kept], self.of[kept], self.part[rows])

    def at_places(self, x):
        """x of the chosen positions at their places in rows, [rows, longest, ..], and 0 between them."""
        whole = x.new_zeros(len(self.lengths), int(self.part.max()), *x.shape[1:])
        return whole.index_put((self.row, self.place), x)

    def past(self, j):
        """Which keys j of whole rows stand at or before every chosen position: [rows, 1, longest, keys]."""
        return j <= self.pad(self.of)[:, None, :, None]

    def spread(self):
        """The same positions, which count as they stand in the row."""
        axis = Axis(self.lengths, self.device, self.origins)
        axis.position = self.place
        return axis


class Chosen:
    """What is computed for the chosen positions of every row alone: those where the first sequence is not 0. A row of which nothing is
    chosen takes no part, and outputs of these `shapes` are 0 at all other positions."""

    def __init__(self, rows, over, axis, shapes, sequences, captured=()):
        self.entered, self.over, self.axis, self.shapes = rows, rows[over], axis, shapes
        self.sequences, self.captured = [x for x, _ in sequences], list(captured)
        self.places = self.sequences[0].nonzero().flatten()
        self.outputs = [self.sequences[0].new_zeros(0, *shape) for shape in shapes]

    def __iter__(self):
        """Once, if anything is chosen: the rows that take part, their slices of the sequences, and what is captured."""
        counts = torch.bincount(self.over.row[self.places], minlength=self.entered.count).tolist()
        present = [r for r, n in enumerate(counts) if n]
        if present:
            of = self.over.position[self.places]
            place = getattr(self.over, "place", self.over.position)[self.places]
            lengths, origins = [counts[r] for r in present], [self.over.origins[r] for r in present]
            part = getattr(self.over, "part", self.over.length)[present]
            axis = ChosenAxis(lengths, self.over.device, origins, place, of, part)
            rows = self.entered.take(present, **{self.axis: axis})
            slices = [x[self.places] for x in self.sequences]
            yield rows, *slices, *[x for x, _ in self.entered.parts(self.captured, present)]

    def next(self, *outputs):
        """Takes the outputs of the chosen positions."""
        self.outputs = outputs

    def end(self):
        """The outputs of all positions."""
        whole = [self.sequences[0].new_zeros(self.over.starts[-1], *shape) for shape in self.shapes]
        return [x.index_copy(0, self.places, output) for x, output in zip(whole, self.outputs)]
