class Chunk:
    """A sequence that is searched: the nodes of every beam, and the scores of the beams."""

    def __init__(self, beams, scores):
        self.beams, self.scores, self.length = beams, scores, len(beams[0])

    @property
    def size(self):
        return len(self.beams[0])

    def choose(self, search):
        """The joins of this step, as (beam, position), and with `soften` those that become one beam together."""
        if self.size == 2:
            chosen = [(beam, 0) for beam in range(len(self.beams))]
            # A short chunk puts its beams in order, so that beam 0 is the best one there, too.
            if search.cut is not None and self.length < search.cut.arity:
                order = search.ranked(self.scores, noisy=not search.soften)
                chosen, self.scores = [chosen[n] for n in order], self.scores[order]
            return chosen, []
        pairs = torch.tensor([[search.known[p] for p in zip(nodes, nodes[1:])] for nodes in self.beams])
        scores = search.scores[pairs.to(search.scores.device)].double()
        totals = self.scores[:, None] + scores.log_softmax(1)
        each = min(self.size - 1, search.width)
        found = [(b, at) for b, row in enumerate(scores) for at in search.ranked(row)[:each]]
        self.scores = totals[[b for b, _ in found], [at for _, at in found]]
        if len(found) <= search.width:
            return found, []
        order = search.ranked(self.scores, noisy=not search.soften)
        self.scores, found = self.scores[order], [found[n] for n in order]
        kept = search.width - 1 if search.soften else search.width
        if not search.soften:
            self.scores = self.scores[:kept]
        return found[:kept], found[kept:] if search.soften else []

    def advance(self, search, joins, soft, joined):
        """Puts the new nodes in the place of the pairs that they were made of."""
        beams = []
        for beam, at in joins:
            nodes = self.beams[beam]
            beams.append([*nodes[:at], next(joined), *nodes[at + 2 :]])
        if soft:
            beams.append(self.softened(search, soft, self.scores[len(joins) :]))
            tail = self.scores[len(joins) :]
            self.scores = torch.cat([self.scores[: len(joins)], (tail.softmax(0) * tail).sum()[None]])
        self.beams = beams

    def softened(self, search, soft, scores):
        """One beam for all joins in `soft`: with s_i their share at position i, cum its running sum, P the mean of the parents over
        the beams and O that of the nodes, the new node at i is s_i P_i + (1 - cum_i) O_i + (cum_i - s_i) O_(i + 1)."""
        share = scores.softmax(0)
        beam, at = (torch.tensor(column, device=scores.device) for column in zip(*soft))
        of_beam = scores.new_zeros(len(self.beams)).index_add(0, beam, share)
        s = scores.new_zeros(self.size - 1).index_add(0, at, share)
        of_beam, s, cum = (x.to(search.nodes.dtype) for x in (of_beam, s, s.cumsum(0)))
        old = torch.einsum("b,bnd->nd", of_beam, search.nodes[torch.tensor(self.beams)])
        parents = torch.tensor([[search.parents[p] for p in zip(nodes, nodes[1:])] for nodes in self.beams])
        new = torch.einsum("b,bnd->nd", of_beam, search.nodes[parents])
        mixed = s[:, None] * new + (1 - cum)[:, None] * old[:-1] + (cum - s)[:, None] * old[1:]
        # Where all beams have the same node outside of the joins, it stays that node.
        first, last, taking = min(at for _, at in soft), max(at for _, at in soft), {beam for beam, _ in soft}
        nodes, blends = [], []
        for n in range(self.size - 1):
            there = {self.beams[beam][n if n < first else n + 1] for beam in taking}
            if len(there) == 1 and not first <= n <= last:
                nodes.append(there.pop())
            else:
                nodes.append(len(search.owner) + len(blends))
                blends.append(n)
        search.append(mixed[blends], [search.owner[self.beams[0][0]]] * len(blends))
        return nodes


class Beam:
    """A search over binary trees: joins neighbours of a row until one node is left, keeps the `width` best ways of doing so, the
    beams, and gives the mean of their roots by the softmax of their scores (arXiv 2305.19999, 2307.10779).

    `join` makes a node of two, and numbers whose means are results, too; `score` says how good it is to join two. Both see a
    pair as a row. With `every` all neighbours are joined before they are scored; with `soften` what there is no beam for becomes
    one beam of means. With a `cut` the search runs on chunks, and then on chunks of their roots, whose beams `align` strings
    together. In training `noise` disturbs the choices, and where `fresh` every beam joins for itself, as random cells must.
    `captured` is a list of a value and the axis along which it is packed (see Rows.part).
    """

    def __init__(self, rows, nodes, over, axis, width, join, score, training, every=False, soften=False, noise=False,
                 fresh=False, cut=None, align="sampled", keep_best=True, captured=()):  # fmt: skip
        self.entered, self.nodes, self.axis, self.width = rows, nodes, axis, width
        self.join_pairs, self.score_pairs, self.captured, self.training = join, score, captured, training
        self.every, self.soften, self.noise, self.fresh = every, soften, noise and training, fresh and training
        self.cut, self.align, self.keep_best = cut, align, keep_best
        self.starts, self.owner = rows[over].starts, rows[over].row.tolist()  # of every node: its row
        outer = over.removesuffix("+2")
        self.longest = max([rows.width + len(over) - len(outer) if outer == "length" else 0, *rows[over].lengths])
        self.known, self.scores, self.unscored = {}, nodes.new_zeros(0), []  # pairs by their nodes
        self.parents = {}  # what pairs became
        self.sums, self.count = None, [0] * rows.count

    def run(self, numbers=0):
        """The root of every row, and the means of the numbers over the pairs that it joined."""
        zero = self.nodes.new_zeros(1, dtype=torch.float64)
        level = [
            [Chunk([list(range(first + start, first + end))], zero) for start, end in self.pieces(last - first)]
            for first, last in zip(self.starts, self.starts[1:])
        ]
        depth = 0
        self.search(level)
        while any(len(row) > 1 for row in level):
            level, depth = self.next_level(level, depth), depth + 1
            self.search(level)
        chunks = [chunk for (chunk,) in level]
        weights = [chunk.scores.softmax(0).to(self.nodes.dtype) for chunk in chunks]
        root = torch.stack([w @ self.nodes[[root for (root,) in chunk.beams]] for w, chunk in zip(weights, chunks)])
        count = root.new_tensor(self.count).clamp(min=1)
        return [root, *[sum / count for sum in self.sums or [root.new_zeros(len(count))] * numbers]]

    def pieces(self, length):
        """Start and end of every chunk of a row with so many elements."""
        if self.cut is None:
            return [(0, length)]
        width = self.cut.width(self.longest if self.cut.by_batch else length)
        return [(start, min(start + width, length)) for start in range(0, length, width)]

    def next_level(self, level, depth):
        """Chunks of the roots: beams are strung together as `align` says, and their scores added."""
        self.longest = -(-self.longest // self.cut.width(self.longest))
        found = []
        for row in level:
            slots = [self.slots(chunk, place, row, depth) for place, chunk in enumerate(row)]
            parts = [range(start, end) for start, end in self.pieces(len(row))]
            live = [min(len(slots[n]) for n in part) for part in parts]
            found.append([
                Chunk(
                    [[row[n].beams[slots[n][slot]][0] for n in part] for slot in range(count)],
                    torch.stack([row[n].scores[slots[n][:count]] for n in part]).sum(0),
                )
                for part, count in zip(parts, live)
            ])  # fmt: skip
        return found

    def slots(self, chunk, place, row, depth):
        """Which beams of a chunk stand in the slots of the next level."""
        live, most = len(chunk.beams), max(len(other.beams) for other in row)
        if len(row) == 1:
            return list(range(live))
        if self.align == "string":
            # A lone leaf stands in every slot: all trees over it are the same.
            return [0] * most if live == chunk.length == 1 else list(range(live))
        weights = chunk.scores.detach().softmax(0).tolist() if self.align == "sampled" else None
        drawn = [self.draw(weights, live, depth, place, slot) for slot in range(most)]
        return [0, *drawn[1:]] if self.keep_best else drawn

    def draw(self, weights, live, depth, place, slot):
        """A beam by its weight. In evaluation a draw depends on its place in the row alone, so that rows are independent."""
        bits = int(torch.randint(2**62, ())) << 2 if self.training else fixed_bits(depth, place, slot)
        if weights is None:
            return bits * live >> 64
        rest = (bits >> 11) / 2**53
        for beam, weight in enumerate(weights):
            rest -= weight
            if rest < 0:
                return beam
        return live - 1

    def search(self, level):
        """Joins in all chunks until each is one node: a step takes one pair of every beam of every chunk."""
        chunks = [chunk for row in level for chunk in row]
        while True:
            self.score_pairs_of(chunks)
            chunks = [chunk for chunk in chunks if chunk.size > 1]
            if not chunks:
                return
            choices = [chunk.choose(self) for chunk in chunks]
            pairs = [tuple(c.beams[b][at : at + 2]) for c, (joins, _) in zip(chunks, choices) for b, at in joins]
            joined = iter(self.joined(pairs))
            for chunk, (joins, soft) in zip(chunks, choices):
                chunk.advance(self, joins, soft, joined)

    def ranked(self, scores, noisy=True):
        """Places from the best to the worst; in training with noise, where wanted."""
        scores = scores.detach()
        if noisy and self.noise:
            scores = scores - (-torch.rand_like(scores).clamp(min=1e-20).log()).log()
        return scores.sort(descending=True, stable=True).indices.tolist()

    def score_pairs_of(self, chunks):
        """Scores the pairs that are new; the last two nodes are joined without a choice."""
        sought = [c for c in chunks if c.size > (1 if self.every else 2)]
        pairs = dict.fromkeys(p for c in sought for nodes in c.beams for p in zip(nodes, nodes[1:]) if p not in self.known)
        if not pairs:
            return
        self.known.update({pair: len(self.known) + n for n, pair in enumerate(pairs)})
        pairs = list(pairs)
        if self.every:
            first = len(self.owner)
            self.join(pairs)
            self.parents.update({pair: first + n for n, pair in enumerate(pairs)})
            scored = self.nodes[first:]
        else:
            scored = self.nodes[[node for pair in pairs for node in pair]]
        rows, captured = self.as_rows(pairs)
        self.scores = torch.cat([self.scores, self.score_pairs(rows, scored, *captured)])

    def joined(self, pairs):
        """The nodes that pairs become; equal pairs become one node, unless the cell is random or they were not scored."""
        new, found = [], []
        for pair in pairs:
            if pair not in self.parents:
                new.append(pair)
                found.append(len(self.owner) + len(new) - 1)
                if pair in self.known and not self.fresh:
                    self.parents[pair] = found[-1]
            else:
                found.append(self.parents[pair])
        self.join(new)
        return found

    def join(self, pairs):
        """Makes a node of every pair."""
        if not pairs:
            return
        rows, captured = self.as_rows(pairs)
        parents, *numbers = self.join_pairs(rows, self.nodes[[node for pair in pairs for node in pair]], *captured)
        owners = [self.owner[left] for left, _ in pairs]
        self.append(parents, owners)
        for row in owners:
            self.count[row] += 1
        sums = self.sums or [parents.new_zeros(self.entered.count) for _ in numbers]
        owners = torch.tensor(owners, device=parents.device)
        self.sums = [sum.index_add(0, owners, number) for sum, number in zip(sums, numbers)]

    def append(self, nodes, owners):
        self.nodes = torch.cat([self.nodes, nodes])
        self.owner += owners

    def as_rows(self, pairs):
        """Every pair as a row, and what is captured of the row that it belongs to."""
        owners = [self.owner[left] for left, _ in pairs]
        rows = self.entered.take(owners, **{self.axis: Axis([2] * len(pairs), self.nodes.device)})
        return rows, [x for x, _ in self.entered.parts(self.captured, owners)]
