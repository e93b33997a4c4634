//! What machine code of NVIDIA's GPUs says of its kernels: registers, memory, and calls, read from the ELF file that a compiler makes.
//!
//! The format is not documented by NVIDIA. What is read here agrees with `cuobjdump --dump-resource-usage` and `-sass` of CUDA 13 for
//! compute capabilities 8.0, 9.0 and 10.0.

use std::collections::BTreeMap;

/// What a kernel takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Registers of a thread.
    pub registers: usize,
    /// Bytes of a thread's stack.
    pub stack: usize,
    /// Bytes of a thread's memory for what registers do not hold.
    pub local: usize,
    /// Bytes of shared memory of a block that are declared.
    pub shared: usize,
    /// Calls of functions.
    pub calls: usize,
    /// Those of them inside of loops.
    pub calls_in_loops: usize,
}

/// Bytes of an instruction.
const INSTRUCTION: usize = 16;

/// Bytes of shared memory that belong to the system, counted with a kernel's from compute capability 9.0 on.
const RESERVED: usize = 1024;

/// Attributes of the section `.nv.info` with a symbol and a number.
const REGISTERS: u8 = 0x2f;
const FRAME: u8 = 0x11;

/// What every kernel takes, by its name. `None` if it is not such a file.
pub fn usage(code: &[u8]) -> Option<BTreeMap<String, Usage>> {
    let elf = Elf::new(code)?;
    let mut all = BTreeMap::new();
    for section in &elf.sections {
        let Some(kernel) = section.name.strip_prefix(".text.") else { continue };
        let of = |part: &str| {
            elf.sections.iter().find(|other| other.name == format!("{part}{kernel}")).map_or(0, |s| s.size)
        };
        let reserved = if elf.capability >= 90 { RESERVED } else { 0 };
        let (calls, calls_in_loops) = calls(elf.bytes(section)?, elf.capability);
        all.insert(
            kernel.to_owned(),
            Usage {
                registers: elf.number(REGISTERS, kernel)?,
                stack: elf.number(FRAME, kernel)?,
                local: of(".nv.local."),
                shared: of(".nv.shared.").saturating_sub(reserved),
                calls,
                calls_in_loops,
            },
        );
    }
    Some(all)
}

/// How many instructions call a function, and how many of those lie between a jump backward and its target.
fn calls(code: &[u8], capability: u32) -> (usize, usize) {
    let (mut calls, mut loops) = (vec![], vec![]);
    for (n, instruction) in code.chunks_exact(INSTRUCTION).enumerate() {
        let at = (n * INSTRUCTION) as i64;
        let [low, high] =
            [0, 8].map(|start| u64::from_le_bytes(instruction[start..start + 8].try_into().expect("8 bytes")));
        match low & 0xFFF {
            // CALL.ABS and CALL.REL.
            0x943 | 0x944 => calls.push(at),
            // BRA, with the distance from the next instruction: 50 bits from bit 32 on, of which the lowest are flags; later in
            // units of 4, 8 bits from bit 16 on and 48 from bit 34 on.
            0x947 => {
                let high = high & 0x3_FFFF;
                let distance = if capability < 90 {
                    ((low >> 32 | high << 32) as i64) << 14 >> 14 & !(INSTRUCTION as i64 - 1)
                } else {
                    ((low >> 16 & 0xFF | low >> 34 << 8 | high << 38) as i64) << 8 >> 8 << 2
                };
                let target = at + INSTRUCTION as i64 + distance;
                if target < at {
                    loops.push(target..=at);
                }
            }
            _ => {}
        }
    }
    let inside = calls.iter().filter(|at| loops.iter().any(|range| range.contains(at))).count();
    (calls.len(), inside)
}

struct Elf<'c> {
    code: &'c [u8],
    capability: u32,
    sections: Vec<Section>,
}

struct Section {
    name: String,
    start: usize,
    size: usize,
    /// Whether its bytes are in the file.
    stored: bool,
}

impl<'c> Elf<'c> {
    fn new(code: &'c [u8]) -> Option<Self> {
        // A 64-bit file, lowest byte first, for NVIDIA's architecture.
        if !code.starts_with(b"\x7fELF\x02\x01") || half(code, 18)? != 190 {
            return None;
        }
        let (table, size) = (long(code, 40)?, half(code, 58)?);
        let headers = (0..half(code, 60)?).map(|n| code.get(table + n * size..));
        let headers: Vec<&[u8]> = headers.collect::<Option<_>>()?;
        let names = long(headers.get(half(code, 62)?)?, 24)?;
        let section = |header: &&[u8]| {
            const NOBITS: usize = 8;
            let name = text(code, names + word(header, 0)?)?;
            Some(Section {
                name,
                start: long(header, 24)?,
                size: long(header, 32)?,
                stored: word(header, 4)? != NOBITS,
            })
        };
        let sections = headers.iter().map(section).collect::<Option<_>>()?;
        Some(Self { code, capability: (word(code, 48)? >> 8 & 0xFF) as u32, sections })
    }

    fn named(&self, name: &str) -> Option<&'c [u8]> {
        self.bytes(self.sections.iter().find(|section| section.name == name)?)
    }

    fn bytes(&self, section: &Section) -> Option<&'c [u8]> {
        self.code.get(section.start..section.start + section.size).filter(|_| section.stored)
    }

    /// The number of this attribute of a symbol.
    fn number(&self, attribute: u8, symbol: &str) -> Option<usize> {
        let mut info = self.named(".nv.info")?;
        while info.len() >= 4 {
            // The format with a size, the attribute, the size; others hold what they say in these bytes.
            let size = if info[0] == 4 { half(info, 2)? } else { 0 };
            if info[0] == 4 && info[1] == attribute && self.symbol(word(info, 4)?)? == symbol {
                return word(info, 8);
            }
            info = info.get(4 + size..)?;
        }
        None
    }

    fn symbol(&self, n: usize) -> Option<String> {
        text(self.named(".strtab")?, word(self.named(".symtab")?, 24 * n)?)
    }
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?).into())
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize)
}

fn long(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?) as usize)
}

fn text(bytes: &[u8], at: usize) -> Option<String> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}
