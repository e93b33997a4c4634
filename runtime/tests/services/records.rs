//! The TensorBoard file, read by a decoder that shares nothing with the writer.

use std::fs;
use std::sync::atomic::AtomicBool;

use rtc_runtime::record::history::History;
use rtc_runtime::train::{Silent, train};

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

#[test]
fn metrics_read_back_whatever_state_they_are_in() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path();
    assert_eq!(History::read(path).expect("a run that has not begun"), History::default());
    let step =
        r#"{"kind":"step","update":10,"epoch":0,"loss":null,"task_loss":2.5,"accuracy":0.1,"learning_rate":5e-6}"#;
    let dev =
        r#"{"kind":"evaluation","split":"dev","update":20,"accuracy":0.25,"loss":2.25,"scored":4,"mean_depth":3.5}"#;
    let later = r#"{"kind":"something new","update":7}"#;
    fs::write(path.join("metrics.jsonl"), format!("{step}\n{dev}\n{later}\n{{\"kind\":\"st")).expect("a file");
    let history = History::read(path).expect("half a line at the end is what a killed run leaves");
    assert_eq!((history.steps.len(), history.evaluations.len()), (1, 1));
    assert_eq!((history.steps[0].loss, history.steps[0].task_loss), (None, Some(2.5)));
    assert_eq!((history.evaluations[0].split.as_str(), history.evaluations[0].mean_depth), ("dev", Some(3.5)));
    fs::write(path.join("metrics.jsonl"), format!("{step}\nnonsense\n{dev}\n")).expect("a file");
    let error = History::read(path).expect_err("a broken line in the middle");
    assert!(error.to_string().contains("metrics.jsonl:2: this is no line of metrics"), "{error}");
    assert_eq!(error.exit_code(), 4);
}
