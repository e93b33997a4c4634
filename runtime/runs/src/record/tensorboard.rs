//! The TensorBoard event format: protobuf messages in length-prefixed records with masked CRC-32C checksums.
//!
//! Fields by number: `Event` has wall_time 1, step 2, file_version 3, summary 5; `Summary` has value 1; its value has tag 1,
//! simple_value 2, histo 5, tensor 8, metadata 9. A histogram has min 1, max 2, num 3, sum 4, sum_squares 5, bucket_limit 6, bucket 7.
//! A text is a tensor of one string (dtype 1, tensor_shape 2, string_val 8) for the plugin `text`.

use super::watched::ArrayHistogram;

/// Values at one step.
pub struct Summary<'a> {
    /// Seconds since 1970.
    pub wall_time: f64,
    /// The update.
    pub step: u64,
    /// Tags with their values.
    pub values: &'a [(String, SummaryValue<'a>)],
}

/// A value of a summary.
pub enum SummaryValue<'a> {
    /// A number.
    Scalar(f32),
    /// A text, which TensorBoard shows as Markdown.
    Text(&'a str),
    /// A histogram.
    Histogram(&'a ArrayHistogram),
}

/// Wire types of protobuf.
const VARINT: u64 = 0;
const DOUBLE: u64 = 1;
const BYTES: u64 = 2;
const FLOAT: u64 = 5;

/// The event that every file starts with.
pub fn version_event(wall_time: f64) -> Vec<u8> {
    let mut event = Vec::new();
    double(&mut event, 1, wall_time);
    bytes(&mut event, 3, b"brain.Event:2");
    event
}

/// An event that holds values.
pub fn event(summary: &Summary<'_>) -> Vec<u8> {
    let mut values = Vec::new();
    for (tag, found) in summary.values {
        let mut value = Vec::new();
        bytes(&mut value, 1, tag.as_bytes());
        match found {
            SummaryValue::Scalar(number) => {
                key(&mut value, 2, FLOAT);
                value.extend_from_slice(&number.to_le_bytes());
            }
            SummaryValue::Text(text) => tensor_of_text(&mut value, text),
            SummaryValue::Histogram(found) => bytes(&mut value, 5, &histogram(found)),
        }
        bytes(&mut values, 1, &value);
    }
    let mut event = Vec::new();
    double(&mut event, 1, summary.wall_time);
    key(&mut event, 2, VARINT);
    varint(&mut event, summary.step);
    bytes(&mut event, 5, &values);
    event
}

/// Adds the tensor of a text, and the metadata that say who shows it.
fn tensor_of_text(value: &mut Vec<u8>, text: &str) {
    const STRING: u64 = 7;
    let (mut size, mut shape, mut tensor) = (Vec::new(), Vec::new(), Vec::new());
    key(&mut size, 1, VARINT);
    varint(&mut size, 1);
    bytes(&mut shape, 2, &size);
    key(&mut tensor, 1, VARINT);
    varint(&mut tensor, STRING);
    bytes(&mut tensor, 2, &shape);
    bytes(&mut tensor, 8, text.as_bytes());
    bytes(value, 8, &tensor);
    let (mut plugin, mut metadata) = (Vec::new(), Vec::new());
    bytes(&mut plugin, 1, b"text");
    bytes(&mut metadata, 1, &plugin);
    bytes(value, 9, &metadata);
}

/// The message of a histogram. Its intervals are named by their upper ends.
fn histogram(found: &ArrayHistogram) -> Vec<u8> {
    let ArrayHistogram { min, max, sum, rms, counts, .. } = found;
    let (count, bins) = (found.count() as f64, counts.len() as f64);
    let ends: Vec<f64> = (1..=counts.len()).map(|n| min + (max - min) * n as f64 / bins).collect();
    let mut message = Vec::new();
    for (field, number) in (1..).zip([*min, *max, count, *sum, count * rms * rms]) {
        double(&mut message, field, number);
    }
    let packed = |numbers: &[f64]| numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    bytes(&mut message, 6, &packed(&ends));
    bytes(&mut message, 7, &packed(&counts.iter().map(|n| *n as f64).collect::<Vec<_>>()));
    message
}

/// A record of the file: length, its checksum, data, its checksum.
pub fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut record = length.to_vec();
    record.extend_from_slice(&masked(&length).to_le_bytes());
    record.extend_from_slice(data);
    record.extend_from_slice(&masked(data).to_le_bytes());
    record
}

/// The records at the start of a file that are whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    /// Their bytes.
    pub bytes: usize,
    /// How many there are.
    pub records: usize,
}

/// The records at the start of a file that are whole; nothing if what comes then is no beginning of another one.
pub fn whole(file: &[u8]) -> Option<Whole> {
    let (mut rest, mut records) = (file, 0);
    loop {
        let done = Whole { bytes: file.len() - rest.len(), records };
        let Some((length, after)) = rest.split_at_checked(8) else { return Some(done) };
        let Some((sum, after)) = after.split_at_checked(4) else { return Some(done) };
        if masked(length).to_le_bytes() != sum {
            return None;
        }
        let size = usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok()?;
        let Some((data, after)) = after.split_at_checked(size) else { return Some(done) };
        let Some((sum, after)) = after.split_at_checked(4) else { return Some(done) };
        if masked(data).to_le_bytes() != sum {
            return None;
        }
        rest = after;
        records += 1;
    }
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn key(out: &mut Vec<u8>, field: u64, wire: u64) {
    varint(out, field << 3 | wire);
}

fn double(out: &mut Vec<u8>, field: u64, number: f64) {
    key(out, field, DOUBLE);
    out.extend_from_slice(&number.to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, field: u64, data: &[u8]) {
    key(out, field, BYTES);
    varint(out, data.len() as u64);
    out.extend_from_slice(data);
}

/// A checksum is rotated and shifted, so that data which itself holds checksums is safe.
fn masked(data: &[u8]) -> u32 {
    crc32c(data).rotate_right(15).wrapping_add(0xA282_EAD8)
}

/// CRC-32C (Castagnoli), reflected, a byte at a time.
fn crc32c(data: &[u8]) -> u32 {
    !data.iter().fold(!0, |crc, byte| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)])
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_have_the_values_of_rfc_3720() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
    }
}
