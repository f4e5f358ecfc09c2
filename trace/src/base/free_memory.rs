//! The amount of memory that is still free.

/// Bytes that may be had before the machine, or the container, runs out of memory and a program is killed for
/// it. What only caches files counts as left. None: the system does not say.
pub fn memory() -> Option<u64> {
    let read = |path| std::fs::read_to_string(path).ok();
    let number = |path| read(path)?.trim().parse::<u64>().ok();
    let machine = available(&read("/proc/meminfo")?);
    let container = number("/sys/fs/cgroup/memory.max").zip(number("/sys/fs/cgroup/memory.current"));
    let container = container.map(|(most, now)| {
        let cached = read("/sys/fs/cgroup/memory.stat").and_then(|stat| inactive(&stat)).unwrap_or(0);
        most.saturating_sub(now.saturating_sub(cached))
    });
    machine.into_iter().chain(container).min()
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// Files' pages that nobody has used lately: a container's usage has them, though they go before anybody is
/// killed.
fn inactive(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("inactive_file "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_had_is_known() {
        assert_eq!(available("MemTotal:  9 kB\nMemAvailable:    2048 kB\nBuffers: 7 kB\n"), Some(2 << 20));
        assert_eq!(inactive("file 9\nactive_file 3\ninactive_file 4096\nslab 1\n"), Some(4096));
        assert!(memory().is_some_and(|room| room > 0));
    }
}
