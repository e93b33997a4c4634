//! Values as bytes, exactly, for messages between ranks of the same program: numbers are little-endian, lists have their lengths before
//! them, choices a number.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A value that can be sent.
pub(super) trait Wire: Sized {
    /// Puts it behind what is there.
    fn put(&self, out: &mut Vec<u8>);
    /// Takes it from the front; nothing where the bytes are none of it.
    fn take(from: &mut &[u8]) -> Option<Self>;

    /// It alone, as bytes.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![];
        self.put(&mut out);
        out
    }

    /// It alone, from all bytes.
    fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let value = Self::take(&mut bytes)?;
        bytes.is_empty().then_some(value)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Wire for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                let (number, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(Self::from_le_bytes(*number))
            }
        }
    )*};
}

numbers!(u8, u32, u64, f32, f64);

impl Wire for usize {
    fn put(&self, out: &mut Vec<u8>) {
        (*self as u64).put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        u64::take(from)?.try_into().ok()
    }
}

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        u8::from(*self).put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        match u8::take(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Wire for () {
    fn put(&self, _: &mut Vec<u8>) {}

    fn take(_: &mut &[u8]) -> Option<Self> {
        Some(())
    }
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let len = usize::take(from)?;
        let (text, rest) = from.split_at_checked(len)?;
        *from = rest;
        Self::from_utf8(text.to_vec()).ok()
    }
}

impl Wire for Arc<str> {
    fn put(&self, out: &mut Vec<u8>) {
        self.to_string().put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        String::take(from).map(Self::from)
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        self.iter().for_each(|item| item.put(out));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let len = usize::take(from)?;
        (0..len).map(|_| T::take(from)).collect()
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|item| item.put(out));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        if bool::take(from)? { T::take(from).map(Some) } else { Some(None) }
    }
}

impl<T: Wire + Copy + Default, const N: usize> Wire for [T; N] {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|item| item.put(out));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let mut all = [T::default(); N];
        for item in &mut all {
            *item = T::take(from)?;
        }
        Some(all)
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some((A::take(from)?, B::take(from)?))
    }
}

impl<K: Wire + Ord, V: Wire> Wire for BTreeMap<K, V> {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        self.iter().for_each(|(key, value)| {
            key.put(out);
            value.put(out);
        });
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let len = usize::take(from)?;
        (0..len).map(|_| <(K, V)>::take(from)).collect()
    }
}

impl<T: Wire, E: Wire> Wire for Result<T, E> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_ok().put(out);
        match self {
            Ok(value) => value.put(out),
            Err(error) => error.put(out),
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        if bool::take(from)? { T::take(from).map(Ok) } else { E::take(from).map(Err) }
    }
}

/// Sends structures field by field. A field that is missing here is an error of the compiler.
macro_rules! fields {
    ($($name:ident { $($field:ident),* })*) => {$(
        impl $crate::ranks::wire::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $($field.put(out);)*
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                $(let $field = $crate::ranks::wire::Wire::take(from)?;)*
                Some(Self { $($field),* })
            }
        }
    )*};
}

pub(super) use fields;

#[cfg(test)]
mod tests {
    use super::*;

    type All = (Vec<(u32, f64)>, (Option<String>, (BTreeMap<String, Vec<f32>>, Result<bool, usize>)));

    #[test]
    fn values_come_back_as_they_were() {
        let arrays = BTreeMap::from([("w".to_owned(), vec![-0.0, f32::MIN_POSITIVE / 2.0, f32::INFINITY])]);
        let value: All = (vec![(7, 0.1), (8, -1e-320)], (Some("höher".to_owned()), (arrays, Err(3))));
        let bytes = value.to_bytes();
        assert_eq!(All::from_bytes(&bytes), Some(value));
        for len in 0..bytes.len() {
            assert_eq!(All::from_bytes(&bytes[..len]), None, "{len} bytes of {}", bytes.len());
        }
        assert_eq!(u32::from_bytes(&[1, 0, 0, 0, 0]), None, "a byte is left over");
    }
}
