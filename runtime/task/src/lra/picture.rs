//! Grey pictures as tokens: every pixel is a token, and its grey level the id.

use std::io::BufReader;
use std::path::Path;

use png::{ColorType, Decoder, Limits, Transformations};

use crate::error::DataError;
use crate::files::open::regular;
use crate::reading::unreadable;

/// The names of the 256 grey levels.
pub(super) fn names() -> Vec<String> {
    (0..=255).map(|level: u32| level.to_string()).collect()
}

/// The grey level of a colour by ITU-R BT.601, rounded.
pub(super) fn grey(red: u8, green: u8, blue: u8) -> u32 {
    (19_595 * u32::from(red) + 38_470 * u32::from(green) + 7_471 * u32::from(blue) + 0x8000) >> 16
}

/// No picture of the task needs more memory to be unpacked.
const MAX_BYTES: usize = 1 << 24;

/// The pixels of a square PNG file, row by row; colours become grey, and transparency is dropped.
pub(super) fn read(path: &Path, side: usize) -> Result<Vec<u32>, DataError> {
    let file = regular(path).map_err(|error| unreadable(path, error))?;
    let mut decoder = Decoder::new_with_limits(BufReader::new(file), Limits { bytes: MAX_BYTES });
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    let broken =
        |error: png::DecodingError| unreadable(path, format!("this is no PNG picture that can be read: {error}"));
    let mut reader = decoder.read_info().map_err(broken)?;
    let (width, height) = reader.info().size();
    if (width as usize, height as usize) != (side, side) {
        return Err(unreadable(path, format!("the picture has {width} x {height} pixels instead of {side} x {side}")));
    }
    let size = reader.output_buffer_size().filter(|size| *size <= MAX_BYTES);
    let mut buffer = vec![0; size.ok_or_else(|| unreadable(path, "the picture is too large"))?];
    let frame = reader.next_frame(&mut buffer).map_err(broken)?;
    let bytes = &buffer[..frame.buffer_size()];
    let pixels: Vec<u32> = match frame.color_type {
        ColorType::Grayscale | ColorType::Indexed => bytes.iter().map(|level| u32::from(*level)).collect(),
        ColorType::GrayscaleAlpha => bytes.as_chunks::<2>().0.iter().map(|[level, _]| u32::from(*level)).collect(),
        ColorType::Rgb => bytes.as_chunks::<3>().0.iter().map(|[r, g, b]| grey(*r, *g, *b)).collect(),
        ColorType::Rgba => bytes.as_chunks::<4>().0.iter().map(|[r, g, b, _]| grey(*r, *g, *b)).collect(),
    };
    if pixels.len() == side * side { Ok(pixels) } else { Err(unreadable(path, "the picture is incomplete")) }
}
