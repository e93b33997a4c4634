//! The TensorBoard file, read by a decoder that shares nothing with the writer.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rtc_base::rng::Key;
use rtc_runs::error::Error;
use rtc_runs::record::checkpoint::{CheckpointSlot, find};
use rtc_runs::record::history::{EvaluationLine, History, HistoryLine, StepLine};
use rtc_runs::record::verify::verify;
use rtc_runs::record::watched::{
    ArrayHistogram, HistogramLine, ParameterHistograms, SampleEnd, SampleLine, histograms,
};
use rtc_runs::record::{RunAnswers, SavedRun};
use rtc_train::{Silent, train};

use crate::mock::{Mock, create, setting};

/// CRC-32C by polynomial division, bit by bit, over the message with its 32 zero bits appended.
fn crc(data: &[u8]) -> u32 {
    let mut remainder = 0_u64;
    let bits = data.iter().enumerate().flat_map(|(i, b)| {
        let byte = if i < 4 { b ^ 0xFF } else { *b };
        (0..8).map(move |bit| byte >> bit & 1)
    });
    for bit in bits.chain([0; 32]) {
        remainder = remainder << 1 | u64::from(bit);
        if remainder >> 32 == 1 {
            remainder ^= 0x1_1EDC_6F41;
        }
    }
    !(remainder as u32).reverse_bits()
}

fn unmask(checksum: u32) -> u32 {
    checksum.wrapping_sub(0xA282_EAD8).rotate_left(15)
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

/// The data of every record, after checking both checksums.
fn split_records(mut file: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while !file.is_empty() {
        let length = u64::from_le_bytes(file[..8].try_into().expect("eight bytes")) as usize;
        assert_eq!(unmask(number(&file[8..12])), crc(&file[..8]));
        let data = &file[12..12 + length];
        assert_eq!(unmask(number(&file[12 + length..16 + length])), crc(data));
        records.push(data.to_vec());
        file = &file[16 + length..];
    }
    records
}

enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

fn fields(mut data: &[u8]) -> Vec<(u64, Field)> {
    fn varint(data: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = data[0];
            *data = &data[1..];
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !data.is_empty() {
        let key = varint(&mut data);
        let value = match key & 7 {
            0 => Field::Number(varint(&mut data)),
            wire => {
                let length = [0, 8, 0, 0, 0, 4][wire as usize];
                let length = if length == 0 { varint(&mut data) as usize } else { length };
                let (bytes, rest) = data.split_at(length);
                data = rest;
                Field::Bytes(bytes.to_vec())
            }
        };
        found.push((key >> 3, value));
    }
    found
}

fn bytes(fields: &[(u64, Field)], wanted: u64) -> Vec<Vec<u8>> {
    let matching = fields.iter().filter(|(number, _)| *number == wanted);
    matching.filter_map(|(_, field)| if let Field::Bytes(bytes) = field { Some(bytes.clone()) } else { None }).collect()
}

#[test]
fn the_independent_checksum_is_right() {
    assert_eq!(crc(b"123456789"), 0xE306_9283);
}

#[test]
fn tensorboard_gets_the_numbers_of_the_metrics() {
    let (experiment, data) = setting(&[]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut run = create(folder.path(), &experiment);
    train(&mut Mock::new(7), &data, &experiment, &mut run, &AtomicBool::new(false), &mut Silent).expect("no failure");
    let file = fs::read(folder.path().join("events.out.tfevents.0.rtc")).expect("written");
    let records = split_records(&file);
    assert_eq!(bytes(&fields(&records[0]), 3), [b"brain.Event:2".to_vec()]);
    let mut found = Vec::new();
    for record in &records[1..] {
        let event = fields(record);
        let step = event.iter().find_map(|(key, field)| match field {
            Field::Number(step) if *key == 2 => Some(*step),
            _ => None,
        });
        for value in bytes(&fields(&bytes(&event, 5)[0]), 1) {
            let value = fields(&value);
            let tag = String::from_utf8(bytes(&value, 1)[0].clone()).expect("a tag");
            let scalar = f32::from_le_bytes(bytes(&value, 2)[0][..].try_into().expect("a float"));
            found.push((step.expect("a step"), tag, scalar));
        }
    }
    let mut expected = Vec::new();
    for line in fs::read_to_string(folder.path().join("metrics.jsonl")).expect("written").lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let group = line["split"].as_str().unwrap_or("train");
        for (key, value) in line.as_object().expect("an object") {
            if let (false, Some(value)) = (["update", "epoch", "scored"].contains(&key.as_str()), value.as_f64()) {
                expected.push((line["update"].as_u64().expect("a step"), format!("{group}/{key}"), value as f32));
            }
        }
    }
    assert!(expected.len() > 50);
    assert_eq!(found, expected);
}

/// The values of the only record behind the first one, by tag.
fn values(file: &Path) -> Vec<(String, Vec<(u64, Field)>)> {
    let records = split_records(&fs::read(file).expect("written"));
    let [_, record] = &records[..] else { panic!("{} records", records.len()) };
    let values = bytes(&fields(&bytes(&fields(record), 5)[0]), 1);
    let tagged = |value: Vec<u8>| {
        let value = fields(&value);
        (String::from_utf8(bytes(&value, 1)[0].clone()).expect("a tag"), value)
    };
    values.into_iter().map(tagged).collect()
}

#[test]
fn tensorboard_gets_texts_and_histograms() {
    let (experiment, _) = setting(&[]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("text");
    let (prompt, text) = ("the".to_owned(), " cät\n".to_owned());
    let line = SampleLine { update: 9, prompt, text, end: SampleEnd::Length };
    create(&path, &experiment).sample(&line).expect("it can be written");
    let found = values(&path.join("events.out.tfevents.0.rtc"));
    let [(tag, value)] = &found[..] else { panic!("{} values", found.len()) };
    assert_eq!(tag, "samples/the");
    let tensor = fields(&bytes(value, 8)[0]);
    assert!(tensor.iter().any(|(key, field)| *key == 1 && matches!(field, Field::Number(7))), "strings");
    assert_eq!(bytes(&tensor, 8), [" cät\n".as_bytes()]);
    let size = fields(&bytes(&fields(&bytes(&tensor, 2)[0]), 2)[0]);
    assert!(matches!(size[..], [(1, Field::Number(1))]), "one of them");
    assert_eq!(bytes(&fields(&bytes(&fields(&bytes(value, 9)[0]), 1)[0]), 1), [b"text"]);

    let path = folder.path().join("histogram");
    let of = |numbers: &[f32]| ArrayHistogram::of(numbers);
    let both = ParameterHistograms { weights: of(&[-1.0, 0.0, 3.0, 3.0]), gradients: of(&[0.5; 7]) };
    let line = HistogramLine { update: 9, parameters: [("head.w".to_owned(), both)].into() };
    create(&path, &experiment).histogram(&line).expect("it can be written");
    let found = values(&path.join("events.out.tfevents.0.rtc"));
    let tags: Vec<&str> = found.iter().map(|(tag, _)| tag.as_str()).collect();
    assert_eq!(tags, ["weights/head.w", "gradients/head.w"]);
    let numbers = |bytes: &[u8]| -> Vec<f64> {
        bytes.chunks_exact(8).map(|x| f64::from_le_bytes(x.try_into().expect("eight bytes"))).collect()
    };
    let of = |n: usize, field: u64| numbers(&bytes(&fields(&bytes(&found[n].1, 5)[0]), field)[0]);
    let told: Vec<f64> = (1..=5).flat_map(|field| of(0, field)).collect();
    let squares = told[4];
    assert_eq!(told[..4], [-1.0, 3.0, 4.0, 5.0], "least, largest, count, sum");
    assert!((squares - 19.0).abs() < 1e-12, "sum of squares: {squares}");
    let (ends, counts) = (of(0, 6), of(0, 7));
    assert_eq!((ends.len(), ends[0], ends[63]), (64, -1.0 + 4.0 / 64.0, 3.0));
    assert_eq!((counts[0], counts[16], counts[63], counts.iter().sum::<f64>()), (1.0, 1.0, 2.0, 4.0));
    assert_eq!((of(1, 7)[0], of(1, 6)[63]), (7.0, 0.5), "equal numbers");
    assert_eq!(histograms(&path).expect("readable"), [line]);
}

#[test]
fn numbers_that_are_not_finite_are_counted_apart() {
    let found = ArrayHistogram::of(&[f32::NAN, 1.0, f32::INFINITY, -2.0]);
    assert_eq!((found.min, found.max, found.count(), found.not_finite), (-2.0, 1.0, 2, 2));
    let none = ArrayHistogram::of(&[f32::NAN]);
    assert_eq!((none.count(), none.rms, none.not_finite), (0, 0.0, 1));
}

#[test]
fn metrics_read_back_whatever_state_they_are_in() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path();
    assert_eq!(History::read(path).expect("a run that has not begun"), History::default());
    let (experiment, _) = setting(&[]);
    let mut run = create(path, &experiment);
    assert_eq!(History::read(path).expect("nothing is logged"), History::default());
    let step = StepLine { update: 10, task_loss: Some(2.5), accuracy: Some(0.1), ..StepLine::default() };
    let split = "dev".to_owned();
    let dev =
        EvaluationLine { split, update: 20, loss: Some(2.25), mean_depth: Some(3.5), ..EvaluationLine::default() };
    run.metric(&HistoryLine::Step(step)).expect("it can be written");
    run.metric(&HistoryLine::Evaluation(dev.clone())).expect("it can be written");
    let text = fs::read_to_string(path.join("metrics.jsonl")).expect("written");
    fs::write(path.join("metrics.jsonl"), format!("{text}{{\"kind\":\"st")).expect("a file");
    let history = History::read(path).expect("half a line at the end is what a killed run leaves");
    assert_eq!(history, History { steps: vec![step], evaluations: vec![dev] });
    let lines: Vec<&str> = text.lines().collect();
    let damaged = [
        (text.replace("2.5", "2.4"), 1),
        (text.replace("3.5", "3.4"), 2),
        (format!("{}\n", lines[1]), 1),
        (format!("{}\nnonsense\n{}\n", lines[0], lines[1]), 2),
        (format!("{text}{}\n", lines[1]), 3),
    ];
    for (text, line) in damaged {
        fs::write(path.join("metrics.jsonl"), &text).expect("a file");
        let error = History::read(path).expect_err(&text);
        assert!(error.to_string().contains(&format!("metrics.jsonl:{line}: this line ")), "{error}");
        assert_eq!(error.exit_code(), 7);
    }
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files(&path)),
            path => found.push(path),
        }
    }
    found.sort();
    found
}

/// Everything that commands read of a finished run, as text.
fn seen(path: &Path) -> Result<String, Error> {
    let run = SavedRun::read(path)?;
    let history = History::read(path)?;
    let mut text = format!(
        "{run:?} {history:?} {:?} {:?}",
        histograms(path)?,
        RunAnswers::read(path, run.measured.as_ref().expect("finished"))
    );
    for slot in [CheckpointSlot::Best, CheckpointSlot::Last] {
        let found = find(path, &SavedRun::checkpoint(path, slot))?;
        run.check_checkpoint(&found, Some(slot))?;
        text += &format!("{:?}", found.checkpoint);
    }
    Ok(text)
}

/// `RTC_FLIPS` is the number of flips of a longer run, which has every cut.
#[test]
fn no_flip_and_no_cut_of_any_file_changes_what_is_read() {
    let long = std::env::var("RTC_FLIPS").ok().map(|flips| flips.parse::<u64>().expect("a number"));
    let (experiment, data) = setting(&["histograms={every: 9}"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("run");
    let mut run = create(&path, &experiment);
    train(&mut Mock::new(7), &data, &experiment, &mut run, &AtomicBool::new(false), &mut Silent).expect("no failure");
    drop(run);
    let whole = seen(&path).expect("the run is whole");
    let faults = || verify(&path).iter().filter(|part| part.fault.is_some()).count();
    assert_eq!(faults(), 0);
    for file in files(&path) {
        let name = file.strip_prefix(&path).expect("inside").display().to_string();
        let (bytes, mut draw) = (fs::read(&file).expect("a file"), Key::new(7).stream(&name).draws());
        let flips = (0..long.unwrap_or(200)).map(|_| {
            let mut flipped = bytes.clone();
            flipped[draw.below(bytes.len() as u64) as usize] ^= 1 << draw.below(8);
            flipped
        });
        let flips: Vec<Vec<u8>> = flips.collect();
        let cuts: Vec<usize> = match long {
            Some(_) => (0..bytes.len()).collect(),
            None => (0..40).map(|_| draw.below(bytes.len() as u64) as usize).collect(),
        };
        for damaged in flips.into_iter().chain(cuts.into_iter().map(|cut| bytes[..cut].to_vec())) {
            fs::write(&file, &damaged).expect("writable");
            match seen(&path) {
                Ok(seen) => assert!(seen == whole, "{name}"),
                Err(error) => assert_eq!(error.exit_code(), 7, "{name}: {error}"),
            }
        }
        // The check of the whole folder finds what nobody reads, too.
        fs::write(&file, [&[bytes[0] ^ 1], &bytes[1..]].concat()).expect("writable");
        assert!(faults() > 0, "{name}");
        fs::write(&file, bytes).expect("writable");
    }
    assert_eq!((faults(), seen(&path).expect("the run is whole again") == whole), (0, true));
}
