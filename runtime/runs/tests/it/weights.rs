//! Weights of other programs: files that PyTorch wrote, files that fit in part, and files that are broken or hostile.

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use rtc_exec::learner::FlatArrays;
use rtc_runs::error::Error;
use rtc_runs::weights::{TensorNames, WeightsFile, fingerprint, fit, refill};
use safetensors::tensor::{Dtype, TensorView};
use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn map(json: &str) -> TensorNames {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("map.json");
    fs::write(&path, json).expect("a new file");
    TensorNames::read(&path).expect("a map")
}

fn wanted(parameters: &[(&str, &[usize])]) -> Vec<(String, Vec<usize>)> {
    parameters.iter().map(|(name, shape)| ((*name).to_owned(), shape.to_vec())).collect()
}

fn numbers<'a>(arrays: &'a FlatArrays, name: &str) -> &'a [f32] {
    &arrays.items[name].1
}

/// What is said of a file with these bytes.
fn refusal(bytes: &[u8]) -> String {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("theirs.bin");
    fs::write(&path, bytes).expect("a new file");
    match WeightsFile::read(&path) {
        Ok(_) => String::new(),
        Err(error) => {
            assert_eq!(error.exit_code(), 7, "{error}");
            assert!(error.to_string().contains("theirs.bin: "), "{error}");
            error.to_string()
        }
    }
}

/// A zip archive as `torch.save` makes one, around a pickle.
fn archive(pickle: &[u8]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(vec![]));
    let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, bytes) in [("a/data.pkl", pickle), ("a/data/0", &[0; 24])] {
        zip.start_file(name, stored).expect("a place in memory");
        zip.write_all(bytes).expect("a place in memory");
    }
    zip.finish().expect("a place in memory").into_inner()
}

#[test]
fn tensors_of_pytorch_of_every_kind_are_read() {
    let file = WeightsFile::read(&fixture("tensors.pt")).expect("a file of PyTorch");
    let parameters = wanted(&[
        ("single", &[2, 3]),
        ("turned", &[3, 2]),
        ("half", &[2, 3]),
        ("brain", &[2, 3]),
        ("double", &[2]),
        ("tied", &[2, 3]),
        ("parameter", &[2, 3]),
        ("scalar", &[]),
        ("broadcast", &[2, 2]),
    ]);
    let arrays = fit(&file, &map(r#"{"count": null}"#), &[], &parameters).expect("all of them");
    let plain = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25];
    for name in ["single", "half", "brain", "tied"] {
        assert_eq!(numbers(&arrays, name), plain, "{name}");
    }
    assert_eq!(numbers(&arrays, "turned"), [0.0, 0.75, 0.25, 1.0, 0.5, 1.25]);
    assert_eq!(numbers(&arrays, "double"), [3.0, 4.0]);
    assert_eq!(numbers(&arrays, "parameter"), plain.map(|x| x + 1.0));
    assert_eq!(numbers(&arrays, "scalar"), [0.5]);
    assert_eq!(numbers(&arrays, "broadcast"), [2.0, 3.0, 2.0, 3.0]);
    let error = fit(&file, &TensorNames::default(), &[], &wanted(&[("count", &[])])).expect_err("an integer");
    assert!(error.to_string().contains("`count` has numbers of the kind long"), "{error}");
}

#[test]
fn names_are_mapped_and_turned() {
    let file = WeightsFile::read(&fixture("module.pt")).expect("a file of PyTorch");
    let names = r#"{"0.weight": {"to": "linear.weight", "transpose": true}, "0.bias": "linear.bias", "1.weight": "norm.gain", "1.bias": null}"#;
    let parameters = wanted(&[("linear.weight", &[2, 3]), ("linear.bias", &[3]), ("norm.gain", &[3])]);
    let arrays = fit(&file, &map(names), &[], &parameters).expect("all of them");
    assert_eq!(numbers(&arrays, "linear.weight"), [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
    assert_eq!(numbers(&arrays, "norm.gain"), [20.0, 21.0, 22.0]);
    let other = fit(&file, &map(&names.replace("true", "false")), &[], &wanted(&[("linear.weight", &[3, 2])]));
    assert!(other.is_err(), "what no parameter takes is a fault");
    assert_eq!(fingerprint(&arrays), fingerprint(&arrays.clone()));
    let mut changed = arrays.clone();
    changed.items.get_mut("norm.gain").expect("it is there").1[0] += 1.0;
    assert_ne!(fingerprint(&arrays), fingerprint(&changed));
}

#[test]
fn everything_that_does_not_fit_is_said_at_once() {
    let file = WeightsFile::read(&fixture("module.pt")).expect("a file of PyTorch");
    let names = map(r#"{"0.weight": "a.weight", "0.bias": "a.weigth", "0.gain": "x"}"#);
    let parameters = wanted(&[("a.weight", &[2, 3]), ("1.bais", &[3]), ("1.weight", &[4]), ("q", &[2])]);
    let error = fit(&file, &names, &[], &parameters).expect_err("nothing fits").to_string();
    for said in [
        "module.pt: 7 faults",
        "the map names `0.gain`, which is not there",
        "`a.weight` has shape [3, 2], the model has [2, 3]; it would fit transposed",
        "`1.bais` [3] is missing; is it `1.bias`?",
        "`1.weight` has shape [3], the model has [4]",
        "`q` [2] is missing",
        "`a.weigth` (`0.bias` there) [3] is no parameter of the model; is it `a.weight`?",
        "`1.bias` [3] is no parameter of the model; is it `1.bais`?",
    ] {
        assert!(error.contains(said), "`{said}` is not in:\n{error}");
    }
    let twice =
        fit(&file, &map(r#"{"0.bias": "1.bias"}"#), &[], &wanted(&[("1.bias", &[3])])).expect_err("two of them");
    assert!(twice.to_string().contains("`0.bias` and `1.bias` both become `1.bias`"), "{twice}");
}

#[test]
fn numbers_that_are_not_finite_are_refused_by_name() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("w.safetensors");
    for (number, said) in [(f64::NAN, "NaN as its number 1"), (1e300, "inf as its number 1")] {
        let bytes: Vec<u8> = [0.5, number].iter().flat_map(|x: &f64| x.to_le_bytes()).collect();
        let view = TensorView::new(Dtype::F64, vec![2], &bytes).expect("two numbers");
        fs::write(&path, safetensors::serialize([("w", view)], None).expect("one tensor")).expect("a new file");
        let file = WeightsFile::read(&path).expect("a file of safetensors");
        let error =
            fit(&file, &TensorNames::default(), &[], &wanted(&[("w", &[2])])).expect_err("not finite").to_string();
        assert!(error.contains("`w` has ") && error.contains(said), "{error}");
    }
}

#[test]
fn a_pickle_with_code_is_refused_and_nothing_runs() {
    let folder = TempDir::new().expect("a temporary folder");
    let made = folder.path().join("made");
    // What Python would run: os.system("touch made").
    let touch = format!("touch {}", made.display());
    let mut pickle = b"\x80\x02cposix\nsystem\nX".to_vec();
    pickle.extend((touch.len() as u32).to_le_bytes());
    pickle.extend(touch.as_bytes());
    pickle.extend(b"\x85R.");
    let said = refusal(&archive(&pickle));
    assert!(said.contains("it names `posix.system`") && said.contains("nothing of it was executed"), "{said}");
    assert!(!made.exists());
    let module = fs::read(fixture("whole_module.pt")).expect("the fixture");
    assert!(refusal(&module).contains("it names `torch.nn.modules.container.Sequential`"));
}

#[test]
fn hostile_pickles_are_refused_before_they_cost_anything() {
    let deep = [&b"\x80\x02)"[..], &vec![0x85; 1_000_000], b"."].concat();
    let mut wide = b"\x80\x02]".to_vec();
    // Lists of two copies of the list before: 2^40 nodes in 400 bytes.
    for n in 0..40 {
        wide.extend([b'q', n, b'(', b'h', n, b'h', n, b't']);
    }
    let cases: [(&[u8], &str); 8] = [
        (&deep, "too deep or too large"),
        (&wide, "too deep or too large"),
        (b"\x80\x02X\xff\xff\xff\xffa.", "cut off inside a text"),
        (b"\x80\x02\x8a\xff123", "a number that is too large"),
        (b"\x80\x02}", "cut off"),
        (b"\x80\x02K\x01.", "it holds no dictionary"),
        (b"\x80\x02}X\x01\x00\x00\x00aK\x01s.", "`a` is no tensor"),
        (b"\x80\x02R.", "can't be read"),
    ];
    for (pickle, expected) in cases {
        let said = refusal(&archive(pickle));
        assert!(said.contains(expected), "`{expected}` is not in: {said}");
    }
}

/// A file cut off, or with a byte changed, is refused or read; it is never a panic.
#[test]
fn damaged_files_are_refused_or_read() {
    for name in ["module.pt", "tensors.pt"] {
        let whole = fs::read(fixture(name)).expect("the fixture");
        for end in (0..whole.len()).step_by(31) {
            assert!(!refusal(&whole[..end]).is_empty(), "{name} cut off after {end} bytes");
        }
        for (at, flip) in (0..whole.len()).step_by(7).zip([1, 0x80, 0xff].into_iter().cycle()) {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            let _ = refusal(&bytes);
        }
    }
    assert!(refusal(b"\x80\x02}.").contains("save it again: torch.save"));
    assert!(refusal(b"").contains("neither safetensors"));
    assert!(refusal(b"\xff\xff\xff\xff\xff\xff\xff\x7f{}").contains("neither safetensors"));
    let missing = WeightsFile::read(Path::new("not/there.pt")).expect_err("there is none");
    assert!(matches!(missing, Error::Io(_)), "{missing}");
}

/// Weights are held against the manifest of a checkpoint only where they lie in one.
#[test]
fn a_file_named_as_those_of_a_checkpoint_is_read_where_none_is() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("weights.safetensors");
    let values: Vec<u8> = [0.5_f32, -2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F32, vec![2], &values).expect("two numbers");
    fs::write(&path, safetensors::serialize([("w", view)], None).expect("a file")).expect("a new file");
    let arrays =
        fit(&WeightsFile::read(&path).expect("weights"), &map("{}"), &[], &wanted(&[("w", &[2])])).expect("all");
    assert_eq!(numbers(&arrays, "w"), [0.5, -2.0]);
    fs::write(folder.path().join("state.json"), "{}").expect("a new file");
    let error = WeightsFile::read(&path).expect_err("a checkpoint without a manifest is damaged");
    assert!(error.to_string().contains("manifest.json beside it"), "{error}");
}

/// PyTorch keeps some tensors as others with the opposite sign (`torch._neg_view`, the imaginary part of a conjugate).
#[test]
fn negative_bits_of_pytorch_are_applied_and_complex_numbers_refused() {
    let file = WeightsFile::read(&fixture("negated.pt")).expect("a file of PyTorch");
    let parameters = wanted(&[
        ("turned", &[2, 3]),
        ("half", &[3, 2]),
        ("part", &[2, 3]),
        ("parameter", &[2, 3]),
        ("plain", &[2, 3]),
    ]);
    let arrays = fit(&file, &TensorNames::default(), &[], &parameters).expect("all of them");
    let plain = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25];
    assert_eq!(numbers(&arrays, "plain"), plain);
    for name in ["turned", "part", "parameter"] {
        assert_eq!(numbers(&arrays, name), plain.map(|x| -x), "{name}");
    }
    assert_eq!(numbers(&arrays, "half"), [0.0, -0.75, -0.25, -1.0, -0.5, -1.25]);
    let file = WeightsFile::read(&fixture("complex.pt")).expect("a file of PyTorch");
    let error =
        fit(&file, &TensorNames::default(), &[], &wanted(&[("x", &[2, 3])])).expect_err("complex numbers").to_string();
    assert!(error.contains("`x` has numbers of the kind complexfloat"), "{error}");
    let mut unknown = fs::read(fixture("negated.pt")).expect("the fixture");
    let marks: Vec<usize> = (0..unknown.len()).filter(|at| unknown[*at..].starts_with(b"neg\x71")).collect();
    assert!(!marks.is_empty());
    marks.into_iter().for_each(|at| unknown[at] = b'p');
    assert!(refusal(&unknown).contains("has the mark `peg`"), "{}", refusal(&unknown));
}

/// Both names of a tied weight are one weight: either may be the one that the model has.
#[test]
fn a_tied_weight_may_have_two_names_in_a_state_dict() {
    let file = WeightsFile::read(&fixture("shared.pt")).expect("a file of PyTorch");
    let plain = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25];
    for names in
        ["{}", r#"{"head.weight": "embed.table", "embed.table": "other"}"#, r#"{"head.weight": "embed.table"}"#]
    {
        let parameters = wanted(&[("embed.table", &[2, 3]), ("norm", &[3])]);
        let arrays = fit(&file, &map(names), &[], &parameters).unwrap_or_else(|error| panic!("{names}: {error}"));
        assert_eq!(numbers(&arrays, "embed.table"), plain, "{names}");
    }
    let untied = wanted(&[("embed.table", &[2, 3]), ("head.weight", &[2, 3]), ("norm", &[3])]);
    assert_eq!(numbers(&fit(&file, &map("{}"), &[], &untied).expect("both"), "head.weight"), plain);
    // Equal numbers in another place may be one weight, which the user knows.
    let numbers: Vec<u8> = [0.5_f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let view = || TensorView::new(Dtype::F32, vec![2], &numbers).expect("two numbers");
    let bytes = safetensors::serialize([("a", view()), ("b", view())], None).expect("two tensors");
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("w.safetensors");
    fs::write(&path, bytes).expect("a new file");
    let file = WeightsFile::read(&path).expect("a file of safetensors");
    let error = fit(&file, &TensorNames::default(), &[], &wanted(&[("a", &[2])])).expect_err("a stranger").to_string();
    assert!(error.contains("`b` [2] is no parameter of the model; it has the numbers of `a`"), "{error}");
    fit(&file, &map(r#"{"b": null}"#), &[], &wanted(&[("a", &[2])])).expect("one of them");
}

#[test]
fn what_is_named_twice_is_refused() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("map.json");
    for text in [
        "{\"a\": \"x\",\n\"a\": \"y\"}",
        "{\"a\": {\"to\": \"x\",\n\"to\": \"y\"}}",
        "{\"a\": null,\n\"\\u0061\": \"y\"}",
    ] {
        fs::write(&path, text).expect("writable");
        let error = TensorNames::read(&path).expect_err(text).to_string();
        assert!(error.contains("map.json:2") && error.contains("stands twice in one object"), "{error}");
    }
    let tensor = r#"{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#;
    for header in [
        format!(r#"{{"w":{tensor},"w":{tensor}}}"#),
        format!(r#"{{"__metadata__":{{"a":"b","a":"c"}},"w":{tensor}}}"#),
        format!(r#"{{"w":{}}}"#, tensor.replace("\"shape\"", "\"shape\":[4],\"shape\"")),
    ] {
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 4]].concat();
        let said = refusal(&bytes);
        assert!(said.contains("its header is ambiguous") && said.contains("stands twice"), "{said}");
    }
    // Two files of one name in an archive: readers differ in which of them they take.
    let mut zip = ZipWriter::new(Cursor::new(vec![]));
    let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, bytes) in [("a/data.pkl", &b"\x80\x02}."[..]), ("a/data/0", &[0; 24]), ("a/data/1", &[1; 24])] {
        zip.start_file(name, stored).expect("a place in memory");
        zip.write_all(bytes).expect("a place in memory");
    }
    let mut bytes = zip.finish().expect("a place in memory").into_inner();
    assert_eq!(refusal(&bytes), "");
    let names: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"a/data/1")).collect();
    names.into_iter().for_each(|at| bytes[at + 7] = b'0');
    assert!(refusal(&bytes).contains("`a/data/0` is in it twice"), "{}", refusal(&bytes));
}

/// Writes a safetensors file with these tensors, whose numbers count from one on.
fn saved(path: &Path, tensors: &[(&str, &[usize], f32)]) {
    let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
        .iter()
        .map(|(name, shape, from)| {
            let numbers = (0..shape.iter().product()).map(|n: usize| from + n as f32);
            ((*name).to_owned(), shape.to_vec(), numbers.flat_map(f32::to_le_bytes).collect())
        })
        .collect();
    let views = bytes.iter().map(|(name, shape, bytes)| {
        (name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes).expect("as many bytes"))
    });
    fs::write(path, safetensors::serialize(views, None).expect("a file")).expect("a new file");
}

#[test]
fn tensors_are_cut_joined_and_shared() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("theirs.safetensors");
    saved(
        &path,
        &[("packed", &[4, 2], 0.0), ("turned", &[2, 3], 0.0), ("expert.0", &[2], 10.0), ("expert.1", &[2], 20.0)],
    );
    let file = WeightsFile::read(&path).expect("a file");
    let names =
        map(r#"{"packed": {"rows": ["q", "k"], "groups": 2}, "turned": {"rows": ["a", "b"], "transpose": true},
            "expert.0": {"to": "experts", "at": 0}, "expert.1": {"to": ["experts", "again"], "at": 1}}"#);
    let parameters = wanted(&[("q", &[2, 2]), ("k", &[2, 2]), ("a", &[1, 2]), ("b", &[2, 2]), ("experts", &[2, 2])]);
    let error = fit(&file, &names, &[], &parameters).expect_err("nothing is called `again`").to_string();
    assert!(error.contains("`again` (`expert.1` there) [2], element 1 of the first axis is no parameter"), "{error}");
    let again = wanted(&[("again", &[2, 2])]);
    let error = fit(&file, &names, &[], &[parameters.clone(), again].concat()).expect_err("half of it is missing");
    assert!(error.to_string().contains("`again` [2, 2] lacks element 0 of its first axis"), "{error}");
    let names =
        map(r#"{"packed": {"rows": ["q", "k"], "groups": 2}, "turned": {"rows": ["a", "b"], "transpose": true},
            "expert.0": {"to": "experts", "at": 0}, "expert.1": {"to": "experts", "at": 1}}"#);
    let arrays = fit(&file, &names, &[], &parameters).expect("all of them");
    // Rows are q, k of the first head, then q, k of the second.
    assert_eq!(numbers(&arrays, "q"), [0.0, 1.0, 4.0, 5.0]);
    assert_eq!(numbers(&arrays, "k"), [2.0, 3.0, 6.0, 7.0]);
    assert_eq!(numbers(&arrays, "a"), [0.0, 3.0]);
    assert_eq!(numbers(&arrays, "b"), [1.0, 4.0, 2.0, 5.0]);
    assert_eq!(numbers(&arrays, "experts"), [10.0, 11.0, 20.0, 21.0]);
    for (names, parameters, said) in [
        (
            r#"{"packed": {"rows": ["q", "k"]}}"#,
            wanted(&[("q", &[2, 2]), ("k", &[1, 2])]),
            "`packed` [4, 2] is cut into 3 rows",
        ),
        (r#"{"packed": {"rows": ["q", "z"]}}"#, wanted(&[("q", &[2, 2])]), "is cut for `z`, which is no parameter"),
        (r#"{"packed": {"rows": ["q"], "groups": 3}}"#, wanted(&[("q", &[4, 2])]), "into 3 groups, and `q` has 4 rows"),
        (r#"{"packed": {"to": "q", "at": 2}}"#, wanted(&[("q", &[1, 4, 2])]), "`q` [1, 4, 2] lacks element 0"),
    ] {
        let error = fit(&file, &map(names), &[], &parameters).expect_err(names).to_string();
        assert!(error.contains(said), "{error}");
    }
    for text in [
        r#"{"a": {"transpose": true}}"#,
        r#"{"a": {"to": "b", "rows": ["c"]}}"#,
        r#"{"a": {"to": "b", "groups": 2}}"#,
        r#"{"a": {"rows": ["c"], "at": 2}}"#,
        r#"{"a": {"rows": ["c"], "groups": 0}}"#,
    ] {
        let path = folder.path().join("map.json");
        fs::write(&path, text).expect("writable");
        let error = TensorNames::read(&path).expect_err(text).to_string();
        assert!(error.contains("map.json: `a` "), "{error}");
    }
}

/// The bytes of the only file with other numbers.
fn refilled(path: &Path, names: &TensorNames, arrays: &FlatArrays) -> Result<Vec<u8>, String> {
    let file = WeightsFile::read(path).expect("a file");
    let mut files = refill(&file, names, arrays).map_err(|error| error.to_string())?;
    let one = files.pop().expect("a file");
    assert!(files.is_empty() && one.like == path);
    Ok(one.bytes)
}

#[test]
fn numbers_go_back_to_where_they_came_from() {
    let folder = TempDir::new().expect("a temporary folder");
    let (path, back) = (folder.path().join("theirs.safetensors"), folder.path().join("back.safetensors"));
    let tensors: [(&str, &[usize], f32); 6] = [
        ("packed", &[4, 2], 0.0),
        ("turned", &[2, 3], 0.0),
        ("expert.0", &[2], 10.0),
        ("expert.1", &[2], 20.0),
        ("copy", &[2], 20.0),
        ("count", &[1], 7.0),
    ];
    saved(&path, &tensors);
    let names = map(
        r#"{"packed": {"rows": ["q", "k"], "groups": 2}, "turned": {"rows": ["a", "b"], "transpose": true},
            "expert.0": {"to": "experts", "at": 0}, "expert.1": {"to": "experts", "at": 1}, "copy": null, "count": null}"#,
    );
    let parameters = wanted(&[("q", &[2, 2]), ("k", &[2, 2]), ("a", &[1, 2]), ("b", &[2, 2]), ("experts", &[2, 2])]);
    let read = |path: &Path| fit(&WeightsFile::read(path).expect("a file"), &names, &[], &parameters).expect("all");
    let mut arrays = read(&path);
    assert_eq!(refilled(&path, &names, &arrays), Ok(fs::read(&path).expect("a file")));
    arrays.items.values_mut().for_each(|(_, numbers)| numbers.iter_mut().for_each(|number| *number += 0.5));
    fs::write(&back, refilled(&path, &names, &arrays).expect("they fit")).expect("writable");
    assert_eq!(read(&back).items, arrays.items);
    // What is left out is kept, and a copy follows its original.
    let plain = map(r#"{"packed": null, "turned": null, "expert.0": null, "expert.1": null}"#);
    let left =
        fit(&WeightsFile::read(&back).expect("a file"), &plain, &[], &wanted(&[("copy", &[2]), ("count", &[1])]));
    let left = left.expect("both");
    assert_eq!((numbers(&left, "copy"), numbers(&left, "count")), (&[20.5, 21.5][..], &[7.0][..]));
    let mut more = arrays.clone();
    more.items.insert("new".to_owned(), (vec![1], vec![0.0]));
    let said = refilled(&path, &names, &more).expect_err("no place");
    assert!(said.contains("no tensor of the file is `new`"), "{said}");
    more.items.remove("new");
    more.items.insert("experts".to_owned(), (vec![3, 2], vec![0.0; 6]));
    let said = refilled(&path, &names, &more).expect_err("an element without a place");
    assert!(said.contains("the file has 4 of the 6 numbers of `experts` [3, 2]"), "{said}");
    more.items.insert("a".to_owned(), (vec![2, 1], vec![0.0; 2]));
    let said = refilled(&path, &names, &more).expect_err("other shapes");
    assert!(said.contains("`turned` [2, 3] is cut into"), "{said}");
    // Half of the digits are lost, and numbers that are too large are refused.
    let halves: Vec<u8> = [0_u16, 0x3c00].iter().flat_map(|bits| bits.to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F16, vec![2], &halves).expect("two numbers");
    fs::write(&path, safetensors::serialize([("w", view)], None).expect("a file")).expect("writable");
    let own = |number: f32| FlatArrays { items: [("w".to_owned(), (vec![2], vec![0.1, number]))].into() };
    fs::write(&back, refilled(&path, &map("{}"), &own(2.0)).expect("they fit")).expect("writable");
    let half = fit(&WeightsFile::read(&back).expect("a file"), &map("{}"), &[], &wanted(&[("w", &[2])])).expect("w");
    assert_eq!(numbers(&half, "w"), [0.099_975_586, 2.0]);
    let said = refilled(&path, &map("{}"), &own(70_000.0)).expect_err("too large");
    assert!(said.contains("`w` has the number 70000, which float16 has not"), "{said}");
}

#[test]
fn folders_and_indices_join_several_files() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    let said = |path: &Path| WeightsFile::read(path).expect_err("it is incomplete").to_string();
    assert!(said(folder.path()).contains("a folder without model.safetensors"), "{}", said(folder.path()));
    saved(&path("one.safetensors"), &[("a", &[2], 1.0)]);
    saved(&path("two.safetensors"), &[("b", &[2], 3.0), ("c", &[1], 5.0)]);
    let index = path("model.safetensors.index.json");
    let write = |map: &str| fs::write(&index, format!(r#"{{"metadata": {{"total_size": 20}}, "weight_map": {map}}}"#));
    write(r#"{"a": "one.safetensors", "b": "two.safetensors", "c": "two.safetensors"}"#).expect("writable");
    for path in [folder.path(), &index] {
        let file = WeightsFile::read(path).expect("all three");
        let arrays = fit(&file, &TensorNames::default(), &[], &wanted(&[("a", &[2]), ("b", &[2]), ("c", &[1])]));
        let arrays = arrays.expect("all of them");
        assert_eq!([numbers(&arrays, "a"), numbers(&arrays, "b")], [[1.0, 2.0], [3.0, 4.0]]);
        assert_eq!(numbers(&arrays, "c"), [5.0]);
    }
    for (map, message) in [
        (r#"{"a": "one.safetensors", "b": "two.safetensors"}"#, "two.safetensors has `c`, which the index has not"),
        (
            r#"{"a": "two.safetensors", "b": "two.safetensors", "c": "two.safetensors", "d": "one.safetensors"}"#,
            "one.safetensors has `a`, which the index has in two.safetensors",
        ),
        (r#"{"a": "one.safetensors", "d": "one.safetensors"}"#, "one.safetensors lacks `d`, which the index has there"),
        (r#"{"a": "../one.safetensors"}"#, "names `../one.safetensors`, which is no file beside it"),
        (r#"{"a": 3}"#, "has no name of a file for `a`"),
        (r#"[]"#, "whose `weight_map` is no object"),
        (r#"{"a": "three.safetensors"}"#, "three.safetensors"),
    ] {
        write(map).expect("writable");
        assert!(said(&index).contains(message), "{}", said(&index));
    }
}
