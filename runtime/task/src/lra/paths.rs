//! Pictures of dashed paths: two long ones, short ones between them, and a dot at two ends (Linsley et al. 2018).

use super::canvas::{Canvas, CanvasPoint};
use rtc_base::rng::Draws;

/// Length of a dash and of the gap behind it, in pixels.
const DASH: f64 = 1.8;
const GAP: f64 = 0.9;
const THICKNESS: f64 = 0.9;
const DOT: f64 = 1.7;
/// The largest turn between two dashes, in radians; where there is no room it grows up to twice as large.
const TURN: f64 = 0.7;
/// How close dashes of different paths, or of different parts of one, may come.
const CLEARANCE: f64 = 2.2;
/// How close to the edge a dash may come.
const MARGIN: f64 = 1.5;
/// How often a dash, and a path, is tried anew.
const DASH_TRIES: usize = 12;
const PATH_TRIES: usize = 300;

/// The parts of a picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct PictureLayout {
    /// Pixels of a side.
    pub(super) side: usize,
    /// Dashes of each of the two long paths.
    pub(super) dashes: usize,
    /// Number of short paths, with a third of the dashes.
    pub(super) distractors: usize,
}

/// A path: the ends of its dashes in order.
#[derive(Clone, Debug)]
pub(super) struct Trail(pub(super) Vec<(CanvasPoint, CanvasPoint)>);

impl Trail {
    fn ends(&self) -> Option<(CanvasPoint, CanvasPoint)> {
        Some((self.0.first()?.0, self.0.last()?.1))
    }
}

/// A picture before it is painted.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    /// The two long paths, then the short ones.
    pub(super) trails: Vec<Trail>,
    /// The two dots.
    pub(super) dots: [CanvasPoint; 2],
}

/// Places the paths of a picture whose dots are `connected` by one of them, or stand at one end each of both. Nothing if no
/// place is found for one of them.
pub(super) fn scene(layout: PictureLayout, connected: bool, draws: &mut Draws) -> Option<Scene> {
    let mut trails: Vec<Trail> = vec![];
    for n in 0..2 + layout.distractors {
        let dashes = if n < 2 { layout.dashes } else { (layout.dashes / 3).max(1) };
        let found = (0..PATH_TRIES).find_map(|_| trail(layout.side, dashes, &trails, draws))?;
        trails.push(found);
    }
    let ((a, b), (c, d)) = (trails[0].ends()?, trails[1].ends()?);
    let either = draws.below(2) == 0;
    let dots = match connected {
        true => [a, b],
        false => [if either { a } else { b }, if draws.below(2) == 0 { c } else { d }],
    };
    Some(Scene { trails, dots })
}

fn trail(side: usize, dashes: usize, others: &[Trail], draws: &mut Draws) -> Option<Trail> {
    let room = side as f64 - 2.0 * MARGIN;
    let mut at = (MARGIN + room * draws.uniform(), MARGIN + room * draws.uniform());
    let mut heading = std::f64::consts::TAU * draws.uniform();
    let mut own: Vec<(CanvasPoint, CanvasPoint)> = Vec::with_capacity(dashes);
    for _ in 0..dashes {
        let step = (0..DASH_TRIES).find_map(|n| {
            let turn = TURN * (1.0 + n as f64 / DASH_TRIES as f64);
            let heading = heading + turn * (2.0 * draws.uniform() - 1.0);
            let (sine, cosine) = heading.sin_cos();
            let to = (at.0 + DASH * cosine, at.1 + DASH * sine);
            let inside = |x: f64| (MARGIN..=side as f64 - MARGIN).contains(&x);
            // The dash before this one is close by its nature.
            let earlier = &own[..own.len().saturating_sub(1)];
            let rest = others.iter().flat_map(|trail| &trail.0).chain(earlier);
            (inside(to.0) && inside(to.1) && !near(rest, at, to)).then_some((heading, to))
        });
        let (turned, to) = step?;
        own.push((at, to));
        heading = turned;
        at = (to.0 + GAP * heading.cos(), to.1 + GAP * heading.sin());
    }
    Some(Trail(own))
}

/// Whether a dash comes too close to one of the others. Dashes are short, so ends and middles decide.
fn near<'a>(
    mut others: impl Iterator<Item = &'a (CanvasPoint, CanvasPoint)>,
    from: CanvasPoint,
    to: CanvasPoint,
) -> bool {
    let middle = |(a, b): (CanvasPoint, CanvasPoint)| ((a.0 + b.0) / 2.0, (a.1 + b.1) / 2.0);
    let within = |p: CanvasPoint, q: CanvasPoint, reach: f64| (p.0 - q.0).powi(2) + (p.1 - q.1).powi(2) < reach * reach;
    let own = [from, middle((from, to)), to];
    others.any(|other| {
        let points = [other.0, middle(*other), other.1];
        // Most are so far away that their middles decide: no end is further from its middle than half a dash.
        within(points[1], own[1], CLEARANCE + DASH)
            && points.iter().any(|p| own.iter().any(|q| within(*p, *q, CLEARANCE)))
    })
}

/// How much of every pixel of a picture is covered.
pub(super) fn paint(scene: &Scene, side: usize) -> Vec<f64> {
    let mut canvas = Canvas::new(side);
    for (from, to) in scene.trails.iter().flat_map(|trail| &trail.0) {
        canvas.stroke(*from, *to, THICKNESS);
    }
    for dot in scene.dots {
        canvas.disc(dot, DOT);
    }
    canvas.levels(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lra::canvas::distance;
    use rtc_base::rng::Key;

    /// Whether the dots are connected, from the dashes alone: dashes follow on each other where a gap ends.
    fn connected(scene: &Scene) -> bool {
        let dashes: Vec<(CanvasPoint, CanvasPoint)> = scene.trails.iter().flat_map(|trail| trail.0.clone()).collect();
        let touches =
            |a: &(CanvasPoint, CanvasPoint), b: &(CanvasPoint, CanvasPoint)| (distance(a.1, b.0) - GAP).abs() < 1e-9;
        let mut reached: Vec<usize> =
            (0..dashes.len()).filter(|n| dashes[*n].0 == scene.dots[0] || dashes[*n].1 == scene.dots[0]).collect();
        let mut next = 0;
        while next < reached.len() {
            let dash = &dashes[reached[next]];
            next += 1;
            for (n, other) in dashes.iter().enumerate() {
                if !reached.contains(&n) && (touches(dash, other) || touches(other, dash)) {
                    reached.push(n);
                }
            }
        }
        reached.iter().any(|n| dashes[*n].0 == scene.dots[1] || dashes[*n].1 == scene.dots[1])
    }

    #[test]
    fn dots_are_connected_when_they_should_be_and_paths_keep_apart() {
        let layout = PictureLayout { side: 32, dashes: 14, distractors: 4 };
        let mut found = [0, 0];
        for n in 0..200 {
            let wanted = n % 2 == 0;
            let Some(scene) = scene(layout, wanted, &mut Key::new(5).at(n).draws()) else { continue };
            assert_eq!(connected(&scene), wanted);
            found[usize::from(wanted)] += 1;
            for (n, trail) in scene.trails.iter().enumerate() {
                assert_eq!(trail.0.len(), if n < 2 { 14 } else { 4 });
                for (from, to) in &trail.0 {
                    let others = scene.trails[..n].iter().flat_map(|other| &other.0);
                    assert!(!near(others, *from, *to));
                }
            }
            let pixels = paint(&scene, 32);
            assert!(pixels.iter().filter(|share| **share > 0.8).count() > 20);
            assert!(pixels.iter().all(|share| (0.0..=1.0).contains(share)));
        }
        assert!(found.iter().all(|count| *count > 80), "{found:?} of 100 scenes each have room");
    }
}
