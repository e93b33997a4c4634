//! Image: what a small picture shows, pixel by pixel (the Long Range Arena's use of CIFAR-10, Krizhevsky 2009, in grey).
//!
//! Without files pictures are drawn: one of ten shapes, of any size, place, turn and contrast, under noise.

use std::io::Read;
use std::path::Path;

use super::canvas::{Canvas, CanvasPoint};
use super::picture::{self, grey};
use super::{Belongs, generate};
use crate::error::DataError;
use crate::files::open::open;
use crate::held::joined;
use crate::pool::ExampleShare;
use crate::reading::{find, nothing_published, unreadable};
use crate::{
    DataFolder, Example, GenerationRequest, Objective, OptionField, Options, Split, Task, TaskDescription, option,
    split,
};
use rtc_base::rng::Draws;

/// The task.
pub struct Image;

#[rustfmt::skip]
const SPLITS: [Split; 3] = [
    split("train", "pictures", 45_000, &[]),
    split("dev", "for early stopping; of the CIFAR-10 folder the last tenth of its training pictures", 5_000, &[]),
    split("test", "other pictures", 10_000, &["test_batch.bin"]),
];

const SHARES: &[(&str, ExampleShare)] = &[("train", (0.0, 0.7)), ("dev", (0.7, 0.8)), ("test", (0.8, 1.0))];

const OPTIONS: [OptionField; 1] =
    [option("side", 32, 8, 128, "pixels of a side; the pictures of CIFAR-10 have 32 and are cut to the middle")];

/// What a drawn picture may show.
const SHAPES: [&str; 10] =
    ["disc", "ring", "square", "frame", "triangle", "plus", "bars", "two discs", "half disc", "corner"];

/// Side of a picture of CIFAR-10.
const CIFAR_SIDE: usize = 32;
const PLANE: usize = CIFAR_SIDE * CIFAR_SIDE;
/// Bytes of a picture in a file: the class, and a plane each of red, green and blue.
const ROW: usize = 1 + 3 * PLANE;
const CIFAR_FILES: [&str; 5] =
    ["data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"];
/// More bytes than any of the files has: six times the six of them together.
const MAX_BYTES: u64 = 1 << 30;

/// Whether a point of the unit disc belongs to a shape.
fn shows(class: usize, (x, y): CanvasPoint) -> bool {
    let radius = x.hypot(y);
    let within = |half: f64| x.abs() <= half && y.abs() <= half;
    match SHAPES[class] {
        "disc" => radius <= 0.9,
        "ring" => (0.6..=0.95).contains(&radius),
        "square" => within(0.7),
        "frame" => within(0.75) && !within(0.45),
        "triangle" => y <= 0.5 && y >= 1.7 * x.abs() - 0.9,
        "plus" => within(0.9) && (x.abs() <= 0.22 || y.abs() <= 0.22),
        "bars" => within(0.8) && ((x + 0.8) / 0.4).floor() as i64 % 2 == 0,
        "two discs" => (x.abs() - 0.5).hypot(y) <= 0.38,
        "half disc" => radius <= 0.95 && y >= 0.0,
        _ => within(0.75) && (x <= -0.3 || y >= 0.3),
    }
}

/// So often the noise of a picture is drawn anew before the picture belongs to its split.
const ATTEMPTS: usize = 100;

/// A picture of `side` times `side` pixels with its class.
fn drawn(side: usize, draws: &mut Draws, belongs: Belongs<'_>) -> Option<Example> {
    let class = draws.below(SHAPES.len() as u64) as usize;
    let mut between = |low: f64, high: f64| low + (high - low) * draws.uniform();
    let radius = side as f64 * between(0.25, 0.45);
    let centre = (between(radius, side as f64 - radius), between(radius, side as f64 - radius));
    let (sine, cosine) = between(-0.35, 0.35).sin_cos();
    let (dark, light) = (between(0.0, 90.0), between(150.0, 255.0));
    let (empty, full) = if between(0.0, 1.0) < 0.5 { (dark, light) } else { (light, dark) };
    let mut canvas = Canvas::new(side);
    canvas.fill(centre, 1.5 * radius, |(x, y)| {
        let (x, y) = ((x - centre.0) / radius, (y - centre.1) / radius);
        shows(class, (cosine * x + sine * y, cosine * y - sine * x))
    });
    let levels = canvas.levels(empty, full);
    let mut noisy = |level: &f64| (level + between(-20.0, 20.0)).round().clamp(0.0, 255.0) as u32;
    let pixels =
        (0..ATTEMPTS).map(|_| levels.iter().map(&mut noisy).collect::<Vec<u32>>()).find(|pixels| belongs(pixels));
    Some(Example::classified(pixels?, class as u32))
}

/// The middle of a picture of CIFAR-10 in grey.
fn example(row: &[u8], side: usize) -> Result<Example, String> {
    let class = row[0];
    if class > 9 {
        return Err(format!("the class is {class}, and there are ten from 0"));
    }
    let pixel = |at: usize| grey(row[1 + at], row[1 + PLANE + at], row[1 + 2 * PLANE + at]);
    let from = (CIFAR_SIDE - side) / 2;
    let places = (from..from + side).flat_map(|y| (from..from + side).map(move |x| y * CIFAR_SIDE + x));
    Ok(Example::classified(places.map(pixel).collect(), u32::from(class)))
}

impl Task for Image {
    fn about(&self) -> TaskDescription {
        TaskDescription {
            name: "image",
            doc: "what a small grey picture shows, pixel by pixel (Long Range Arena)",
            source: "Tay et al. 2021 (Long Range Arena), arXiv:2011.04006; pictures: Krizhevsky 2009 (CIFAR-10)",
            objective: Objective::Classify,
            options: &OPTIONS,
            splits: &SPLITS,
            metrics: &[],
        }
    }

    fn vocabulary(&self, _options: &Options) -> Vec<String> {
        picture::names()
    }

    /// The classes of CIFAR-10 by number; drawn shapes take them in the order of their list.
    fn classes(&self, _options: &Options) -> Vec<String> {
        (0..10).map(|class: u32| class.to_string()).collect()
    }

    fn generate(&self, request: &GenerationRequest<'_>) -> Result<Vec<Example>, DataError> {
        let side = request.options.get("side") as usize;
        generate(self, request, SHARES, |draws, belongs| drawn(side, draws, belongs))
    }

    /// A file of the binary version of CIFAR-10: 3,073 bytes per picture.
    fn read(&self, path: &Path, options: &Options) -> Result<Vec<Example>, DataError> {
        let side = options.get("side") as usize;
        if side > CIFAR_SIDE {
            return Err(unreadable(
                path,
                format!("its pictures have 32 pixels a side, and the task option `side` is {side}"),
            ));
        }
        let mut bytes = Vec::new();
        let read = open(path)?.take(MAX_BYTES).read_to_end(&mut bytes);
        read.map_err(|error| unreadable(path, error))?;
        if !bytes.len().is_multiple_of(ROW) {
            let left = bytes.len() % ROW;
            return Err(unreadable(
                path,
                format!("a picture has {ROW} bytes, and after {} of them {left} are left over", bytes.len() / ROW),
            ));
        }
        let rows = bytes.chunks_exact(ROW).enumerate();
        rows.map(|(n, row)| example(row, side).map_err(|why| unreadable(path, format!("picture {}: {why}", n + 1))))
            .collect()
    }

    fn read_folder(&self, folder: &DataFolder<'_>) -> Result<Option<Vec<Example>>, DataError> {
        let test = find(folder.path, SPLITS[2].files);
        if folder.split == "test" && test.is_some() {
            return test.map(|path| self.read(&path, folder.options)).transpose();
        }
        if CIFAR_FILES.iter().all(|file| find(folder.path, &[file]).is_none()) {
            return if test.is_some() { Ok(None) } else { Err(nothing_published(folder.path, "data_batch_1.bin")) };
        }
        if folder.split == "test" {
            return Ok(None);
        }
        let mut rows = joined(folder.path, CIFAR_FILES, |path| self.read(path, folder.options))?;
        let dev = rows.split_off(rows.len() - rows.len() / 10);
        Ok(Some(if folder.split == "dev" { dev } else { rows }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ExampleTarget;
    use rtc_base::rng::Key;

    #[test]
    fn shapes_differ_and_fill_a_part_of_the_picture() {
        let cover = |class| -> Vec<bool> {
            let at = |n: usize| ((n % 40) as f64 / 20.0 - 1.0, (n / 40) as f64 / 20.0 - 1.0);
            (0..1600).map(|n| shows(class, at(n))).collect()
        };
        let covers: Vec<Vec<bool>> = (0..SHAPES.len()).map(cover).collect();
        for (n, cover) in covers.iter().enumerate() {
            let share = cover.iter().filter(|covered| **covered).count() as f64 / 1600.0;
            assert!((0.1..0.75).contains(&share), "{}: {share}", SHAPES[n]);
            for other in &covers[..n] {
                assert!(cover.iter().zip(other).filter(|(a, b)| a != b).count() > 60, "{}", SHAPES[n]);
            }
        }
    }

    #[test]
    fn drawn_pictures_use_all_classes_and_levels_in_range() {
        let found: Vec<Example> =
            (0..300).map(|n| drawn(16, &mut Key::new(1).at(n).draws(), &|_| true).expect("it belongs")).collect();
        assert!(found.iter().all(|example| example.tokens.len() == 256 && example.tokens.iter().all(|t| *t < 256)));
        assert!((0..10).all(|class| found.iter().any(|example| example.label == ExampleTarget::Class(class))));
    }
}
