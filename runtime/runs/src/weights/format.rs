//! How numbers are written in a file.

use half::{bf16, f16};

/// The format of a file's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberFormat {
    F16,
    Bf16,
    F32,
    F64,
}

impl NumberFormat {
    /// Bytes of a number.
    pub(super) fn size(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Its name, as in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
            Self::F32 => "float32",
            Self::F64 => "float64",
        }
    }

    /// The number in so many bytes, little end first.
    pub(super) fn number(self, bytes: &[u8]) -> f32 {
        match (self, bytes) {
            (Self::F16, &[a, b]) => f16::from_le_bytes([a, b]).to_f32(),
            (Self::Bf16, &[a, b]) => bf16::from_le_bytes([a, b]).to_f32(),
            (Self::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
            (Self::F64, bytes) => bytes.try_into().map_or(f32::NAN, |bytes| f64::from_le_bytes(bytes) as f32),
            _ => f32::NAN,
        }
    }

    /// Writes a number into its bytes, the nearest that the format has; of two the even one.
    pub(super) fn write(self, number: f32, bytes: &mut [u8]) {
        match self {
            Self::F16 => bytes.copy_from_slice(&f16::from_f32(number).to_le_bytes()),
            Self::Bf16 => bytes.copy_from_slice(&bf16::from_f32(number).to_le_bytes()),
            Self::F32 => bytes.copy_from_slice(&number.to_le_bytes()),
            Self::F64 => bytes.copy_from_slice(&f64::from(number).to_le_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_each_format_come_back() {
        for (format, number, bytes) in [
            (NumberFormat::F16, 0.333_251_95, vec![0x55, 0x35]),
            (NumberFormat::F16, 5.960_464_5e-8, vec![0x01, 0x00]),
            (NumberFormat::Bf16, -2.0, vec![0x00, 0xc0]),
            (NumberFormat::F32, 1.5, 1.5_f32.to_le_bytes().to_vec()),
            (NumberFormat::F64, -0.25, (-0.25_f64).to_le_bytes().to_vec()),
        ] {
            let mut written = vec![0; format.size()];
            format.write(number, &mut written);
            assert_eq!((written, format.number(&bytes)), (bytes, number), "{}", format.name());
        }
        // Halfway between two numbers the even one is taken.
        let mut written = [0; 2];
        NumberFormat::Bf16.write(f32::from_bits(0x3f80_8000), &mut written);
        assert_eq!(written, [0x80, 0x3f]);
        NumberFormat::Bf16.write(f32::from_bits(0x3f81_8000), &mut written);
        assert_eq!(written, [0x82, 0x3f]);
    }
}
