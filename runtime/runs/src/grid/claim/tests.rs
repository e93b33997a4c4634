//! Claims of many threads and processes on the same cells.

use std::collections::BTreeSet;
use std::env;
use std::path::Path;
use std::process::Command;
use std::thread;

use super::*;
use rtc_base::disk::Disk;

/// Longer than a test takes.
const LONG: Duration = Duration::from_secs(600);

/// Shorter than a test waits.
const SHORT: Duration = Duration::from_millis(60);

fn watch(grid: &Path, lease: Duration) -> Watch {
    Watch::new(Claims::of(grid, lease))
}

/// Takes a cell that is free.
fn take(watch: &mut Watch, cell: &str) -> Option<Claim> {
    match watch.look(cell).expect("claims can be read") {
        ClaimStatus::Free { highest, .. } => watch.claims().take(cell, highest).expect("claims can be written"),
        ClaimStatus::Held(_) => None,
    }
}

/// Writes a claim of a process that does not renew it: one of another machine, or one of this machine that has ended.
fn leave(grid: &Path, cell: &str, generation: u64, host: Option<&str>) {
    let mut holder = serde_json::to_value(Holder::this()).expect("JSON");
    match host {
        Some(host) => holder["host"] = host.into(),
        None => holder["start"] = 1.into(),
    }
    let record = serde_json::json!({ "token": "other", "holder": holder, "beats": 3, "released": false });
    let folder = grid.join(FOLDER).join(cell);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(format!("{generation}.json")), record.to_string()).expect("a file");
}

#[test]
fn a_cell_has_one_holder_until_it_is_given_up() {
    let grid = tempfile::tempdir().expect("a folder");
    let (mut one, mut two) = (watch(grid.path(), LONG), watch(grid.path(), LONG));
    let claim = take(&mut one, "a").expect("it is free");
    assert_eq!(claim.generation(), 1);
    let ClaimStatus::Held(held) = two.look("a").expect("readable") else { panic!("it is held") };
    assert_eq!(held.record.expect("a record").holder, Holder::this());
    assert!(take(&mut two, "a").is_none());
    assert!(take(&mut two, "b").is_some(), "another cell");
    drop(claim);
    assert_eq!(two.look("a").expect("readable"), ClaimStatus::Free { highest: 1, left: false });
    assert_eq!(take(&mut two, "a").map(|claim| claim.generation()), Some(2));
}

#[test]
fn of_many_takers_one_wins() {
    let grid = tempfile::tempdir().expect("a folder");
    let race = |highest: u64| {
        let won = thread::scope(|scope| {
            let racers: Vec<_> =
                (0..16).map(|_| scope.spawn(|| Claims::of(grid.path(), LONG).take("a", highest))).collect();
            let ends = racers.into_iter().map(|racer| racer.join().expect("no panic").expect("it can be written"));
            ends.collect::<Vec<_>>()
        });
        assert_eq!(won.iter().flatten().count(), 1, "after {highest}");
    };
    (0..20).for_each(race);
}

/// Takes every cell once, and writes down which claim it got; does nothing in an ordinary run of the tests.
#[test]
fn racer() {
    let Some(place) = env::var_os("RTC_CLAIM_RACE") else { return };
    let grid = Path::new(&place);
    let mut watch = watch(grid, LONG);
    for cell in 0..30 {
        if let Some(claim) = take(&mut watch, &cell.to_string())
            && claim.generation() == 1
        {
            fs::write(grid.join(format!("{cell}.{}", std::process::id())), "").expect("a file");
        }
    }
}

#[test]
fn of_many_processes_one_gets_every_first_claim() {
    let grid = tempfile::tempdir().expect("a folder");
    let program = env::current_exe().expect("this program");
    let start = || {
        let mut command = Command::new(&program);
        command.args(["--exact", "grid::claim::tests::racer"]).env("RTC_CLAIM_RACE", grid.path());
        command.stdout(std::process::Stdio::null()).spawn().expect("it starts")
    };
    let racers: Vec<_> = (0..6).map(|_| start()).collect();
    for mut racer in racers {
        assert!(racer.wait().expect("it ends").success());
    }
    let entries = fs::read_dir(grid.path()).expect("a folder").flatten();
    let names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let cells: Vec<&str> = names.iter().filter_map(|name| name.split_once('.')).map(|(cell, _)| cell).collect();
    assert_eq!((cells.len(), cells.iter().collect::<BTreeSet<_>>().len()), (30, 30), "{names:?}");
}

#[test]
fn a_silent_holder_is_replaced_and_its_process_told() {
    let grid = tempfile::tempdir().expect("a folder");
    leave(grid.path(), "a", 1, Some("elsewhere"));
    let mut one = watch(grid.path(), SHORT);
    assert!(take(&mut one, "a").is_none(), "it was seen for a moment only");
    thread::sleep(2 * SHORT);
    assert_eq!(one.look("a").expect("readable"), ClaimStatus::Free { highest: 1, left: true });
    let claim = take(&mut one, "a").expect("its lease is over");
    assert_eq!(claim.generation(), 2);
    // One that comes late finds that it is no longer the first that would be higher.
    assert!(Claims::of(grid.path(), SHORT).take("a", 1).expect("readable").is_none());
    assert!(claim.check().is_ok());
}

#[test]
fn a_claim_that_is_renewed_is_held_for_longer_than_a_lease() {
    let grid = tempfile::tempdir().expect("a folder");
    let lease = Duration::from_secs(2);
    let claim = Claims::of(grid.path(), lease).take("a", 0).expect("writable").expect("it is free");
    claim.tell(1, 10);
    let mut other = watch(grid.path(), lease);
    let start = std::time::Instant::now();
    let mut renewed = false;
    while start.elapsed() < lease + lease / 4 {
        match other.look("a").expect("readable") {
            ClaimStatus::Held(held) => renewed |= held.renewed,
            free @ ClaimStatus::Free { .. } => panic!("{free:?}"),
        }
        thread::sleep(lease / 20);
    }
    let ClaimStatus::Held(held) = other.look("a").expect("readable") else { panic!("it is held") };
    let far = held.record.and_then(|record| record.progress).expect("it was told");
    assert!(renewed && (far.update, far.total, far.rate) == (1, 10, None), "{far:?}");
}

#[test]
fn a_claim_of_a_process_that_ended_is_free_at_once() {
    let grid = tempfile::tempdir().expect("a folder");
    leave(grid.path(), "a", 1, None);
    let free = watch(grid.path(), LONG).look("a").expect("readable");
    if Path::new("/proc/1/stat").exists() {
        assert_eq!(free, ClaimStatus::Free { highest: 1, left: true });
    }
}

#[test]
fn one_that_lost_its_claim_writes_nothing() {
    let grid = tempfile::tempdir().expect("a folder");
    let claim = Claims::of(grid.path(), LONG).take("a", 0).expect("writable").expect("it is free");
    let (disk, path) = (Fenced::by(&claim, grid.path()), grid.path().join("x"));
    disk.write(&path, b"1").expect("it is held");
    assert!(!claim.is_lost());
    leave(grid.path(), "a", 2, Some("elsewhere"));
    let error = disk.append(&path, b"2").expect_err("it was taken over");
    assert!(error.to_string().contains("taken over by elsewhere"), "{error}");
    let others = [
        disk.write(&path, b"3"),
        disk.truncate(&path, 0),
        disk.rename(&path, &grid.path().join("y")),
        disk.remove(&path),
        disk.create(&grid.path().join("z")),
        disk.create_folder(&grid.path().join("f")),
    ];
    assert!(others.iter().all(Result::is_err) && claim.is_lost() && claim.check().is_err());
    assert_eq!(fs::read(&path).expect("it is there"), b"1");
    drop(claim);
    let record: ClaimRecord =
        serde_json::from_slice(&fs::read(grid.path().join(FOLDER).join("a/2.json")).expect("a file")).expect("JSON");
    assert!(!record.released, "that of the taker is left alone");
}

#[test]
fn a_late_write_of_one_that_lost_its_claim_stays_out_of_the_run() {
    let grid = tempfile::tempdir().expect("a folder");
    let path = grid.path().join("metrics.jsonl");
    fs::write(&path, "1\n").expect("a file");
    // The earlier holder has opened the file, and is suspended before it writes.
    let mut late = fs::OpenOptions::new().append(true).open(&path).expect("a file");
    let claim = Claims::of(grid.path(), LONG).take("a", 0).expect("writable").expect("it is free");
    let disk = Fenced::by(&claim, grid.path());
    disk.create(&path).expect("it is held");
    disk.append(&path, b"2\n").expect("it is held");
    late.write_all(b"3\n").expect("the old file is open");
    late.set_len(0).expect("the old file is open");
    assert_eq!(fs::read_to_string(&path).expect("it is there"), "1\n2\n");
    assert_eq!(fs::read_dir(grid.path()).expect("a folder").count(), 2, "the file and the claims");
}

#[test]
fn a_file_system_without_links_has_one_winner_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let cell = CellClaims { grid: folder.path().to_owned(), name: PathBuf::new() };
    assert!(cell.create_without_links(1, b"one").expect("writable"));
    assert!(!cell.create_without_links(1, b"two").expect("writable"));
    assert!(cell.create_without_links(1, b"one").expect("writable"), "a question that is asked again");
    // A claim whose content is not written yet is held.
    let grid = tempfile::tempdir().expect("a folder");
    let cell = grid.path().join(FOLDER).join("a");
    fs::create_dir_all(&cell).expect("a folder");
    fs::write(cell.join("1.json"), "").expect("a file");
    assert!(matches!(watch(grid.path(), LONG).look("a"), Ok(ClaimStatus::Held(HeldClaim { record: None, .. }))));
}

#[test]
fn a_number_that_no_claim_has_is_refused() {
    let grid = tempfile::tempdir().expect("a folder");
    for stray in [u64::MAX, MOST + 1] {
        leave(grid.path(), "a", stray, Some("elsewhere"));
        let error = watch(grid.path(), SHORT).look("a").expect_err("no claim follows it").to_string();
        assert!(error.contains(&format!("{stray}.json is no claim")), "{error}");
        fs::remove_file(grid.path().join(FOLDER).join(format!("a/{stray}.json"))).expect("it was left there");
    }
}
