//! Text, retrieval, image and pathfinder: generators, readers of the published formats, and broken files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rtc_task::error::DataError;
use rtc_task::lra::{sentiment, subject};
use rtc_task::{DataSource, TaskSettings};
use rtc_task::{
    Dataset, Example, ExampleTarget, Options, Task, describe, load, load_split, resolve_options, task_named,
};
use tempfile::TempDir;

use crate::given;
use crate::published::published;

/// Small sizes of every task.
const SMALL: [(&str, &[(&str, u64)]); 4] = [
    ("text", &[("length", 200)]),
    ("retrieval", &[("length", 120), ("subjects", 5)]),
    ("image", &[("side", 12)]),
    ("pathfinder", &[("side", 24), ("dashes", 8), ("distractors", 2)]),
];

fn task(name: &str) -> &'static dyn Task {
    task_named(name).expect("it exists")
}

fn options(name: &str, options: &[(&str, u64)]) -> Options {
    resolve_options(task(name).about().options, &given(options)).expect("valid")
}

fn settings(name: &str, options: &[(&str, u64)], size: usize) -> TaskSettings {
    TaskSettings {
        name: name.to_owned(),
        options: given(options),
        sizes: ["train", "dev", "test"].map(|split| (split.to_owned(), size)).into(),
        seed: 2,
        ..TaskSettings::default()
    }
}

fn class(example: &Example) -> u32 {
    match example.label {
        ExampleTarget::Class(class) => class,
        _ => panic!("one class per sequence"),
    }
}

#[test]
fn every_generator_is_a_function_of_the_seed_balanced_and_without_repetition() {
    for (name, options) in SMALL {
        let data = load(&settings(name, options, 200), &["train", "dev", "test"]).expect("generated");
        let mut seen = BTreeSet::new();
        for split in ["train", "dev", "test"] {
            let examples = data.split(split);
            assert_eq!(examples.len(), 200, "{name}");
            assert!(examples.iter().all(|example| seen.insert(example.key())), "{name} repeats an example");
            let tokens = examples.iter().flat_map(|example| &example.tokens);
            assert!(tokens.clone().all(|token| (*token as usize) < data.vocabulary), "{name}");
            let shares = describe(examples).label_shares;
            assert_eq!(shares.len(), data.classes, "{name}");
            let even = 1.0 / data.classes as f64;
            assert!(shares.values().all(|share| (share / even - 1.0).abs() < 0.8), "{name}: {shares:?}");
        }
        for split in ["train", "dev", "test"] {
            let small = load_split(&settings(name, options, 50), split).expect("generated");
            assert_eq!(small[..], data.split(split)[..50], "{name}: a smaller split is a prefix");
            let other = TaskSettings { seed: 3, ..settings(name, options, 50) };
            assert_ne!(load_split(&other, split).expect("generated"), small, "{name}: another seed");
        }
    }
}

#[test]
fn generated_reviews_and_documents_say_what_their_labels_say() {
    let text = options("text", &[("length", 300)]);
    let reviews = load_split(&settings("text", &[("length", 300)], 100), "train").expect("generated");
    for review in &reviews {
        let balance = sentiment(&task("text").decode(&review.tokens, &text));
        assert_eq!(class(review), u32::from(balance > 0));
        assert!(balance != 0 && (100..=300).contains(&review.tokens.len()));
    }
    assert_eq!(sentiment("the plot was not dull. we saw it on a rainy evening. the cast was dull."), 0);
    let chosen = [("length", 200), ("subjects", 5)];
    let documents = load_split(&settings("retrieval", &chosen, 100), "train").expect("generated");
    for pair in &documents {
        let options = options("retrieval", &chosen);
        let about = |tokens: &[u32]| subject(&task("retrieval").decode(tokens, &options), 5).expect("about something");
        let same = about(&pair.tokens) == about(pair.second.as_deref().expect("a pair"));
        assert_eq!(class(pair), u32::from(same));
    }
}

#[test]
fn texts_read_back_from_what_is_shown() {
    let options = options("text", &[]);
    for review in load_split(&settings("text", &[], 3), "test").expect("generated") {
        let shown = task("text").decode(&review.tokens, &options);
        assert_eq!(task("text").encode(&shown, &options), Ok(review.tokens));
    }
}

#[test]
fn the_imdb_sample_is_read() {
    let Some(folder) = published("imdb_sample") else { return };
    let mut settings = settings("text", &[], 100_000);
    settings.data = Some(DataSource::Folder(folder.display().to_string()));
    let data = load(&settings, &["train", "dev", "test"]).expect("read");
    let sizes = ["train", "dev", "test"].map(|split| data.split(split).len());
    assert_eq!(sizes, [1_707, 245, 488]);
    let train = describe(data.split("train"));
    assert!((train.label_shares[&1] - 0.5).abs() < 0.02 && (train.mean_length - 915.0).abs() < 60.0, "{train:?}");
    let shown = task("text").decode(&data.split("train")[2].tokens, &options("text", &[]));
    assert!(shown.starts_with("This movie is so bad") && shown.contains("comedy\": Police"), "{shown}");
}

/// A folder to put files in, and the task that reads them.
struct Place {
    folder: TempDir,
    task: &'static str,
    options: &'static [(&'static str, u64)],
}

impl Place {
    fn new(task: &'static str, options: &'static [(&'static str, u64)]) -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder"), task, options }
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new(""))).expect("a new folder");
        fs::write(path, bytes).expect("writable");
    }

    fn read(&self, name: &str) -> Result<Vec<Example>, DataError> {
        task(self.task).read(&self.folder.path().join(name), &options(self.task, self.options))
    }

    fn load(&self, splits: &[&str], size: usize) -> Result<Dataset, DataError> {
        let data = Some(DataSource::Folder(self.folder.path().display().to_string()));
        load(&TaskSettings { data, ..settings(self.task, self.options, size) }, splits)
    }

    /// Reading the bytes fails at the line with the words.
    #[track_caller]
    fn refuses(&self, name: &str, bytes: &[u8], line: Option<usize>, words: &str) {
        self.write(name, bytes);
        let error = self.read(name).expect_err(words);
        assert!(error.file.ends_with(name), "{error}");
        assert_eq!(error.line, line, "{error}");
        assert!(error.message.contains(words), "{error}");
    }
}

#[test]
fn reviews_are_read_from_tables() {
    let place = Place::new("text", &[("length", 64)]);
    place.write("a.tsv", b"Sentiment\tText\nNegative\tdull\nPositive\t\"so \"\"good\"\",\nreally\"\n");
    place.write("a.csv", b"review,sentiment\n\"dull\",negative\n\"so \"\"good\"\",\nreally\",positive\n");
    place.write("b.tsv", b"0\tdull\n1\tso \"good\",\n");
    let read = |name: &str| place.read(name).expect(name);
    assert_eq!(read("a.tsv"), read("a.csv"));
    let texts = |name: &str| -> Vec<(u32, Vec<u8>)> {
        let bytes = |example: &Example| example.tokens.iter().map(|token| *token as u8).collect();
        read(name).iter().map(|example| (class(example), bytes(example))).collect()
    };
    assert_eq!(texts("a.tsv"), [(0, b"dull".to_vec()), (1, b"so \"good\",\nreally".to_vec())]);
    assert_eq!(texts("b.tsv")[1], (1, b"so \"good\",".to_vec()));
    place.write("long.tsv", ("1\t".to_owned() + &"x".repeat(100)).as_bytes());
    assert_eq!(read("long.tsv")[0].tokens.len(), 64);
    place.refuses("c.tsv", b"0\tdull\ngreat\tx\n", Some(2), "`great` is neither");
    place.refuses("c.tsv", b"0\tdull\n1\n", Some(2), "2 columns, and this one has 1");
    place.refuses("c.tsv", b"0\tdull\r\n1\tfine\r\n1\r\n", Some(3), "2 columns, and this one has 1");
    place.refuses("c.csv", b"0,dull\r\n1,\"a\r\nb\"\r\n7,c\r\n", Some(4), "`7` is neither");
    place.refuses("c.tsv", b"0\tdull\n1\tx\ty\n", Some(2), "2 columns, and this one has 3");
    place.refuses("c.tsv", b"0\tdull\n1\t\n", Some(2), "empty");
    place.refuses("c.tsv.gz", b"this is no file of gzip", Some(1), "gzip");
}

#[test]
fn reviews_are_read_from_folders_of_files() {
    let place = Place::new("text", &[("length", 64)]);
    for (name, text) in [
        ("train/pos/0_9.txt", "good"),
        ("train/pos/2_9.txt", "very good"),
        ("train/pos/10_8.txt", "fine"),
        ("train/neg/0_1.txt", "bad"),
        ("train/neg/1_1.txt", "very bad"),
        ("train/neg/urls.lst", "no review"),
        ("test/pos/0_9.txt", "great"),
        ("test/neg/0_2.txt", "poor"),
    ] {
        place.write(name, text.as_bytes());
    }
    let data = place.load(&["train", "dev", "test"], 4).expect("read");
    let words = |split: &str| -> Vec<String> {
        let options = options("text", &[]);
        data.split(split).iter().map(|example| task("text").decode(&example.tokens, &options)).collect()
    };
    assert_eq!(words("train"), ["good", "bad", "very good", "very bad"]);
    assert_eq!(words("test"), ["great", "poor"]);
    assert_eq!(words("dev"), words("test"));
    place.write("train/pos/0_9.txt", b"");
    assert!(place.load(&["train"], 4).expect_err("empty").file.ends_with("0_9.txt"));
}

#[test]
fn pairs_of_documents_are_read() {
    let place = Place::new("retrieval", &[("length", 64)]);
    place.write("new_aan_pairs.test.tsv", b"1.0\tA1\tA2\tone \"text\ttwo\n0\tA3\tA4\tthree\tf\xffour\n");
    let data = place.load(&["test"], 10).expect("read");
    let pair = &data.split("test")[1];
    assert_eq!((class(&data.split("test")[0]), class(pair)), (1, 0));
    assert_eq!((pair.tokens.len(), pair.second.as_ref().map(Vec::len)), (5, Some(5)));
    place.refuses("x.tsv", b"1\ta\tb\tc\td\n1\ta\tb\tc\n", Some(2), "this one has 4 columns");
    place.refuses("x.tsv", b"2\ta\tb\tc\td\n", Some(1), "`2` is neither 0 nor 1");
    place.refuses("x.tsv", b"1\ta\tb\tc\t\n", Some(1), "empty");
    assert!(Place::new("retrieval", &[]).load(&["test"], 1).expect_err("nothing").message.contains("new_aan_pairs"));
}

/// A picture of CIFAR-10 in one colour.
fn plain(class: u8, [red, green, blue]: [u8; 3]) -> Vec<u8> {
    let plane = |level: u8| vec![level; 1024];
    [vec![class], plane(red), plane(green), plane(blue)].concat()
}

#[test]
fn pictures_of_cifar_are_read_in_grey() {
    let place = Place::new("image", &[]);
    for n in 1..=5 {
        let rows: Vec<u8> = (0..4).flat_map(|row| plain(n, [row, row, row])).collect();
        place.write(&format!("data_batch_{n}.bin"), &rows);
    }
    place.write("test_batch.bin", &[plain(9, [255, 0, 0]), plain(8, [0, 255, 0]), plain(7, [0, 0, 255])].concat());
    let data = place.load(&["train", "dev", "test"], 100).expect("read");
    assert_eq!(["train", "dev", "test"].map(|split| data.split(split).len()), [18, 2, 3]);
    let greys: Vec<(u32, u32)> =
        data.split("test").iter().map(|example| (class(example), example.tokens[500])).collect();
    assert_eq!(greys, [(9, 76), (8, 150), (7, 29)]);
    assert_eq!(class(&data.split("dev")[1]), 5);
    assert!(data.split("dev")[1].tokens.iter().all(|level| *level == 3));

    let mut middle = plain(0, [0, 0, 0]);
    let centre = 16 * 32 + 16;
    (0..3).for_each(|plane| middle[1 + plane * 1024 + centre] = 200);
    let small = Place::new("image", &[("side", 12)]);
    small.write("x.bin", &middle);
    assert_eq!(small.read("x.bin").expect("read")[0].tokens[6 * 12 + 6], 200);
    small.refuses("x.bin", &middle[..3000], None, "3000 are left over");
    small.refuses("x.bin", &[plain(1, [0; 3]), plain(10, [0; 3])].concat(), None, "picture 2: the class is 10");
    Place::new("image", &[("side", 40)]).refuses("x.bin", &middle, None, "32 pixels a side");
    fs::remove_file(place.folder.path().join("data_batch_4.bin")).expect("removable");
    assert!(place.load(&["train"], 10).expect_err("a part is missing").message.contains("data_batch_4.bin"));
}

/// A grey or coloured PNG file of one level.
fn png(side: u32, colour: png::ColorType, level: u8) -> Vec<u8> {
    let mut bytes = vec![];
    let mut encoder = png::Encoder::new(&mut bytes, side, side);
    encoder.set_color(colour);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().expect("memory");
    writer.write_image_data(&vec![level; side as usize * side as usize * colour.samples()]).expect("memory");
    writer.finish().expect("memory");
    bytes
}

#[test]
fn pictures_of_pathfinder_are_read_in_an_order_of_their_own() {
    let place = Place::new("pathfinder", &[("side", 16)]);
    let base = "curv_contour_length_14";
    for list in 0..2 {
        let mut rows = String::new();
        for n in 0..10 {
            rows += &format!("imgs/{list} sample_{n}.png {n} {} 0.5 2\n", n % 2);
            let level = (list * 10 + n) as u8;
            let colour = if n % 3 == 0 { png::ColorType::Rgb } else { png::ColorType::Grayscale };
            place.write(&format!("{base}/imgs/{list}/sample_{n}.png"), &png(16, colour, level));
        }
        place.write(&format!("{base}/metadata/{list}.npy"), rows.as_bytes());
    }
    let data = place.load(&["train", "dev", "test"], 100).expect("read");
    assert_eq!(["train", "dev", "test"].map(|split| data.split(split).len()), [16, 2, 2]);
    let all: Vec<&Example> = ["train", "dev", "test"].iter().flat_map(|split| data.split(split)).collect();
    let levels: BTreeSet<u32> = all.iter().map(|example| example.tokens[7]).collect();
    assert_eq!(levels, (0..20).collect());
    assert!(all.iter().all(|example| class(example) == example.tokens[0] % 10 % 2));
    assert_eq!(place.read(&format!("{base}/metadata/1.npy")).map(|rows| rows.len()), Ok(10));

    let list = format!("{base}/metadata/1.npy");
    let good = place.folder.path().join(base).join("imgs/1/sample_0.png");
    for (bytes, words) in [
        (b"no picture".to_vec(), "no PNG picture"),
        (png(16, png::ColorType::Grayscale, 1)[..60].to_vec(), "no PNG picture"),
        (png(8, png::ColorType::Grayscale, 1), "8 x 8 pixels instead of 16 x 16"),
    ] {
        fs::write(&good, bytes).expect("writable");
        let error = place.read(&list).expect_err(words);
        assert!(error.file.ends_with("sample_0.png") && error.message.contains(words), "{error}");
    }
    for (row, words) in [
        ("imgs/1 sample_1.png\n", "has 2 words"),
        ("imgs/1 sample_1.png 1 2 0\n", "`2` is neither"),
        ("../.. sample_1.png 1 1 0\n", "no place inside"),
        ("imgs/1 /etc/passwd 1 1 0\n", "no place inside"),
    ] {
        place.refuses(&list, row.as_bytes(), Some(1), words);
    }
}
