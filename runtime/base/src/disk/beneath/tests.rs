//! Every function at names that are links, fifos and folders.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use super::*;

/// A folder `run` with hostile names, and beside it the folder `outside` with a file that nothing may change.
fn hostile() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().expect("a folder");
    let (run, outside) = (place.path().join("run"), place.path().join("outside"));
    fs::create_dir_all(run.join("real")).expect("a folder");
    fs::create_dir(&outside).expect("a folder");
    fs::write(outside.join("file"), "mine").expect("a file");
    fs::write(run.join("file"), "text").expect("a file");
    symlink(outside.join("file"), run.join("link")).expect("a link");
    symlink(outside.join("absent"), run.join("dangling")).expect("a link");
    symlink(&outside, run.join("folder")).expect("a link");
    symlink("real", run.join("inside")).expect("a link");
    let made = Command::new("mkfifo").arg(run.join("fifo")).status().expect("mkfifo is there");
    assert!(made.success());
    (place, run)
}

const LINK: &str = "it is a link";

#[test]
fn only_regular_files_are_opened() {
    let (_place, run) = hostile();
    assert_eq!(read(&run, Path::new("file"), 4).expect("a file"), b"text");
    let long = read(&run, Path::new("file"), 3).expect_err("it is longer").to_string();
    assert!(long.contains("it has 4 bytes, and at most 3 are read"), "{long}");
    for access in [open, append, append_or_create, write] {
        let why = |name: &str| access(&run, Path::new(name)).expect_err(name).to_string();
        for name in ["link", "folder/file", "folder/new", "inside/file", "dangling"] {
            assert!(why(name).contains(LINK), "{name}: {}", why(name));
        }
        for name in ["fifo", "real"] {
            assert!(why(name).contains("it is no regular file"), "{name}: {}", why(name));
        }
        assert!(why("file/x").contains("it is no folder"));
        assert!(why("../outside/file").contains("leads out"));
    }
    assert!(open(&run, Path::new("/dev/zero")).is_err());
    assert_eq!(open(&run, Path::new("absent")).expect_err("it is not there").kind(), ErrorKind::NotFound);
}

#[test]
fn nothing_outside_is_changed() {
    let (place, run) = hostile();
    for name in ["link", "dangling", "folder/new", "fifo", "file"] {
        create_new(&run, Path::new(name)).expect_err(name);
    }
    for name in ["folder", "folder/new", "link", "fifo/x"] {
        create_folder(&run, Path::new(name)).expect_err(name);
    }
    create_folder(&run, Path::new("real/a/b")).expect("folders");
    create_folder(&run, Path::new("real/a/b")).expect("they are there");
    open_folder(&run, Path::new("real/a")).expect("a folder");
    assert!(open_folder(&run, Path::new("folder")).expect_err("a link").to_string().contains(LINK));
    assert!(rename(&run, Path::new("folder/file"), Path::new("folder/x")).is_err());
    assert!(rename(&run, Path::new("file"), Path::new("real/file")).is_err(), "from folder to folder");
    // A link is renamed, replaced and removed itself.
    rename(&run, Path::new("link"), Path::new("renamed")).expect("within the folder");
    rename(&run, Path::new("file"), Path::new("renamed")).expect("a link may be replaced");
    assert_eq!(read(&run, Path::new("renamed"), SMALL).expect("a file"), b"text");
    symlink(place.path().join("outside"), run.join("real/a/out")).expect("a link");
    for name in ["folder", "dangling", "fifo", "real", "absent", "absent/x"] {
        remove(&run, Path::new(name)).expect(name);
        assert!(!exists(&run.join(name)));
    }
    assert!(remove(&run, Path::new("inside/x")).is_err());
    let outside: Vec<_> = fs::read_dir(place.path().join("outside")).expect("a folder").flatten().collect();
    assert_eq!(outside.len(), 1);
    assert_eq!(fs::read(outside[0].path()).expect("it is there"), b"mine");
}

#[test]
fn the_folder_itself_may_be_a_link() {
    let (place, run) = hostile();
    symlink(&run, place.path().join("named")).expect("a link");
    let named = place.path().join("named");
    assert_eq!(read(&named, Path::new("file"), SMALL).expect("a file"), b"text");
    assert_eq!(read(&named, Path::new("./file"), SMALL).expect("a file"), b"text");
    create_new(&named, Path::new("new")).expect("a new file");
    link(&named, Path::new("new"), Path::new("second")).expect("a hard link");
    assert_eq!(
        link(&named, Path::new("new"), Path::new("second")).expect_err("it is there").kind(),
        ErrorKind::AlreadyExists
    );
    assert!(is_owned(&run));
}

#[test]
fn a_sparse_file_takes_no_memory() {
    let (_place, run) = hostile();
    create_new(&run, Path::new("sparse")).and_then(|file| file.set_len(1 << 42)).expect("a long file");
    assert!(read(&run, Path::new("sparse"), RECORD).is_err());
    assert!(read(&run, Path::new("sparse"), u64::MAX).is_err(), "more than memory");
}
