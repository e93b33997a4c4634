//! The processor that figures belong to, in a line above every table.

use rtc_kernel::Vectors;

/// Name, family and model, threads, caches of a core and vectors, as far as the system says them.
pub(crate) fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name));
        line.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned()))
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut parts = vec![field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned())];
    if let (Some(family), Some(model)) = (field("cpu family"), field("model")) {
        parts.push(format!("family {family} model {model}"));
    }
    parts.push(format!("{threads} threads"));
    let caches = (0..8).filter_map(|n| {
        let folder = format!("/sys/devices/system/cpu/cpu0/cache/index{n}");
        let of =
            |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).ok().map(|text| text.trim().to_owned());
        (of("type")? != "Instruction").then(|| Some(format!("L{} {}", of("level")?, of("size")?)))?
    });
    parts.extend(caches);
    parts.push(format!("vectors {}", Vectors::allowed().name()));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_processor_has_threads_and_vectors() {
        let text = super::machine();
        assert!(text.contains(" threads, ") && text.ends_with("vectors widest"), "{text}");
    }
}
