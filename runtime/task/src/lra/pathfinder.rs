//! Pathfinder: whether two dots are connected by a dashed path, pixel by pixel (Linsley et al. 2018, in the Long Range
//! Arena's form).
//!
//! Without files pictures are drawn with two long paths and short ones between them; the dots stand at both ends of one
//! long path, or at an end of each.

use std::path::{Path, PathBuf};

use super::paths::{PictureLayout, paint, scene};
use super::{Belongs, generate, picture};
use crate::error::DataError;
use crate::held::{HeldRow, lines};
use crate::pool::ExampleShare;
use crate::reading::{entries, nothing_published};
use crate::{
    DataFolder, Example, GenerationRequest, Objective, OptionField, Options, Split, Task, TaskDescription, option,
    split,
};
use rtc_base::rng::{Draws, Key};

/// The task.
pub struct Pathfinder;

#[rustfmt::skip]
const SPLITS: [Split; 3] = [
    split("train", "pictures", 160_000, &[]),
    split("dev", "for early stopping", 20_000, &[]),
    split("test", "other pictures", 20_000, &[]),
];

const SHARES: &[(&str, ExampleShare)] = &[("train", (0.0, 0.8)), ("dev", (0.8, 0.9)), ("test", (0.9, 1.0))];

#[rustfmt::skip]
const OPTIONS: [OptionField; 4] = [
    option("side", 32, 16, 256, "pixels of a side"),
    option("dashes", 14, 3, 100, "dashes of a drawn long path"),
    option("distractors", 4, 0, 100, "number of drawn short paths"),
    option("brightnesses", BRIGHTNESSES, 1, BRIGHTNESSES, "number of grey levels from 200 on; a drawn picture has one of them"),
];

/// The folder of the hard set in the published one, with the longest paths.
const HARD: &str = "curv_contour_length_14";

/// The grey levels of paths and dots on black: 200 and more.
const DIMMEST: u64 = 200;
const BRIGHTNESSES: u64 = 56;

/// A picture of the first random brightness with which it belongs to its split.
fn drawn(layout: PictureLayout, brightnesses: u64, draws: &mut Draws, belongs: Belongs<'_>) -> Option<Example> {
    let connected = draws.below(2) == 1;
    let coverage = paint(&scene(layout, connected, draws)?, layout.side);
    let first = draws.below(brightnesses);
    let levels = (0..brightnesses).map(|n| (DIMMEST + (first + n) % brightnesses) as f64);
    let pixels = |level: f64| coverage.iter().map(|share| (share * level).round() as u32).collect::<Vec<u32>>();
    let pixels = levels.map(pixels).find(|pixels| belongs(pixels))?;
    Some(Example::classified(pixels, u32::from(connected)))
}

/// A picture that a list names.
struct ListedPicture {
    path: PathBuf,
    class: u32,
}

impl HeldRow for ListedPicture {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.path.as_os_str().len()
    }
}

/// The pictures that a list of the published folder names: the folder, the file, a number, the class, and more.
fn listed(root: &Path, list: &Path) -> Result<Vec<ListedPicture>, DataError> {
    let row = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[folder, file, _, class, ..] = words.as_slice() else {
            return Err(format!(
                "a row has a folder, a file, a number and a class, and this one has {} words",
                words.len()
            ));
        };
        let class = match class {
            "0" => 0,
            "1" => 1,
            other => return Err(format!("the class `{other}` is neither 0 nor 1")),
        };
        let inside = |part: &str| Path::new(part).components().all(|c| matches!(c, std::path::Component::Normal(_)));
        if !inside(folder) || !inside(file) {
            return Err(format!("`{folder}/{file}` is no place inside the folder"));
        }
        Ok(ListedPicture { path: root.join(folder).join(file), class })
    };
    lines(list, |_, text| if text.trim().is_empty() { Ok(None) } else { row(text).map(Some) })
}

/// The lists of the folder by the numbers that are their names.
fn lists(root: &Path) -> Result<Vec<PathBuf>, DataError> {
    let folder = root.join("metadata");
    let mut paths = entries(&folder)?;
    paths.retain(|path| path.is_file());
    paths.sort_by_cached_key(|path| {
        let number = path.file_stem().and_then(|stem| stem.to_string_lossy().parse::<u64>().ok());
        (number.is_none(), number, path.clone())
    });
    Ok(paths)
}

fn load(listed: &ListedPicture, options: &Options) -> Result<Example, DataError> {
    let pixels = picture::read(&listed.path, options.get("side") as usize)?;
    Ok(Example::classified(pixels, listed.class))
}

impl Task for Pathfinder {
    fn about(&self) -> TaskDescription {
        TaskDescription {
            name: "pathfinder",
            doc: "whether a dashed path connects two dots, pixel by pixel (Long Range Arena)",
            source: "Linsley et al. 2018, arXiv:1805.08315; Tay et al. 2021 (Long Range Arena), arXiv:2011.04006",
            objective: Objective::Classify,
            options: &OPTIONS,
            splits: &SPLITS,
            metrics: &[],
        }
    }

    fn vocabulary(&self, _options: &Options) -> Vec<String> {
        picture::names()
    }

    fn classes(&self, _options: &Options) -> Vec<String> {
        vec!["apart".to_owned(), "connected".to_owned()]
    }

    fn generate(&self, request: &GenerationRequest<'_>) -> Result<Vec<Example>, DataError> {
        let option = |name| request.options.get(name) as usize;
        let layout =
            PictureLayout { side: option("side"), dashes: option("dashes"), distractors: option("distractors") };
        generate(self, request, SHARES, |draws, belongs| {
            drawn(layout, request.options.get("brightnesses"), draws, belongs)
        })
    }

    /// The pictures of a list, `metadata/N.npy`, which is text in spite of its name.
    fn read(&self, path: &Path, options: &Options) -> Result<Vec<Example>, DataError> {
        let root = path.parent().and_then(Path::parent).unwrap_or(Path::new(""));
        listed(root, path)?.iter().map(|listed| load(listed, options)).collect()
    }

    /// The pictures of `curv_contour_length_14`, or of that folder itself, in an order that is always the same: the first
    /// tenth is for testing, the next for dev, the rest for training.
    fn read_folder(&self, folder: &DataFolder<'_>) -> Result<Option<Vec<Example>>, DataError> {
        let below = folder.path.join(HARD);
        let root = if below.is_dir() { below } else { folder.path.to_owned() };
        if !root.join("metadata").is_dir() {
            return Err(nothing_published(folder.path, &format!("{HARD}/metadata")));
        }
        let mut all = Vec::new();
        for list in lists(&root)? {
            all.extend(listed(&root, &list)?);
        }
        Key::new(42).stream("pathfinder").draws().shuffle(&mut all);
        let tenth = all.len().div_ceil(10);
        let (from, to) = match folder.split {
            "test" => (0, tenth),
            "dev" => (tenth, 2 * tenth),
            _ => (2 * tenth, all.len()),
        };
        let part = all.iter().take(to).skip(from).take(folder.most);
        part.map(|listed| load(listed, folder.options)).collect::<Result<Vec<_>, _>>().map(Some)
    }
}
