//! What goes to a device, in order: uploads that wait for company, and commands, which are started one by one or, where the same
//! series comes again, with one call.
//!
//! Between two waits of the host, commands are cut into series of [`LONGEST`]. A series that was seen before is recorded, and from
//! then on replayed. It is found again by its content, every argument and every address included, so a replay does what
//! direct launches would do, to the bit: what differs is another series. Two habits elsewhere make series come again. Memory
//! is handed out in one order, so equal runs get equal addresses; and numbers that change from step to step (random keys, learning
//! rates, denominators) are uploaded and read from there, and are no arguments.
//!
//! What can't be asked of the device is a failure, too. It sticks: everything after it does nothing.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use super::device::{
    Device, DeviceCommand, DeviceRange, GeneratedKernel, KernelArgument, KernelTarget, LaunchShape, MatrixProduct,
    RecordedGraph,
};

/// Commands of a series at most: few enough that the device works on one while the host makes the next.
pub const LONGEST: usize = 128;

/// After so many commands the start of a series shows whether it can be one that was recorded; if not, nothing more is held back.
const PREFIX: usize = 4;

/// Commands that are kept recorded at most; the series that was used longest ago goes first.
const KEPT: usize = 1 << 15;

/// How many series that were seen once are remembered.
const SEEN: usize = 1 << 12;

/// Bytes between two uploads that go as one.
const GAP: u64 = 64;

/// The way to a device.
pub struct Queue {
    device: Rc<dyn Device>,
    records: bool,
    state: RefCell<QueueState>,
    /// What could not be asked of the device.
    failure: RefCell<Option<String>>,
}

#[derive(Default)]
struct QueueState {
    /// Every kernel that was started, so that commands share its name.
    names: BTreeSet<Rc<str>>,
    /// Where the next bytes go, and those that were not sent yet.
    pending: (u64, Vec<u8>),
    series: CommandSeries,
    /// What was recorded, by its hash.
    recorded: BTreeMap<u64, RecordedSeries>,
    /// Hashes of the first commands of what was recorded, and how many series begin so.
    beginnings: BTreeMap<u64, usize>,
    /// Commands of all that was recorded.
    kept: usize,
    seen: BTreeSet<u64>,
    /// The same in the order in which they were seen.
    order: VecDeque<u64>,
    clock: u64,
}

/// The commands since the last series ended.
#[derive(Default)]
struct CommandSeries {
    commands: Vec<DeviceCommand>,
    hash: CommandHash,
    /// Whether they were started already.
    started: bool,
}

struct RecordedSeries {
    commands: Vec<DeviceCommand>,
    graph: RecordedGraph,
    used: u64,
}

/// A fast hash, equal on every machine. A match is confirmed by comparing the content.
#[derive(Clone, Default)]
struct CommandHash(u64);

impl Hasher for CommandHash {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Queue {
    pub(super) fn new(device: Rc<dyn Device>) -> Self {
        Self { records: device.records(), device, state: RefCell::default(), failure: RefCell::default() }
    }

    /// What the device is, for people.
    pub fn name(&self) -> String {
        self.device.name()
    }

    /// Threads of a block; a power of two, and whole warps.
    pub fn threads(&self) -> u32 {
        self.device.threads()
    }

    /// What kernels are made for.
    pub fn target(&self) -> KernelTarget {
        self.device.target()
    }

    /// Makes the kernels of a plan ready.
    pub fn prepare(&self, kernels: &[GeneratedKernel]) {
        self.device.prepare(kernels);
    }

    /// The first failure, here or of the device, if there was one so far.
    pub fn failure(&self) -> Option<String> {
        self.flush();
        self.failure.borrow().clone().or_else(|| self.device.failure())
    }

    /// From now on nothing more is done.
    pub(super) fn fail(&self, reason: String) {
        self.failure.borrow_mut().get_or_insert(reason);
        let mut state = self.state.borrow_mut();
        state.pending.1.clear();
        state.series = CommandSeries::default();
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    pub(super) fn allocate(&self, bytes: usize) -> Result<u64, String> {
        self.device.allocate(bytes)
    }

    /// Gives memory back when all that was asked for is done. No recorded series knows it afterwards.
    pub(super) fn release(&self, blocks: &[DeviceRange]) {
        self.flush();
        self.forget_all_with(blocks);
        blocks.iter().for_each(|range| self.device.release(range.at, range.bytes));
    }

    /// Copies from the host to a place that no command since the last wait or flush has to do with: it may happen before them.
    pub(super) fn upload(&self, to: u64, from: &[u8]) {
        if self.has_failed() {
            return;
        }
        let mut state = self.state.borrow_mut();
        let (at, bytes) = &state.pending;
        let end = at + bytes.len() as u64;
        if bytes.is_empty() || to < end || to - end > GAP {
            self.send(&mut state);
            state.pending.0 = to;
        }
        let (at, bytes) = &mut state.pending;
        bytes.resize((to - *at) as usize, 0);
        bytes.extend_from_slice(from);
    }

    /// Copies from the host in the order of the commands.
    pub(super) fn write(&self, to: u64, from: &[u8]) {
        if self.has_failed() {
            return;
        }
        self.flush();
        self.device.upload(to, from);
    }

    /// Waits for all work, and copies to the host; zeros after a failure.
    pub(super) fn download(&self, from: u64, to: &mut [u8]) {
        if self.has_failed() {
            return to.fill(0);
        }
        self.flush();
        self.device.download(from, to);
    }

    /// Copies inside the device.
    pub fn copy(&self, from: u64, to: u64, bytes: usize) {
        self.push(DeviceCommand::Copy { from, to, bytes });
    }

    /// Makes bytes zero.
    pub fn clear(&self, at: u64, bytes: usize) {
        self.push(DeviceCommand::Clear { at, bytes });
    }

    /// Tells a device that watches that a block is handed out, of which so many bytes are used.
    pub(super) fn taken(&self, at: u64, bytes: usize) {
        if self.device.watches() {
            self.push(DeviceCommand::Taken { at, bytes });
        }
    }

    /// A kernel.
    pub fn launch(&self, kernel: &str, shape: LaunchShape, args: &[KernelArgument]) {
        if let Some(KernelArgument::TooLarge(n)) = args.iter().find(|arg| matches!(arg, KernelArgument::TooLarge(_))) {
            return self
                .fail(format!("`{kernel}` is given {n} things, which is more than it counts: take smaller batches"));
        }
        let known = self.state.borrow().names.get(kernel).cloned();
        let kernel = known.unwrap_or_else(|| {
            let name: Rc<str> = Rc::from(kernel);
            self.state.borrow_mut().names.insert(name.clone());
            name
        });
        self.push(DeviceCommand::Launch { kernel, shape, args: args.to_vec() });
    }

    /// A matrix product, if the device has a library with a way to do it; `false` if it has none.
    pub fn product(&self, product: &MatrixProduct) -> bool {
        let takes = self.device.multiplies(product);
        if takes {
            self.push(DeviceCommand::Product(*product));
        }
        takes
    }

    /// Whether products like this one may be `all`: the library does them so, or does none of them.
    pub(super) fn multiplies_together(&self, one: &MatrixProduct, all: &MatrixProduct) -> bool {
        self.device.multiplies(all) || !self.device.multiplies(one)
    }

    /// Starts all that was asked for.
    pub fn flush(&self) {
        let mut state = self.state.borrow_mut();
        self.send(&mut state);
        self.close(&mut state);
    }

    fn push(&self, command: DeviceCommand) {
        if self.has_failed() {
            return;
        }
        let mut state = self.state.borrow_mut();
        if !self.records {
            self.send(&mut state);
            return self.device.start(&command);
        }
        command.hash(&mut state.series.hash);
        state.series.commands.push(command);
        let count = state.series.commands.len();
        let hopeless = count == PREFIX && !state.beginnings.contains_key(&state.series.hash.finish());
        if hopeless || state.series.started {
            let first = if state.series.started { count - 1 } else { 0 };
            self.start(&mut state, first);
        }
        if count == LONGEST {
            self.close(&mut state);
        }
    }

    /// Sends the uploads that wait.
    fn send(&self, state: &mut QueueState) {
        let (to, bytes) = &mut state.pending;
        if !bytes.is_empty() {
            self.device.upload(*to, bytes);
            bytes.clear();
        }
    }

    /// Starts the commands of the series from `first` on.
    fn start(&self, state: &mut QueueState, first: usize) {
        self.send(state);
        state.series.started = true;
        state.series.commands[first..].iter().for_each(|command| self.device.start(command));
    }

    /// Ends the series: replays it if it is known, else starts what was not started, and records it if it was seen before.
    fn close(&self, state: &mut QueueState) {
        if state.series.commands.is_empty() {
            return;
        }
        state.clock += 1;
        let (hash, now) = (state.series.hash.finish(), state.clock);
        let known = state.recorded.get_mut(&hash).filter(|recorded| recorded.commands == state.series.commands);
        if let Some(recorded) = known.filter(|_| !state.series.started) {
            recorded.used = now;
            let graph = recorded.graph;
            self.send(state);
            self.device.replay(graph);
            state.series = CommandSeries::default();
            return;
        }
        if !state.series.started {
            self.start(state, 0);
        }
        let series = std::mem::take(&mut state.series);
        if series.commands.len() >= PREFIX && !state.recorded.contains_key(&hash) {
            self.learn(state, hash, series.commands);
        }
    }

    /// Records a series that was seen before; remembers one that was not.
    fn learn(&self, state: &mut QueueState, hash: u64, commands: Vec<DeviceCommand>) {
        if !state.seen.remove(&hash) {
            state.seen.insert(hash);
            state.order.push_back(hash);
            if state.order.len() > SEEN
                && let Some(oldest) = state.order.pop_front()
            {
                state.seen.remove(&oldest);
            }
            return;
        }
        while state.kept + commands.len() > KEPT
            && let Some((oldest, _)) = state.recorded.iter().min_by_key(|(_, recorded)| recorded.used)
        {
            let oldest = *oldest;
            self.forget(state, oldest);
        }
        let graph = self.device.record(&commands);
        state.kept += commands.len();
        *state.beginnings.entry(beginning(&commands)).or_default() += 1;
        state.recorded.insert(hash, RecordedSeries { commands, graph, used: state.clock });
    }

    /// Forgets every recorded series that has to do with some blocks.
    fn forget_all_with(&self, blocks: &[DeviceRange]) {
        let mut ends: Vec<(u64, u64)> = blocks.iter().map(|range| (range.at, range.at + range.bytes as u64)).collect();
        ends.sort_unstable();
        let inside = |at: u64| {
            let before = ends.partition_point(|(start, _)| *start <= at);
            before > 0 && at < ends[before - 1].1
        };
        let has = |command: &DeviceCommand| command.addresses().into_iter().any(inside);
        let mut state = self.state.borrow_mut();
        let old = state.recorded.iter().filter(|(_, recorded)| recorded.commands.iter().any(has));
        let old: Vec<u64> = old.map(|(hash, _)| *hash).collect();
        old.into_iter().for_each(|hash| self.forget(&mut state, hash));
    }

    fn forget(&self, state: &mut QueueState, hash: u64) {
        let Some(old) = state.recorded.remove(&hash) else { return };
        self.device.forget(old.graph);
        state.kept -= old.commands.len();
        let first = beginning(&old.commands);
        if let Some(count) = state.beginnings.get_mut(&first) {
            *count -= 1;
            if *count == 0 {
                state.beginnings.remove(&first);
            }
        }
    }
}

/// The hash of the first commands of a series.
fn beginning(commands: &[DeviceCommand]) -> u64 {
    let mut hash = CommandHash::default();
    commands.iter().take(PREFIX).for_each(|command| command.hash(&mut hash));
    hash.finish()
}

impl Drop for Queue {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        state.recorded.values().for_each(|recorded| self.device.forget(recorded.graph));
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({:?})", self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::int;
    use super::*;

    /// A device that puts down what it is told.
    #[derive(Debug, Default)]
    struct Diary {
        lines: RefCell<Vec<String>>,
        kept: RefCell<BTreeMap<RecordedGraph, usize>>,
    }

    impl Diary {
        fn note(&self, line: String) {
            self.lines.borrow_mut().push(line);
        }

        fn read(&self) -> String {
            self.lines.take().join(" ")
        }
    }

    impl Device for Diary {
        fn name(&self) -> String {
            "a diary".to_owned()
        }
        fn threads(&self) -> u32 {
            32
        }
        fn target(&self) -> KernelTarget {
            KernelTarget::default()
        }
        fn prepare(&self, _: &[GeneratedKernel]) {}
        fn allocate(&self, _: usize) -> Result<u64, String> {
            Err("a diary has no memory".to_owned())
        }
        fn release(&self, at: u64, bytes: usize) {
            self.note(format!("release{at}+{bytes}"));
        }
        fn upload(&self, to: u64, from: &[u8]) {
            self.note(format!("up{to}+{}", from.len()));
        }
        fn download(&self, _: u64, _: &mut [u8]) {
            self.note("down".to_owned());
        }
        fn multiplies(&self, _: &MatrixProduct) -> bool {
            false
        }
        fn start(&self, command: &DeviceCommand) {
            let DeviceCommand::Launch { kernel, .. } = command else { return };
            self.note(kernel.to_string());
        }
        fn records(&self) -> bool {
            true
        }
        fn record(&self, commands: &[DeviceCommand]) -> RecordedGraph {
            let graph = RecordedGraph(self.kept.borrow().last_key_value().map_or(0, |(last, _)| last.0 + 1));
            self.kept.borrow_mut().insert(graph, commands.len());
            self.note(format!("record{}", commands.len()));
            graph
        }
        fn replay(&self, graph: RecordedGraph) {
            self.note(format!("replay{}", graph.0));
        }
        fn forget(&self, graph: RecordedGraph) {
            self.kept.borrow_mut().remove(&graph);
            self.note(format!("forget{}", graph.0));
        }
        fn failure(&self) -> Option<String> {
            None
        }
    }

    fn queue() -> (Rc<Diary>, Queue) {
        let diary = Rc::new(Diary::default());
        (diary.clone(), Queue::new(diary))
    }

    fn launch(queue: &Queue, kernel: &str, arg: KernelArgument) {
        queue.launch(kernel, LaunchShape { grid: [1; 3], threads: 32 }, &[arg]);
    }

    /// Five kernels, the last one with this argument, and what the device was told.
    fn five(diary: &Diary, queue: &Queue, arg: KernelArgument) -> String {
        ["a", "b", "c", "d"].iter().for_each(|kernel| launch(queue, kernel, KernelArgument::Int(1)));
        launch(queue, "e", arg);
        queue.flush();
        diary.read()
    }

    #[test]
    fn what_comes_a_third_time_is_replayed() {
        let (diary, queue) = queue();
        let first = KernelArgument::Real(0.0);
        assert_eq!(five(&diary, &queue, first), "a b c d e");
        assert_eq!(five(&diary, &queue, first), "a b c d e record5");
        assert_eq!(five(&diary, &queue, first), "replay0");
        assert_eq!(five(&diary, &queue, KernelArgument::Real(-0.0)), "a b c d e", "other bits are another argument");
        assert_eq!(five(&diary, &queue, KernelArgument::Address(0)), "a b c d e", "of the same bits, but not the same");
        assert_eq!(five(&diary, &queue, first), "replay0");
    }

    #[test]
    fn nothing_is_held_back_that_was_never_recorded() {
        let (diary, queue) = queue();
        ["a", "b", "c"].iter().for_each(|kernel| launch(&queue, kernel, KernelArgument::Int(1)));
        assert_eq!(diary.read(), "");
        launch(&queue, "d", KernelArgument::Int(1));
        assert_eq!(diary.read(), "a b c d");
        launch(&queue, "e", KernelArgument::Int(1));
        assert_eq!(diary.read(), "e");
    }

    #[test]
    fn uploads_go_together_and_first() {
        let (diary, queue) = queue();
        let arg = KernelArgument::Int(0);
        for _ in 0..2 {
            five(&diary, &queue, arg);
        }
        queue.upload(1000, &[1; 10]);
        launch(&queue, "a", KernelArgument::Int(1));
        queue.upload(1064, &[2; 8]);
        ["b", "c", "d"].iter().for_each(|kernel| launch(&queue, kernel, KernelArgument::Int(1)));
        launch(&queue, "e", arg);
        queue.download(0, &mut []);
        assert_eq!(diary.read(), "up1000+72 replay0 down");
        queue.upload(1000, &[1; 10]);
        queue.upload(0, &[2; 8]);
        launch(&queue, "a", arg);
        queue.write(7, &[1]);
        assert_eq!(diary.read(), "up1000+10 up0+8 a up7+1", "a write comes after what was asked for before");
    }

    #[test]
    fn memory_goes_when_all_is_done_and_with_the_series_that_know_it() {
        let (diary, queue) = queue();
        let [old, new] = [100, 356].map(KernelArgument::Address);
        for arg in [old, old, new, new] {
            five(&diary, &queue, arg);
        }
        ["a", "b"].iter().for_each(|kernel| launch(&queue, kernel, KernelArgument::Int(1)));
        queue.upload(1000, &[1; 10]);
        queue.release(&[DeviceRange { at: 512, bytes: 256 }, DeviceRange { at: 0, bytes: 256 }]);
        assert_eq!(diary.read(), "up1000+10 a b forget0 release512+256 release0+256");
        assert_eq!(five(&diary, &queue, new), "replay1");
        assert_eq!(five(&diary, &queue, old), "a b c d e", "it is forgotten");
    }

    #[test]
    fn a_size_that_kernels_do_not_hold_is_a_failure() {
        let (diary, queue) = queue();
        launch(&queue, "a", int(i32::MAX as usize));
        assert_eq!((queue.failure(), diary.read()), (None, "a".to_owned()));
        launch(&queue, "b", KernelArgument::Int(1));
        launch(&queue, "c", int(i32::MAX as usize + 1));
        launch(&queue, "d", KernelArgument::Int(1));
        queue.upload(1000, &[1; 10]);
        let mut found = [1; 2];
        queue.download(7, &mut found);
        assert_eq!((found, diary.read()), ([0; 2], String::new()), "nothing is done any more");
        assert!(queue.failure().is_some_and(|reason| reason.contains("`c`") && reason.contains("2147483648")));
    }

    #[test]
    fn long_series_are_cut_and_the_oldest_go() {
        let (diary, queue) = queue();
        let rounds = KEPT / LONGEST + 3;
        for round in 0..rounds {
            for _ in 0..2 {
                (0..LONGEST).for_each(|n| launch(&queue, "a", KernelArgument::Whole((round * LONGEST + n) as i64)));
            }
        }
        assert_eq!(diary.kept.borrow().values().sum::<usize>(), KEPT);
        diary.read();
        for (round, expected) in [(rounds - 1, format!("replay{}", rounds - 1)), (0, ["a"; LONGEST].join(" "))] {
            (0..LONGEST).for_each(|n| launch(&queue, "a", KernelArgument::Whole((round * LONGEST + n) as i64)));
            assert_eq!(diary.read(), expected);
        }
        drop(queue);
        assert!(diary.kept.borrow().is_empty(), "what was recorded goes with the queue");
    }
}
