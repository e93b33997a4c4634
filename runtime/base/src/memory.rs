//! What memory the system lets this process have.

use std::fs;

/// Bytes of memory that this process can have, where the system says: what the machine has, what its control groups and those around
/// them may use, and its limit of addresses (`ulimit -v`).
pub fn machine() -> Option<u64> {
    let groups = groups(&read("/proc/self/cgroup")).into_iter().filter_map(|file| limit(&read(&file)));
    let addresses = addresses(&read("/proc/self/limits"), &read("/proc/self/status"));
    groups.chain(total(&read("/proc/meminfo"))).chain(addresses).min()
}

/// The files with the limits of the control groups of a process by `/proc/self/cgroup`, and of all groups around them: of version 2,
/// and of version 1. Inside a container a group may be mounted as the root.
fn groups(own: &str) -> Vec<String> {
    let mut files = vec![];
    for line in own.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let (root, name) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            list if list.split(',').any(|one| one == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        let mut path = path.trim_end_matches('/');
        loop {
            files.push(format!("{root}{path}/{name}"));
            match path.rfind('/') {
                Some(at) => path = &path[..at],
                None => break,
            }
        }
    }
    files
}

/// Bytes that a limit of addresses leaves: those that are only reserved, as for stacks, count for it and hold nothing.
fn addresses(limits: &str, status: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let most: u64 = line.split_whitespace().next()?.parse().ok()?;
    let size = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
    };
    let reserved = size("VmSize:").zip(size("VmRSS:")).map_or(0, |(size, used)| size.saturating_sub(used));
    Some(most.saturating_sub(reserved))
}

/// The text of a file of the system; empty where there is none.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Bytes of memory by `/proc/meminfo`, which counts in KiB.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Bytes that the control group may use; `max` is no limit.
fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_the_system_are_read() {
        assert_eq!(total("MemTotal:       24 kB\nMemFree:  1 kB\n"), Some(24 * 1024));
        assert_eq!(total(""), None);
        assert_eq!([limit("4096\n"), limit("max\n"), limit("")], [Some(4096), None, None]);
    }

    #[test]
    fn limits_of_groups_and_addresses_are_read() {
        let nested = ["/a/b/", "/a/", "/"].map(|path| format!("/sys/fs/cgroup{path}memory.max"));
        assert_eq!(groups("0::/a/b\n"), nested);
        let first = ["/a/", "/"].map(|path| format!("/sys/fs/cgroup/memory{path}memory.limit_in_bytes"));
        assert_eq!(groups("12:cpu,cpuacct:/a\n5:memory:/a\n"), first);
        assert_eq!((groups("0::/\n").len(), groups("").len()), (1, 0));
        let limits = "Max cpu time              unlimited            unlimited            seconds\n\
                      Max address space         8192000              unlimited            bytes\n";
        let status = "VmSize:\t    2000 kB\nVmRSS:\t     500 kB\n";
        assert_eq!(addresses(limits, status), Some(8_192_000 - 1500 * 1024));
        assert_eq!(
            addresses("Max address space         unlimited            unlimited            bytes\n", status),
            None
        );
    }
}
