//! Files that are easily misread: `rtc task check` asks, or tells the line, and drafts nothing that learns from wrong numbers.

use crate::support::{Answer, Place};

/// Rows of a table, each made by its number.
fn rows(count: usize, row: impl Fn(usize) -> String) -> String {
    (0..count).map(|n| row(n) + "\n").collect()
}

/// A word and a class of a row.
fn word(n: usize) -> &'static str {
    ["good", "bad", "fine", "poor", "long", "dull", "warm"][n * 5 % 7]
}

fn class(n: usize) -> &'static str {
    if (n * 5 % 7).is_multiple_of(2) { "pos" } else { "neg" }
}

/// Checks that a draft is made, and that its table or the draft has a text.
fn drafts(answer: &Answer, text: &str) {
    answer.code(0);
    assert!(answer.stdout.contains(text), "`{text}` is not in:\n{}", answer.stdout);
}

#[test]
fn numbers_as_people_write_them_are_asked_for() {
    let place = Place::new();
    let texts = |number: &dyn Fn(usize) -> String| {
        "text,rating\n".to_owned() + &rows(60, |n| format!("a {} film {n},\"{}\"", word(n), number(n)))
    };
    for (file, text, why) in [
        ("thousands.csv", texts(&|n| format!("{},{:03}", 100 + n, n * 7 % 1000)), "`--decimal comma` reads the comma"),
        ("dollars.csv", texts(&|n| format!("${},{:03}.50", 1 + n, n)), "`$1,000.50` in line 2"),
        ("percent.csv", texts(&|n| format!("{n}%")), "write them as `1234.5`"),
        (
            "lists.csv",
            texts(&|n| format!("{},{}", n % 5, 5 + n % 3)),
            "`--answer labels` takes several labels of a row",
        ),
    ] {
        place.write(file, &text);
        place
            .rtc(&["task", "check", file, "--write", "x.yaml"])
            .code(2)
            .says("has numbers with commas or signs")
            .says(why);
        assert!(!place.path("x.yaml").exists(), "{file}");
    }
    place.rtc(&["task", "check", "thousands.csv", "--decimal", "comma", "--write", "x.yaml"]).code(0);
    assert!(place.read("x.yaml").contains("decimal: comma"));
    // Semicolons leave the comma one meaning, unless all numbers may be thousands.
    let semicolons = |number: &dyn Fn(usize) -> String| {
        "text;rating\n".to_owned() + &rows(60, |n| format!("a {} film {n};{}", word(n), number(n)))
    };
    place.write("german.csv", &semicolons(&|n| format!("{n},{}", n % 4)));
    drafts(&place.rtc(&["task", "check", "german.csv"]), "decimal: comma");
    place.write("german.csv", &semicolons(&|n| format!("{},{:03}", 1 + n, n)));
    place.rtc(&["task", "check", "german.csv", "--write", "y.yaml"]).code(2).says("has numbers with commas or signs");
}

#[test]
fn a_row_that_breaks_two_lists_is_told() {
    let place = Place::new();
    let line = |n: usize| {
        let tags = if n == 40 { r#"["X", "Y"]"# } else { r#"["X", "Y", "X"]"# };
        format!(r#"{{"tokens": ["a", "{}", "b{n}"], "tags": {tags}}}"#, word(n))
    };
    place.write("tags.jsonl", &rows(60, line));
    let asked = place.rtc(&["task", "check", "tags.jsonl", "--write", "x.yaml"]);
    asked.code(2).says("line 41: `tokens` has 3 items and `tags` has 2, and in all but 1 of 60 rows both have as many");
    place.write("tags.jsonl", &rows(60, line).replace(r#"["X", "Y"]"#, r#"["X", "Y", "X"]"#));
    drafts(&place.rtc(&["task", "check", "tags.jsonl"]), "name: tagging");
}

#[test]
fn a_label_that_the_model_reads_is_refused() {
    let place = Place::new();
    place.write("a.csv", &("text,label\n".to_owned() + &rows(40, |n| format!("{} {n},{}", word(n), class(n)))));
    let experiment = |task: &str| {
        format!(
            "task: {{ name: table, data: {{ train: a.csv, dev: 20% }}, label: label, {task} }}\noptimiser: {{ learning_rate: 0.1 }}\n\
             schedule: {{ kind: constant }}\nbatch: {{ size: 8 }}\nepochs: 1\nevaluate: []\n"
        )
    };
    for (task, why) in [
        ("input: label", "`label` is an input, too"),
        ("input: [text, label]", "`label` is an input, too"),
        ("input: text, given: { seen: label }", "`seen` reads the label `label`"),
    ] {
        place.write("x.yaml", &experiment(task));
        place.rtc(&["task", "check", "x.yaml"]).code(2).says("x.yaml:1").says(why);
        place.rtc(&["train", "tiny.rt", "--experiment", "x.yaml"]).code(2).says(why);
    }
}

#[test]
fn headers_are_told_from_rows() {
    let place = Place::new();
    let row = |n: usize| format!("a {} film {n},{}", word(n), class(n));
    let check = |file: &str, text: &str| {
        place.write(file, text);
        place.rtc(&["task", "check", file, "--write", &format!("{file}.yaml")])
    };
    // Written again in the middle, as files are when they are put together.
    let half = rows(45, row);
    let again = check("again.csv", &format!("text,label\n{half}text,label\n{half}"));
    again.code(4).says("again.csv:47: this row repeats the header of line 1: remove it");
    place.write(
        "again.yaml",
        "task: { name: table, data: { train: again.csv, dev: 20% }, input: text, label: label }\noptimiser: { learning_rate: 0.1 }\n\
         schedule: { kind: constant }\nbatch: { size: 8 }\nepochs: 1\nevaluate: []\n",
    );
    place.rtc(&["train", "tiny.rt", "--experiment", "again.yaml"]).code(4).says("again.csv:47: this row repeats");
    // As pandas names columns without names.
    let numbers = "0,1,2\n".to_owned() + &rows(60, |n| format!("0.{n},{}.5,{}", n * 3, n % 3));
    drafts(&check("numbers.csv", &numbers), "60 rows");
    check("two.csv", &("0,1\n".to_owned() + &rows(60, row))).code(2).says("the first row is `0` and `1`");
    // Rows without names above them.
    drafts(&check("lines.csv", &rows(60, |n| format!("a {} film {n}", word(n)))), "60 rows of CSV, without a header");
    let labelled = rows(60, |n| format!("a {} film {n}\t{},{}\tid{n}", word(n), n % 5, 5 + n % 3));
    check("emotions.tsv", &labelled).code(2).says("`0,5` in line 1");
    assert!(!place.path("emotions.tsv.yaml").exists());
}

#[test]
fn cells_that_swallow_rows_are_asked_for() {
    let place = Place::new();
    let row = |n: usize| match n {
        10 => format!("\"a {} film\tpos", word(n)),
        20 => format!("a {} film\"\tneg", word(n)),
        n => format!("a {} film {n}\t{}", word(n), class(n)),
    };
    place.write("quotes.tsv", &("text\tlabel\n".to_owned() + &rows(60, row)));
    place.rtc(&["task", "check", "quotes.tsv", "--write", "x.yaml"]).code(2).says("lines 12 to 22 are one row");
    drafts(&place.rtc(&["task", "check", "quotes.tsv", "--quotes", "none"]), "60 rows");
    drafts(&place.rtc(&["task", "check", "quotes.tsv", "--quotes", "around"]), "50 rows");
}

#[test]
fn texts_with_labels_are_no_language() {
    let place = Place::new();
    for (file, text, why) in [
        ("svm.txt", rows(40, |n| format!("{} 1:0.5 {}:1", n % 2, 3 + n)), "as files of libsvm"),
        ("emotion.txt", rows(40, |n| format!("i feel {} {n};{}", word(n), class(n))), "name the file .csv"),
        ("bars.txt", rows(40, |n| format!("a {} film {n}|{}", word(n), class(n))), "`--format csv` takes it"),
        (
            "cells.txt",
            "text,label\n".to_owned() + &rows(40, |n| format!("\"a, {} film {n}\",{}", word(n), class(n))),
            "2 parts with commas between",
        ),
        ("trec.txt", rows(40, |n| format!("DESC:manner How {} is it ?", word(n))), "begins with a label and a colon"),
    ] {
        place.write(file, &text);
        place.rtc(&["task", "check", file, "--write", "x.yaml"]).code(2).says(why);
        drafts(&place.rtc(&["task", "check", file, "--task", "language"]), "name: language");
    }
}

#[test]
fn files_of_other_programs_say_what_to_write() {
    let place = Place::new();
    let utf16 = |order: fn(u16) -> [u8; 2]| -> Vec<u8> {
        ("text,label\n".to_owned() + &rows(60, |n| format!("a {} film {n},{}", word(n), class(n))))
            .encode_utf16()
            .flat_map(order)
            .collect()
    };
    for (file, bytes, why) in [
        ("rows.feather", &b"ARROW1\0\0rows"[..], "pandas.read_feather(file)"),
        ("rows.pkl", b"\x80\x05rows", "a pickle runs code"),
        ("rows.npy", b"\x93NUMPY\x01\0", "pandas.DataFrame(array, columns=names).to_parquet"),
        ("rows.db", b"SQLite format 3\0", "sqlite3 -header -csv"),
        ("rows.bz2", b"BZh91AY&SY", "pack it by gzip"),
        ("picture.csv", b"\x89PNG\r\n\x1A\nrows", "a picture is no table"),
        ("page.txt", b"%PDF-1.7\n%", "save its text as .txt"),
        ("packed.csv", b"\x1F\x8B\x08\0", "packed by gzip"),
        ("columns.csv", b"PAR1\x15\x04", "name it .parquet"),
        ("sheet.tsv", b"PK\x03\x04\x14\0", "a workbook is saved as CSV"),
    ] {
        std::fs::write(place.path(file), bytes).expect(file);
        place.rtc(&["task", "check", file, "--write", "x.yaml"]).code(4).says(file).says(why);
    }
    // UTF-16 is told without its mark, and only guessed where one looks at the result.
    for (file, bytes, encoding) in
        [("little.csv", utf16(u16::to_le_bytes), "utf-16le"), ("big.csv", utf16(u16::to_be_bytes), "utf-16be")]
    {
        std::fs::write(place.path(file), bytes).expect(file);
        let draft = format!("{encoding}.yaml");
        place.rtc(&["task", "check", file, "--write", &draft]).code(0);
        let text = place.read(&draft);
        let line = text.lines().find(|line| line.trim().starts_with("encoding:")).expect("the draft names it");
        assert!(line.to_lowercase().ends_with(encoding), "{line}");
        place.write(&draft, &text.replace(&format!("{line}\n"), ""));
        place.rtc(&["task", "check", &draft]).code(4).says(file).says(&format!("encoding: {encoding}"));
    }
}

#[test]
fn drafts_that_one_would_not_choose_are_questions() {
    let place = Place::new();
    let ask = |file: &str, text: &str, why: &str| {
        place.write(file, text);
        place.rtc(&["task", "check", file, "--write", "x.yaml"]).code(2).says(why);
    };
    let copa =
        |n: usize| format!("the {} thing {n},it {} one {n},it {} two {n},{}", word(n), word(n + 1), word(n + 2), n % 2);
    ask("copa.csv", &("premise,choice1,choice2,label\n".to_owned() + &rows(60, copa)), "which text is the input?");
    let toxic = |n: usize| format!("hello {} {n},{},{},0", word(n), n % 2, n / 2 % 2);
    ask(
        "toxic.csv",
        &("comment_text,toxic,obscene,threat\n".to_owned() + &rows(60, toxic)),
        "several columns have the same two values",
    );
    let ship = |n: usize| {
        format!("{},\"Smith, {} {n}\",{},{}.5,{}", n % 2, word(n), ["male", "female"][n / 3 % 2], n % 70, n % 3)
    };
    ask(
        "ship.csv",
        &("Survived,Name,Sex,Age,Pclass\n".to_owned() + &rows(60, ship)),
        "`Name` is a short text among features",
    );
    let token = |n: usize| {
        format!(
            "{},{},{}",
            if n.is_multiple_of(5) { format!("Sentence: {n}") } else { String::new() },
            word(n),
            class(n)
        )
    };
    ask("ner.csv", &("Sentence #,Word,Tag\n".to_owned() + &rows(60, token)), "a table with a line per token");
    let film = |n: usize| format!("a {} film {n},{}", word(n), class(n));
    ask(
        "comments.csv",
        &("# of 2024\n# by us\ntext,label\n".to_owned() + &rows(60, film)),
        "begins with 2 lines with `#`",
    );
    let lists = |value: &dyn Fn(usize) -> String| format!("[{}]", (0..40).map(value).collect::<Vec<_>>().join(","));
    let [texts, labels] = [lists(&|n| format!("\"{} {n}\"", word(n))), lists(&|n| format!("\"{}\"", class(n)))];
    ask("lists.json", &format!("{{\"text\": {texts}, \"label\": {labels}}}"), "all values of a column in one");
    let numbered = |value: &dyn Fn(usize) -> String| {
        let items: Vec<String> = (0..40).map(|n| format!("\"{n}\":\"{}\"", value(n))).collect();
        format!("{{{}}}", items.join(","))
    };
    let [texts, labels] = [numbered(&|n| format!("{} {n}", word(n))), numbered(&|n| class(n).to_owned())];
    ask("frame.json", &format!("{{\"text\":{texts},\"label\":{labels}}}"), "orient=\"records\"");
    let turned = |n: usize| format!("a {} film {n},film {n} of {} things", word(n), word(n));
    ask(
        "turned.csv",
        &("english,other\n".to_owned() + &rows(60, turned)),
        "`--task sequences` with `--input english` and `--label other`",
    );
    let esol = |n: usize| format!("{},{}.5,-1.{n},C(=O)N{n}", 1 + n % 2, 100 + n);
    ask("esol.csv", &("Degree,Weight,measured,smiles\n".to_owned() + &rows(60, esol)), "which column is the label?");
}

#[test]
fn classes_that_may_be_one_are_noted() {
    let place = Place::new();
    let check = |labels: [&str; 3], note: &str| {
        let text = "text,label\n".to_owned() + &rows(60, |n| format!("a {} film {n},\"{}\"", word(n), labels[n % 3]));
        place.write("a.csv", &text);
        drafts(&place.rtc(&["task", "check", "a.csv"]), note);
    };
    check(["pos", "Pos", "neg"], "which differ in capital letters only");
    check(["pos", "N/A", "neg"], "`label` has the class `N/A`");
    check(["['a', 'b']", "['b']", "[]"], "has lists as texts");
}

#[test]
fn a_file_with_the_name_of_a_pattern_is_that_file() {
    let place = Place::new();
    let row = |n: usize| format!("a {} film {n},{}", word(n), class(n));
    place.write("star*.csv", &("text,label\n".to_owned() + &rows(60, row)));
    place.write("star2.csv", &("text,label\n".to_owned() + &rows(50, row)));
    drafts(&place.rtc(&["task", "check", "star*.csv", "--write", "x.yaml"]), "60 rows");
    place.rtc(&["task", "check", "x.yaml"]).code(0).is_quiet_about("110");
}

#[test]
fn a_header_is_no_row_of_a_prediction() {
    let place = Place::new();
    let row = |n: usize| format!("a {} film {n}\t{}", word(n), class(n));
    place.write("rows.tsv", &rows(60, row));
    place.rtc(&["task", "check", "rows.tsv", "--write", "x.yaml"]).code(0);
    let train =
        ["train", "tiny.rt", "--experiment", "x.yaml", "--run", "r", "--with", "epochs=null", "--with", "max_steps=2"];
    place.rtc(&train).code(0);
    place.write("header.tsv", &("text\tlabel\n".to_owned() + &rows(5, row)));
    place
        .rtc(&["predict", "runs/r", "--input", "header.tsv"])
        .code(4)
        .says("header.tsv:1")
        .says("looks like names of columns");
    place.write("odd.tsv", &(row(0).replace(class(0), "other") + "\n"));
    place.rtc(&["predict", "runs/r", "--input", "odd.tsv"]).code(0);
}
