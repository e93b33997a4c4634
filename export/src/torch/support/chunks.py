class Chunks:
    """A loop over the chunks of every row, from left to right. A row without a token in a chunk takes no part in it.

    `state`, `sequences` and `captured` are lists of a value and the axis along which it is packed (see Rows.part).
    """

    def __init__(self, rows, over, axis, widths, state, sequences, captured=()):
        self.entered, self.over, self.axis, self.widths = rows, rows[over], axis, widths
        self.state, self.axes = [x for x, _ in state], [axis for _, axis in state]
        self.sequences, self.captured = [x for x, _ in sequences], list(captured)
        self.outputs, self.places = [], []

    def __iter__(self):
        """For every chunk: the rows that take part, their state, their slices of the sequences, and what is captured."""
        chunk = 0
        while present := [r for r, n in enumerate(self.over.lengths) if chunk * self.widths[r] < n]:
            skip = [chunk * self.widths[r] for r in present]
            lengths = [min(self.widths[r], self.over.lengths[r] - start) for r, start in zip(present, skip)]
            origins = [self.over.origins[r] + start for r, start in zip(present, skip)]
            part = Axis(lengths, self.over.device, origins)
            self.rows = self.entered.take(present, **{self.axis: part})
            self.present = present
            first = torch.tensor([self.over.starts[r] + s for r, s in zip(present, skip)], device=self.over.device)
            self.places.append(first[part.row] + part.position)
            state = [self.entered.part(x, axis, present) for x, axis in zip(self.state, self.axes)]
            slices = [x[self.places[-1]] for x in self.sequences]
            yield self.rows, *state, *slices, *[x for x, _ in self.entered.parts(self.captured, present)]
            chunk += 1

    def next(self, *results):
        """Takes the state after a chunk, and the outputs of its positions."""
        state, outputs = results[: len(self.state)], results[len(self.state) :]
        whole = len(self.present) == self.entered.count
        self.state = [
            new if whole else old.index_copy(0, self.entered.places(axis, self.present), new)
            for old, new, axis in zip(self.state, state, self.axes)
        ]
        self.outputs.append(outputs)

    def end(self):
        """The state after the last chunk of every row, and the outputs of all positions."""
        order = torch.cat(self.places).argsort()
        return [*self.state, *[torch.cat(column)[order] for column in zip(*self.outputs)]]
