//! The TensorBoard event format: protobuf messages in length-prefixed records with masked CRC-32C checksums.
//!
//! Only scalars are written. Fields by number: `Event` has wall_time 1, step 2, file_version 3, summary 5; `Summary`
//! has value 1; its value has tag 1, simple_value 2.

/// Scalars at one step.
pub struct Summary<'a> {
    /// Seconds since 1970.
    pub wall_time: f64,
    /// The update.
    pub step: u64,
    /// Tags with their values.
    pub scalars: &'a [(String, f32)],
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

/// An event that holds scalars.
pub fn event(summary: &Summary<'_>) -> Vec<u8> {
    let mut values = Vec::new();
    for (tag, number) in summary.scalars {
        let mut value = Vec::new();
        bytes(&mut value, 1, tag.as_bytes());
        key(&mut value, 2, FLOAT);
        value.extend_from_slice(&number.to_le_bytes());
        bytes(&mut values, 1, &value);
    }
    let mut event = Vec::new();
    double(&mut event, 1, summary.wall_time);
    key(&mut event, 2, VARINT);
    varint(&mut event, summary.step);
    bytes(&mut event, 5, &values);
    event
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
