//! The pickle inside a PyTorch file, by Candle's reader, which makes a tree of it and executes nothing.
//!
//! The reader trusts its input: a few bytes could make it allocate gigabytes, or a tree too deep to be dropped. So it is driven
//! opcode by opcode; sizes are compared with what is left of the file, and what an opcode made is weighed.

use candle_core::Error;
use candle_core::pickle::{Object, Stack};

/// The deepest tree; that of a `state_dict` has seven levels.
const DEEPEST: usize = 32;
/// The most nodes that all opcodes together may make. A `state_dict` of 10,000 tensors makes about three million.
pub const MOST: usize = 20_000_000;
/// The most bytes of a pickle.
pub const LONGEST: usize = 16 << 20;

/// The globals that a `state_dict` may name; any other one would be foreign code.
const NAMED: &[(&str, &str)] = &[
    ("collections", "OrderedDict"),
    ("torch._utils", "_rebuild_tensor_v2"),
    ("torch._utils", "_rebuild_parameter"),
    ("torch", "FloatStorage"),
    ("torch", "DoubleStorage"),
    ("torch", "HalfStorage"),
    ("torch", "BFloat16Storage"),
    ("torch", "LongStorage"),
    ("torch", "IntStorage"),
    ("torch", "ShortStorage"),
    ("torch", "CharStorage"),
    ("torch", "ByteStorage"),
    ("torch", "BoolStorage"),
    ("torch", "ComplexFloatStorage"),
    ("torch", "ComplexDoubleStorage"),
];

/// The object of a pickle.
pub(super) fn object(bytes: &[u8]) -> Result<Object, String> {
    if bytes.len() > LONGEST {
        return Err("its pickle is too long for one of tensors alone".to_owned());
    }
    let (mut stack, mut rest, mut spent) = (Stack::empty(), bytes, 0);
    loop {
        fits(rest)?;
        if stack.read(&mut rest).map_err(|error| format!("its pickle can't be read: {}", first_line(&error)))? {
            break;
        }
        if let Some(top) = stack.stack().last() {
            named(top)?;
            weigh(top, 0, &mut spent)?;
        }
    }
    stack.finalize().map_err(|_| "its pickle is empty".to_owned())
}

/// What an error of Candle says: with `RUST_BACKTRACE` a backtrace follows in further lines.
fn first_line(error: &Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// Refuses an opcode that announces more than what follows it, before anything is allocated for it.
fn fits(rest: &[u8]) -> Result<(), String> {
    match rest {
        [] => Err("its pickle is cut off".to_owned()),
        [b'X', a, b, c, d, tail @ ..] if u32::from_le_bytes([*a, *b, *c, *d]) as usize > tail.len() => {
            Err("its pickle is cut off inside a text".to_owned())
        }
        [0x8a, count, ..] if *count > 8 => Err("its pickle has a number that is too large".to_owned()),
        _ => Ok(()),
    }
}

/// Refuses names of anything but tensors.
fn named(top: &Object) -> Result<(), String> {
    match top {
        Object::Class { module_name, class_name } if !NAMED.contains(&(module_name.as_str(), class_name.as_str())) => {
            Err(format!(
                "it names `{module_name}.{class_name}`, and a state_dict holds tensors alone; nothing of it was executed. \
                 Save it as torch.save(model.state_dict(), FILE)"
            ))
        }
        _ => Ok(()),
    }
}

/// Counts the nodes of a tree.
fn weigh(object: &Object, depth: usize, spent: &mut usize) -> Result<(), String> {
    *spent += 1;
    if depth > DEEPEST || *spent > MOST {
        return Err("its pickle is no state_dict: too deep or too large".to_owned());
    }
    match object {
        Object::Tuple(items) | Object::List(items) => items.iter().try_for_each(|item| weigh(item, depth + 1, spent)),
        Object::Dict(items) => items.iter().try_for_each(|(key, item)| {
            weigh(key, depth + 1, spent)?;
            weigh(item, depth + 1, spent)
        }),
        Object::Reduce { callable, args } | Object::Build { callable, args } => {
            weigh(callable, depth + 1, spent)?;
            weigh(args, depth + 1, spent)
        }
        Object::PersistentLoad(id) => weigh(id, depth + 1, spent),
        _ => Ok(()),
    }
}
