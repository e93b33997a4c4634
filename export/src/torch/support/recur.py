class Recurrence:
    """A loop over depth, of which rows leave: with the state before a step that they do not take, or when their bound is reached.

    `state` and `captured` are lists of a value and the axis along which it is packed (see Rows.part).
    """

    def __init__(self, rows, state, captured=()):
        self.entered, self.rows, self.captured = rows, rows, list(captured)
        self.state, self.axes = [x for x, _ in state], [axis for _, axis in state]
        self.going = list(range(rows.count))
        self.order, self.left = [], []

    def steps(self, bound):
        """Counts the steps: `bound` of them at most, for all rows or for each one."""
        bounds = [bound] * self.entered.count if isinstance(bound, int) else bound
        for step in range(max(bounds)):
            self.keep([n for n, row in enumerate(self.going) if bounds[row] > step])
            if not self.going:
                return
            yield step

    def next(self, *state, go=None):
        """Goes on with the state after a step, for the rows that take it."""
        taking = list(range(self.rows.count)) if go is None else go.nonzero().flatten().tolist()
        if len(taking) < self.rows.count:
            state = [self.rows.part(x, axis, taking) for x, axis in zip(state, self.axes)]
            self.keep(taking)
        self.state = list(state)

    def keep(self, rows):
        """The others leave."""
        if len(rows) == self.rows.count:
            return
        kept = set(rows)
        leaving = [n for n in range(self.rows.count) if n not in kept]
        self.order += [self.going[n] for n in leaving]
        self.left.append([self.rows.part(x, axis, leaving) for x, axis in zip(self.state, self.axes)])
        self.state = [self.rows.part(x, axis, rows) for x, axis in zip(self.state, self.axes)]
        self.captured = self.rows.parts(self.captured, rows)
        self.rows, self.going = self.rows.take(rows), [self.going[n] for n in rows]

    def seen(self):
        """The captured values of the rows that go on."""
        return [x for x, _ in self.captured]

    def end(self):
        """The state of all rows that entered, in their order."""
        if not self.left:
            return self.state
        order = self.order + self.going
        places = [order.index(row) for row in range(len(order))]
        packed, pieces = self.entered.take(order), [*self.left, self.state]
        return [packed.part(torch.cat(column), axis, places) for column, axis in zip(zip(*pieces), self.axes)]
