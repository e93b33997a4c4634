//! A square picture to draw on, with the coverage of every pixel by samples.

/// Samples per pixel in each direction.
const SAMPLES: usize = 3;

/// A point; pixel (x, y) covers x to x + 1 and y to y + 1.
pub(super) type CanvasPoint = (f64, f64);

/// Coverage per pixel, 0 to 1, row by row.
pub(super) struct Canvas {
    side: usize,
    coverage: Vec<f64>,
}

impl Canvas {
    /// An empty canvas.
    pub(super) fn new(side: usize) -> Self {
        Self { side, coverage: vec![0.0; side * side] }
    }

    /// Covers what is `inside`, which lies within `reach` of a point.
    pub(super) fn fill(&mut self, (x, y): CanvasPoint, reach: f64, inside: impl Fn(CanvasPoint) -> bool) {
        let range = |centre: f64| {
            let at = |position: f64| position.floor().clamp(0.0, self.side as f64) as usize;
            at(centre - reach)..at(centre + reach + 1.0)
        };
        let part = |n: usize| (n as f64 + 0.5) / SAMPLES as f64;
        for row in range(y) {
            for column in range(x) {
                let samples = (0..SAMPLES * SAMPLES).map(|n| (part(n % SAMPLES), part(n / SAMPLES)));
                let covered = samples.filter(|(dx, dy)| inside((column as f64 + dx, row as f64 + dy))).count();
                let pixel = &mut self.coverage[row * self.side + column];
                *pixel = pixel.max(covered as f64 / (SAMPLES * SAMPLES) as f64);
            }
        }
    }

    /// Covers a stroke of the given thickness.
    pub(super) fn stroke(&mut self, from: CanvasPoint, to: CanvasPoint, thickness: f64) {
        let middle = ((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0);
        let reach = distance(from, to) / 2.0 + thickness;
        self.fill(middle, reach, |point| to_stroke(point, from, to) <= thickness / 2.0);
    }

    /// Covers a disc.
    pub(super) fn disc(&mut self, centre: CanvasPoint, radius: f64) {
        self.fill(centre, radius, |point| distance(point, centre) <= radius);
    }

    /// The grey levels from `empty` to `full`.
    pub(super) fn levels(&self, empty: f64, full: f64) -> Vec<f64> {
        self.coverage.iter().map(|share| empty + share * (full - empty)).collect()
    }
}

/// How far two points are apart.
pub(super) fn distance(a: CanvasPoint, b: CanvasPoint) -> f64 {
    (a.0 - b.0).hypot(a.1 - b.1)
}

/// How far a point is from the stroke between two others.
fn to_stroke(point: CanvasPoint, from: CanvasPoint, to: CanvasPoint) -> f64 {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx * dx + dy * dy;
    let along = if length == 0.0 { 0.0 } else { ((point.0 - from.0) * dx + (point.1 - from.1) * dy) / length };
    let along = along.clamp(0.0, 1.0);
    distance(point, (from.0 + along * dx, from.1 + along * dy))
}
