//! A disk for tests: it notes every operation, fails where it is told to, and says what a cut of power can leave.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use rtc_base::disk::{Disk, FileSystem};
use rtc_base::rng::Key;

/// One operation on files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    CreateFolder(PathBuf),
    Create(PathBuf),
    Write(PathBuf, Vec<u8>),
    Append(PathBuf, Vec<u8>),
    Truncate(PathBuf, u64),
    Sync(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    SyncFolder(PathBuf),
}

impl Op {
    /// The operation and the name that it is about, without its folder.
    pub(crate) fn name(&self) -> String {
        let (what, path) = match self {
            Op::CreateFolder(path) => ("create", path),
            Op::Create(path) => ("open", path),
            Op::Write(path, _) => ("write", path),
            Op::Append(path, _) => ("append", path),
            Op::Truncate(path, _) => ("truncate", path),
            Op::Sync(path) | Op::SyncFolder(path) => ("sync", path),
            Op::Rename(_, path) => ("rename", path),
            Op::Remove(path) => ("remove", path),
        };
        format!("{what} {}", path.file_name().unwrap_or_default().to_string_lossy())
    }

    /// Does it on the real file system. Nothing is made durable: no power is cut in a test.
    fn run(&self) -> io::Result<()> {
        match self {
            Op::CreateFolder(path) => fs::create_dir_all(path),
            Op::Create(path) => real(path).create(path),
            Op::Write(path, bytes) => fs::write(path, bytes),
            Op::Append(path, bytes) => real(path).append(path, bytes),
            Op::Truncate(path, length) => real(path).truncate(path, *length),
            Op::Rename(from, to) => real(from).rename(from, to),
            Op::Remove(path) => real(path).remove(path),
            Op::Sync(path) | Op::SyncFolder(path) => fs::metadata(path).map(drop),
        }
    }

    /// The half of it that a disk that fills up lets through.
    fn half(&self) -> Option<Self> {
        match self {
            Op::Write(path, bytes) => Some(Op::Write(path.clone(), bytes[..bytes.len() / 2].to_vec())),
            Op::Append(path, bytes) => Some(Op::Append(path.clone(), bytes[..bytes.len() / 2].to_vec())),
            _ => None,
        }
    }
}

/// The real file system for the names in the folder of a path.
fn real(path: &Path) -> FileSystem {
    FileSystem::below(path.parent().expect("it is in a folder"))
}

/// The disk.
#[derive(Default)]
pub(crate) struct Tested {
    /// What was done.
    done: RefCell<Vec<Op>>,
    /// How many operations were asked for.
    asked: Cell<usize>,
    /// Those of these numbers fail.
    failing: RefCell<Range<usize>>,
    /// With this error.
    error: Cell<i32>,
}

impl Tested {
    /// One on which the operations of these numbers fail with an error of the system; a write leaves half of its bytes.
    pub(crate) fn failing(numbers: Range<usize>, error: i32) -> Self {
        Self { failing: RefCell::new(numbers), error: Cell::new(error), ..Self::default() }
    }

    /// Whether an operation has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.asked.get() > self.failing.borrow().start && !self.failing.borrow().is_empty()
    }

    /// Nothing fails from now on.
    pub(crate) fn heal(&self) {
        *self.failing.borrow_mut() = 0..0;
    }

    /// What was done since this was asked last.
    pub(crate) fn take(&self) -> Vec<Op> {
        self.done.take()
    }

    fn ask(&self, op: Op) -> io::Result<()> {
        let number = self.asked.get();
        self.asked.set(number + 1);
        if self.failing.borrow().contains(&number) {
            if let Some(half) = op.half() {
                half.run()?;
                self.done.borrow_mut().push(half);
            }
            return Err(io::Error::from_raw_os_error(self.error.get()));
        }
        op.run()?;
        self.done.borrow_mut().push(op);
        Ok(())
    }
}

impl Disk for Tested {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.ask(Op::CreateFolder(path.to_owned()))
    }

    fn create(&self, path: &Path) -> io::Result<()> {
        self.ask(Op::Create(path.to_owned()))
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.ask(Op::Write(path.to_owned(), bytes.to_owned()))
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.ask(Op::Append(path.to_owned(), bytes.to_owned()))
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        self.ask(Op::Truncate(path.to_owned(), length))
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        self.ask(Op::Sync(path.to_owned()))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.ask(Op::Rename(from.to_owned(), to.to_owned()))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.ask(Op::Remove(path.to_owned()))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.ask(Op::SyncFolder(path.to_owned()))
    }
}

/// What is on a disk and what of it is durable.
///
/// Every folder and every file has the states that it went through since it was synced last, the durable one first. A cut of power
/// leaves any one of them, of each folder and each file independently; of what was appended it leaves any part, and the rest may
/// be zeros. A file that was written and synced may still have no name.
pub(crate) struct Durable {
    root: PathBuf,
    nodes: Vec<Node>,
}

enum Node {
    /// Nodes by name.
    Folder(Vec<BTreeMap<String, usize>>),
    /// Contents.
    File(Vec<Vec<u8>>),
}

impl Durable {
    /// An empty folder.
    pub(crate) fn empty(root: &Path) -> Self {
        Self { root: root.to_owned(), nodes: vec![Node::Folder(vec![BTreeMap::new()])] }
    }

    /// A folder with all that is in it, durable.
    pub(crate) fn of(root: &Path) -> Self {
        let mut found = Self { root: root.to_owned(), nodes: vec![] };
        found.read(root);
        found
    }

    fn read(&mut self, path: &Path) -> usize {
        let at = self.nodes.len();
        if path.is_file() {
            self.nodes.push(Node::File(vec![fs::read(path).expect("a file")]));
            return at;
        }
        self.nodes.push(Node::Folder(vec![BTreeMap::new()]));
        for entry in fs::read_dir(path).expect("a folder") {
            let entry = entry.expect("its entries");
            let inside = self.read(&entry.path());
            let name = entry.file_name().to_string_lossy().into_owned();
            self.names(at).insert(name, inside);
        }
        at
    }

    /// The names in a folder now.
    fn names(&mut self, folder: usize) -> &mut BTreeMap<String, usize> {
        match &mut self.nodes[folder] {
            Node::Folder(states) => states.last_mut().expect("folders have a state"),
            Node::File(_) => panic!("a file has no names"),
        }
    }

    fn find(&mut self, path: &Path) -> Option<usize> {
        let inside = path.strip_prefix(&self.root).expect("a path below the root").to_owned();
        inside.iter().try_fold(0, |at, name| self.names(at).get(&*name.to_string_lossy()).copied())
    }

    /// The folder of a path and its last name.
    fn place(&mut self, path: &Path) -> (usize, String) {
        let folder = self.find(path.parent().expect("a path below the root")).expect("its folder is there");
        (folder, path.file_name().expect("a name").to_string_lossy().into_owned())
    }

    /// A new state of the names in a folder.
    fn rename(&mut self, folder: usize, change: impl FnOnce(&mut BTreeMap<String, usize>)) {
        let mut names = self.names(folder).clone();
        change(&mut names);
        if let Node::Folder(states) = &mut self.nodes[folder] {
            states.push(names);
        }
    }

    fn add(&mut self, path: &Path, node: Node) {
        let (folder, name) = self.place(path);
        let at = self.nodes.len();
        self.nodes.push(node);
        self.rename(folder, |names| _ = names.insert(name, at));
    }

    /// A new state of a file.
    fn change(&mut self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let at = self.find(path).expect("the file is there");
        if let Node::File(states) = &mut self.nodes[at] {
            let mut content = states.last().cloned().unwrap_or_default();
            change(&mut content);
            states.push(content);
        }
    }

    fn sync(&mut self, path: &Path) {
        let at = self.find(path).expect("it is there");
        match &mut self.nodes[at] {
            Node::Folder(states) => drop(states.drain(..states.len() - 1)),
            Node::File(states) => drop(states.drain(..states.len() - 1)),
        }
    }

    /// What the operation leaves when it has ended, or while it is under way: then nothing of it is durable.
    pub(crate) fn after(&mut self, op: &Op, ended: bool) {
        match op {
            Op::CreateFolder(path) => {
                let missing: Vec<PathBuf> =
                    path.ancestors().take_while(|at| *at != self.root).map(Path::to_owned).collect();
                for path in missing.iter().rev() {
                    if self.find(path).is_none() {
                        self.add(path, Node::Folder(vec![BTreeMap::new()]));
                    }
                }
            }
            Op::Create(path) | Op::Write(path, _) if self.find(path).is_none() => {
                self.add(path, Node::File(vec![vec![]]));
                self.after(op, ended);
            }
            Op::Create(_) => {}
            Op::Write(path, bytes) => {
                self.change(path, Vec::clear);
                self.change(path, |content| content.extend_from_slice(bytes));
                if ended {
                    self.sync(path);
                }
            }
            Op::Append(path, bytes) => self.change(path, |content| content.extend_from_slice(bytes)),
            Op::Truncate(path, length) => self.change(path, |content| content.truncate(*length as usize)),
            Op::Rename(from, to) => {
                let ((folder, from), (other, to)) = (self.place(from), self.place(to));
                assert_eq!(folder, other, "a rename within a folder");
                self.rename(folder, |names| {
                    let moved = names.remove(&from).expect("it is there");
                    names.insert(to, moved);
                });
            }
            Op::Remove(path) => {
                let Some(at) = self.find(path) else { return };
                let inside: Vec<String> = match &self.nodes[at] {
                    Node::Folder(_) => self.names(at).keys().cloned().collect(),
                    Node::File(_) => vec![],
                };
                inside.iter().for_each(|name| self.rename(at, |names| _ = names.remove(name)));
                let (folder, name) = self.place(path);
                self.rename(folder, |names| _ = names.remove(&name));
            }
            Op::Sync(path) | Op::SyncFolder(path) if ended => self.sync(path),
            Op::Sync(_) | Op::SyncFolder(_) => {}
        }
    }

    /// Writes into a new folder what a cut of power leaves, one of the possibilities.
    pub(crate) fn write(&self, to: &Path, key: Key) {
        let mut draws = key.draws();
        self.write_node(0, to, &mut |below| draws.below(below as u64) as usize);
    }

    fn write_node(&self, at: usize, to: &Path, draw: &mut impl FnMut(usize) -> usize) {
        match &self.nodes[at] {
            Node::Folder(states) => {
                fs::create_dir(to).expect("a new folder");
                for (name, inside) in &states[draw(states.len())] {
                    self.write_node(*inside, &to.join(name), draw);
                }
            }
            Node::File(states) => {
                let at = draw(states.len());
                let mut content = states[at].clone();
                if let Some(next) = states.get(at + 1).filter(|next| next.starts_with(&content)) {
                    let (from, whole) = (content.len(), next.len());
                    content.extend_from_slice(&next[from..from + draw(whole - from + 1)]);
                    if draw(3) == 0 {
                        content.resize(whole, 0);
                    }
                }
                fs::write(to, content).expect("a new file");
            }
        }
    }
}
