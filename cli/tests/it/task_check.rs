//! `rtc task check FILE --write`: what it takes realistic files for, and that it says so only of what can be trained on.
#![allow(clippy::print_stderr, reason = "a skipped test says why")]

use std::collections::BTreeSet;

use crate::support::Place;
use serde_json::Value;

/// Whole numbers that look drawn, the same ones every time.
struct Draws(u64);

impl Draws {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % n as u64) as usize
    }

    fn text(&mut self, words: usize) -> String {
        const WORDS: [&str; 16] = [
            "the", "film", "was", "good", "bad", "long", "plot", "actor", "scene", "never", "always", "quite", "very",
            "light", "dark", "end",
        ];
        (0..words).map(|_| WORDS[self.below(16)]).collect::<Vec<_>>().join(" ")
    }

    fn number(&mut self, from: f64, to: f64) -> String {
        format!("{:.2}", from + (to - from) * self.below(10_000) as f64 / 10_000.0)
    }
}

/// Rows of a file.
const ROWS: usize = 60;

/// A cell of row `n` of a column of this kind.
///
/// `text`, `long`, `float`, `neg`, `big`, `index`, `one` (from 1), `uid`, `url`, `date`, `name`, `dna`, `const`, `empty`, `int:LOW-HIGH`, and
/// `a|b|c` for one of these values.
fn cell(kind: &str, n: usize, draws: &mut Draws) -> String {
    if let Some((low, high)) = kind.strip_prefix("int:").and_then(|range| range.split_once('~')) {
        let (low, high): (i64, i64) = (low.parse().expect("a number"), high.parse().expect("a number"));
        // Each once first, so that there are no gaps.
        let span = (high - low + 1) as usize;
        let drawn = draws.below(span);
        return (low + if n < span { n } else { drawn } as i64).to_string();
    }
    match kind {
        "text" => {
            let words = 4 + draws.below(6);
            draws.text(words)
        }
        "long" => {
            let words = 30 + draws.below(20);
            draws.text(words)
        }
        "float" => draws.number(0.1, 8.0),
        "neg" => draws.number(-0.1, 0.1),
        "big" => (25 + draws.below(400)).to_string(),
        "index" => n.to_string(),
        "one" => (n + 1).to_string(),
        "uid" => format!("{:08x}-{n:04}", draws.below(1 << 30)),
        "url" => format!("https://example.org/{n}"),
        "date" => format!("2024-{:02}-{:02}", 1 + draws.below(12), 1 + draws.below(28)),
        "name" => format!(
            "{}{}",
            ["An", "Bo", "Ca", "De"][draws.below(4)],
            ["ra", "lin", "mos", "ti", "vek"][n % 5].repeat(1 + n / 20)
        ),
        "dna" => (0..30).map(|_| ["a", "c", "g", "t"][draws.below(4)]).collect(),
        "const" => "same".to_owned(),
        "empty" => String::new(),
        values => {
            let values: Vec<&str> = values.split('|').collect();
            let drawn = draws.below(values.len());
            values[if n < values.len() { n } else { drawn }].to_owned()
        }
    }
}

/// A table: `name=kind` for every column; a name `-` is of a file without a header.
fn table(columns: &str, between: char) -> String {
    let columns: Vec<(&str, &str)> =
        columns.split("; ").map(|column| column.split_once('=').expect("a kind")).collect();
    let mut draws = Draws(7);
    let between = between.to_string();
    let head = columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(&between);
    let head = if columns[0].0 == "-" { String::new() } else { head + "\n" };
    let row = |n: usize| {
        let cells: Vec<String> = columns.iter().map(|(_, kind)| cell(kind, n, &mut draws)).collect();
        cells.join(&between) + "\n"
    };
    head + &(0..ROWS).map(row).collect::<String>()
}

/// JSON lines: `name=kind` as in a table; `[kind]` is a list of 3 to 6, of the same length as all lists of its row, `[?kind]` one of another
/// length, `{}` an object, `#kind` a number or truth value.
fn lines(columns: &str) -> String {
    let columns: Vec<(&str, &str)> =
        columns.split("; ").map(|column| column.split_once('=').expect("a kind")).collect();
    let mut draws = Draws(11);
    let mut value = |kind: &str, n: usize| -> Value {
        let plain = |kind: &str, n: usize, draws: &mut Draws| match kind.strip_prefix('#') {
            Some(kind) => serde_json::from_str(&cell(kind, n, draws)).expect("a number"),
            None => Value::from(cell(kind, n, draws)),
        };
        if kind == "{}" {
            return serde_json::json!({ "text": ["a"], "start": [n] });
        }
        let Some(inner) = kind.strip_prefix('[').and_then(|kind| kind.strip_suffix(']')) else {
            return plain(kind, n, &mut draws);
        };
        let (inner, length) = match inner.strip_prefix('?') {
            Some(inner) => (inner, 1 + draws.below(2)),
            None => (inner, 3 + n % 4),
        };
        (0..length).map(|at| plain(inner, n * 3 + at, &mut draws)).collect()
    };
    let row = |n: usize| {
        let fields = columns.iter().map(|(name, kind)| ((*name).to_owned(), value(kind, n)));
        Value::Object(fields.collect()).to_string() + "\n"
    };
    (0..ROWS).map(row).collect()
}

/// Files of columns, and what they are: the task, `input`, `label`, `answer` where it is no class, and `tokens`; or `? ` and a part of the
/// question.
#[rustfmt::skip]
const FILES: &[(&str, &str, &str)] = &[
    // Classes of a text.
    ("sst2.tsv", "sentence=text; label=0|1", "table ['sentence'] 'label' words"),
    ("sst2_idx.csv", "sentence=text; label=int:0~1; idx=index", "table ['sentence'] 'label' words"),
    ("imdb.csv", "review=long; sentiment=positive|negative", "table ['review'] 'sentiment' words"),
    ("reviews.csv", "id=one; text=text; label=positive|negative", "table ['text'] 'label' words"),
    ("cola.csv", "label=0|1; sentence=text", "table ['sentence'] 'label' words"),
    ("banking.csv", "text=text; label=int:0~24", "table ['text'] 'label' words"),
    ("spam.tsv", "-=ham|spam; -=text", "table [2] 1 words"),
    ("spam_flag.csv", "text=text; is_spam=True|False", "table ['text'] 'is_spam' words"),
    ("pandas.csv", "=index; text=text; target=0|1|2", "table ['text'] 'target' words"),
    ("unnamed.csv", "Unnamed: 0=index; tweet=text; class=0|1|2", "table ['tweet'] 'class' words"),
    ("names.csv", "name=name; nationality=Czech|Dutch|Greek", "table ['name'] 'nationality' characters"),
    ("dna.csv", "sequence=dna; promoter=+|-", "table ['sequence'] 'promoter' characters"),
    ("setfit.csv", "text=text; label=int:0~2; label_text=low|mid|top", "table ['text'] 'label' words"),
    ("stars.csv", "text=text; stars=int:1~5; date=date; url=url", "table ['text'] 'stars' words"),
    ("news.csv", "label=int:0~3; title=text; description=long", "table ['title', 'description'] 'label' words"),
    ("amazon.csv", "polarity=1|2; title=text; text=long", "table ['title', 'text'] 'polarity' words"),
    ("boolq.csv", "passage=long; answer=true|false", "table ['passage'] 'answer' words"),
    ("meta.csv", "text=text; user_id=big; retweets=big; created=date; label=a|b", "table ['text'] 'label' words"),
    ("essays.csv", "essay_id=one; essay=long; score=float", "table ['essay'] 'score' number words"),
    ("noname.csv", "text=text; zq=a|b", "table ['text'] 'zq' words"),
    // Pairs.
    ("snli.csv", "premise=text; hypothesis=text; label=int:0~2", "pairs ['premise', 'hypothesis'] 'label' words"),
    ("snli_gaps.csv", "premise=text; hypothesis=text; label=int:-1~2", "pairs ['premise', 'hypothesis'] 'label' words"),
    ("mrpc.csv", "sentence1=text; sentence2=text; label=0|1; idx=index", "pairs ['sentence1', 'sentence2'] 'label' words"),
    ("qqp.csv", "id=index; qid1=one; qid2=big; question1=text; question2=text; is_duplicate=0|1", "pairs ['question1', 'question2'] 'is_duplicate' words"),
    ("qnli.csv", "question=text; sentence=text; label=entailment|not_entailment; idx=index", "pairs ['question', 'sentence'] 'label' words"),
    ("esnli.csv", "premise=text; hypothesis=text; label=0|1|2; explanation_1=long", "pairs ['premise', 'hypothesis'] 'label' words"),
    ("kinds.tsv", "kind=same|other; a=text; b=text", "pairs ['a', 'b'] 'kind' words"),
    ("sick.tsv", "pair_ID=one; sentence_A=text; sentence_B=text; relatedness_score=float; entailment_judgment=NEUTRAL|ENTAILMENT", "? `--label relatedness_score`"),
    ("stsb.csv", "sentence1=text; sentence2=text; score=float", "table ['sentence1', 'sentence2'] 'score' number words"),
    ("two_texts.csv", "left_note=long; other=text; label=a|b", "? `--input left_note`"),
    ("multirc.csv", "paragraph=long; question=text; answer=text; label=0|1", "? `--input paragraph`"),
    // Features.
    ("iris.csv", "sepal_length=float; sepal_width=float; petal_length=float; petal_width=float; species=setosa|versicolor|virginica", "table ['sepal_length', 'sepal_width', 'petal_length', 'petal_width'] 'species' characters"),
    ("iris_r.csv", "Id=one; SepalLengthCm=float; SepalWidthCm=float; Species=Iris-setosa|Iris-virginica", "table ['SepalLengthCm', 'SepalWidthCm'] 'Species' characters"),
    ("iris_target.csv", "sepal length (cm)=float; sepal width (cm)=float; target=int:0~2", "table ['sepal length (cm)', 'sepal width (cm)'] 'target' characters"),
    ("iris.data.csv", "-=float; -=float; -=float; -=float; -=Iris-setosa|Iris-versicolor|Iris-virginica", "table [1, 2, 3, 4] 5 characters"),
    ("iris_middle.csv", "sl=float; variety=Setosa|Virginica; pl=float", "table ['sl', 'pl'] 'variety' characters"),
    ("wine.csv", "class=int:1~3; alcohol=float; malic_acid=float; proline=big", "table ['alcohol', 'malic_acid', 'proline'] 'class' characters"),
    ("wine.data.csv", "-=int:1~3; -=float; -=float; -=big", "table [2, 3, 4] 1 characters"),
    ("quality.csv", "fixed acidity=float; pH=float; alcohol=float; quality=int:3~8", "table ['fixed acidity', 'pH', 'alcohol'] 'quality' characters"),
    ("cancer.csv", "id=big; diagnosis=M|B; radius_mean=float; texture_mean=float; Unnamed: 32=empty", "table ['radius_mean', 'texture_mean'] 'diagnosis' characters"),
    ("wdbc.csv", "-=one; -=M|B; -=float; -=float", "table [3, 4] 2 characters"),
    ("cancer_target.csv", "mean radius=float; mean texture=float; target=0|1", "table ['mean radius', 'mean texture'] 'target' characters"),
    ("diabetes.csv", "age=neg; sex=neg; bmi=neg; bp=neg; target=big", "table ['age', 'sex', 'bmi', 'bp'] 'target' number characters"),
    ("diabetes_floats.csv", "age=neg; bmi=neg; progression=float", "table ['age', 'bmi'] 'progression' number characters"),
    ("pima.csv", "Pregnancies=int:0~12; Glucose=big; BMI=float; Outcome=0|1", "table ['Pregnancies', 'Glucose', 'BMI'] 'Outcome' characters"),
    ("pima.data.csv", "-=int:0~12; -=big; -=float; -=0|1", "? `--label 1`"),
    ("abalone.data.csv", "-=M|F|I; -=float; -=float; -=int:1~28", "? `--label 1`"),
    ("housing.csv", "longitude=float; latitude=neg; ocean_proximity=INLAND|NEAR BAY; median_house_value=big", "table ['longitude', 'latitude', 'ocean_proximity'] 'median_house_value' number characters"),
    ("adult.csv", "age=big; workclass=Private|State-gov; sex=Male|Female; income=<=50K|>50K", "table ['age', 'workclass', 'sex'] 'income' characters"),
    ("mushrooms.csv", "class=p|e; cap-shape=x|b|s; odor=p|a|l", "table ['cap-shape', 'odor'] 'class' blanks"),
    ("car.data.csv", "-=vhigh|high|low; -=2|3|4; -=unacc|acc", "? `--label 1`"),
    ("titanic.csv", "PassengerId=one; Survived=0|1; Name=text; Sex=male|female; Age=big", "table ['Name'] 'Survived' words"),
    ("curve.csv", "x=index; y=float", "table ['x'] 'y' number characters"),
    ("unknown.csv", "a=float; b=float; c=float", "? `--label a`"),
    ("jigsaw.csv", "id=uid; comment_text=text; toxic=0|1; obscene=0|1; threat=0|1", "? `--label obscene`"),
    ("genres.csv", "plot=long; genres=Drama|Comedy|Action", "table ['plot'] 'genres' words"),
    // Texts for texts.
    ("translated.csv", "id=one; source=text; target=long", "sequences ['source'] 'target' characters"),
    ("prompts.tsv", "prompt=text; completion=text; created=date", "sequences ['prompt'] 'completion' characters"),
    ("asked.csv", "answer=long; question=text", "sequences ['question'] 'answer' characters"),
    ("two_targets.csv", "source=text; target=text; other=text", "? `target` has the name of a label"),
    ("few_answers.csv", "question=text; answer=yes|no|never", "table ['question'] 'answer' words"),
    ("judged.csv", "source=text; target=text; label=0|1", "pairs ['source', 'target'] 'label' words"),
    // Texts without labels.
    ("one.csv", "text=long", "language ['text'] - characters"),
    ("articles.csv", "id=one; url=url; title=text; text=long", "language ['text'] - characters"),
    ("alpaca.csv", "instruction=text; output=long", "? `--task language`"),
];

#[rustfmt::skip]
const LINES: &[(&str, &str, &str)] = &[
    ("conll.jsonl", "id=index; tokens=[name]; ner_tags=[O|B-PER|I-PER]", "tagging ['tokens'] 'ner_tags' blanks"),
    ("conll_all.jsonl", "id=index; tokens=[name]; pos_tags=[#int:0~8]; chunk_tags=[#int:0~5]; ner_tags=[#int:0~4]", "? `--label ner_tags`"),
    ("tags_first.jsonl", "tags=[O|B|I]; tokens=[name]", "tagging ['tokens'] 'tags' blanks"),
    ("text_label.jsonl", "text=[name]; label=[D|N|V]", "tagging ['text'] 'label' blanks"),
    ("no_names.jsonl", "aa=[O|B|I]; zz=[name]", "tagging ['zz'] 'aa' blanks"),
    ("either.jsonl", "aa=[a|b|c]; zz=[x|y|z]", "? `--input aa`"),
    ("masked.jsonl", "input_ids=[#int:0~40]; attention_mask=[#1]; labels=[#int:0~5]", "tagging ['input_ids'] 'labels' blanks"),
    ("emotions.jsonl", "text=text; labels=[?#int:0~9]", "table ['text'] 'labels' labels words"),
    ("rude.jsonl", "text=text; labels=[?rude|threat|spam]", "table ['text'] 'labels' labels words"),
    ("snli.jsonl", "sentence1=text; sentence2=text; gold_label=neutral|entailment; sentence1_parse=long; pairID=uid; annotator_labels=[?a|b]", "pairs ['sentence1', 'sentence2'] 'gold_label' words"),
    ("spam.jsonl", "text=text; spam=#true|false", "table ['text'] 'spam' words"),
    ("vectors.jsonl", "text=text; embedding=[#float]; label=a|b", "table ['text'] 'label' words"),
    ("boxed.jsonl", "text=text; meta={}; label=a|b", "table ['text'] 'label' words"),
    ("squad.jsonl", "id=uid; context=long; question=text; answers={}", "? `--task language`"),
    ("pile.jsonl", "text=long; meta={}", "language ['text'] - characters"),
    ("topics.jsonl", "words=[name]; topic=a|b", "table ['words'] 'topic' blanks"),
];

/// Written by pyarrow.
#[rustfmt::skip]
const PARQUET: &[(&str, &[u8], &str)] = &[
    ("sst2.parquet", include_bytes!("../tables/sst2.parquet"), "table ['sentence'] 'label' words"),
    ("mnli.parquet", include_bytes!("../tables/mnli.parquet"), "pairs ['premise', 'hypothesis'] 'label' words"),
    ("wnut.parquet", include_bytes!("../tables/wnut.parquet"), "tagging ['tokens'] 'ner_tags' blanks"),
    ("stsb.parquet", include_bytes!("../tables/stsb.parquet"), "table ['sentence1', 'sentence2'] 'label' number words"),
    ("squad.parquet", include_bytes!("../tables/squad.parquet"), "? `--task language`"),
    ("iris.parquet", include_bytes!("../tables/iris.parquet"), "table ['sepal length (cm)', 'sepal width (cm)', 'petal length (cm)'] 'target' characters"),
    ("go_emotions.parquet", include_bytes!("../tables/go_emotions.parquet"), "table ['text'] 'labels' labels words"),
    ("unused_nan.parquet", include_bytes!("../tables/unused_nan.parquet"), "table ['text'] 'label' words"),
    ("label_nan.parquet", include_bytes!("../tables/label_nan.parquet"), "? `target` is a number in 38 of 40 rows, and none in the others (`NaN` in row 39, `NaN` in row 40)"),
    ("decimal.parquet", include_bytes!("../tables/decimal.parquet"), "table ['text'] 'label' number words"),
    ("float16.parquet", include_bytes!("../tables/float16.parquet"), "table ['text'] 'label' number words"),
    ("wikitext.parquet", include_bytes!("../tables/wikitext.parquet"), "language ['text'] - characters"),
];

/// The value of a field of the experiment.
fn field<'e>(experiment: &'e str, name: &str) -> Option<&'e str> {
    experiment.lines().find_map(|line| line.strip_prefix("  ")?.strip_prefix(name)?.strip_prefix(": "))
}

/// An experiment in the words of the tables above.
fn decision(found: &Value) -> String {
    let Some(experiment) = found["experiment"].as_str() else {
        return format!("? {}", found["question"].as_str().unwrap_or("nothing"));
    };
    let input = field(experiment, "input").unwrap_or("-");
    let input = if input.starts_with('[') { input.to_owned() } else { format!("[{input}]") };
    let parts = [
        field(experiment, "name"),
        Some(&*input),
        Some(field(experiment, "label").unwrap_or("-")),
        field(experiment, "answer"),
        Some(field(experiment, "tokens").unwrap_or("blanks")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// What is wrong with the decision about a file, if something is; with `tried` it is written, too, and tried by that.
fn wrong(place: &Place, name: &str, expected: &str, tried: bool) -> Option<String> {
    let yaml = format!("{name}.yaml");
    let write: &[&str] = if tried { &["--write", &yaml] } else { &[] };
    let answer = place.rtc(&[&["task", "check", name, "--json"], write].concat());
    let found = decision(&answer.json());
    let (right, asks) = match expected.strip_prefix("? ") {
        Some(part) => (found.starts_with("? ") && found.contains(part), true),
        None => (found == expected, false),
    };
    let code = if tried && asks { 2 } else { 0 };
    let written = place.path(&yaml).exists();
    if right && answer.status() == Some(code) && written == (tried && !asks) {
        return None;
    }
    Some(format!(
        "{name}: code {:?}, expected {expected}\n    found    {found}\n    {}",
        answer.status(),
        answer.stderr
    ))
}

/// Checks all files, and tries the first of every kind of decision.
fn check(place: &Place, cases: impl IntoIterator<Item = (&'static str, &'static str)>) {
    let cases: Vec<_> = cases.into_iter().collect();
    let kind = |expected: &str| {
        let kind = |word: &&str| {
            ["?", "table", "pairs", "tagging", "sequences", "language", "number", "labels", "characters"].contains(word)
        };
        expected.split(' ').filter(kind).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut seen = BTreeSet::new();
    let one = |(name, expected): &(&str, &str)| wrong(place, name, expected, seen.insert(kind(expected)));
    let wrong: Vec<String> = cases.iter().filter_map(one).collect();
    assert!(wrong.is_empty(), "{} of {} files:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn tables_are_taken_for_what_they_are() {
    let place = Place::new();
    for (name, columns, _) in FILES {
        place.write(name, &table(columns, if name.ends_with(".tsv") { '\t' } else { ',' }));
    }
    check(&place, FILES.iter().map(|(name, _, expected)| (*name, *expected)));
}

#[test]
fn json_lines_are_taken_for_what_they_are() {
    let place = Place::new();
    for (name, columns, _) in LINES {
        place.write(name, &lines(columns));
    }
    check(&place, LINES.iter().map(|(name, _, expected)| (*name, *expected)));
}

#[test]
fn parquet_is_taken_for_what_it_is() {
    let place = Place::new();
    for (name, bytes, _) in PARQUET {
        std::fs::write(place.path(name), bytes).expect("writable");
    }
    check(&place, PARQUET.iter().map(|(name, _, expected)| (*name, *expected)));
}

#[test]
fn published_files_are_taken_for_what_they_are() {
    let Ok(data) = std::env::var("RTC_DATA") else {
        eprintln!("skipped: RTC_DATA names no folder of published data");
        return;
    };
    let place = Place::new();
    for (file, expected) in [
        ("listops/train_d20s_first20.tsv", "table [2] 1 words"),
        ("imdb_sample/orig_dev.tsv.gz", "table ['Text'] 'Sentiment' words"),
    ] {
        let path = format!("{data}/{file}");
        let found = place.rtc(&["task", "check", &path, "--json"]).code(0).json();
        assert_eq!(decision(&found), expected, "{file}");
    }
}

#[test]
fn options_answer_the_questions() {
    let place = Place::new();
    let file = |name: &str| {
        let of = |cases: &[(&str, &str, &str)]| {
            cases.iter().find(|(own, ..)| *own == name).map(|(_, columns, _)| (*columns).to_owned())
        };
        match of(FILES) {
            Some(columns) => table(&columns, if name.ends_with(".tsv") { '\t' } else { ',' }),
            None => lines(&of(LINES).expect("a file of the tables")),
        }
    };
    for (name, options, expected) in [
        ("conll_all.jsonl", "--label pos_tags", "tagging ['tokens'] 'pos_tags' blanks"),
        ("either.jsonl", "--input aa", "tagging ['aa'] 'zz' blanks"),
        (
            "sick.tsv",
            "--label relatedness_score",
            "table ['sentence_A', 'sentence_B'] 'relatedness_score' number words",
        ),
        ("sick.tsv", "--label entailment_judgment", "pairs ['sentence_A', 'sentence_B'] 'entailment_judgment' words"),
        ("two_texts.csv", "--task pairs", "pairs ['left_note', 'other'] 'label' words"),
        ("two_texts.csv", "--input other", "table ['other'] 'label' words"),
        ("two_texts.csv", "--input other --input left_note", "table ['other', 'left_note'] 'label' words"),
        ("pima.data.csv", "--label 4", "table [1, 2, 3] 4 characters"),
        ("abalone.data.csv", "--label 4 --answer number", "table [1, 2, 3] 4 number characters"),
        ("quality.csv", "--answer number", "table ['fixed acidity', 'pH', 'alcohol'] 'quality' number characters"),
        ("alpaca.csv", "--task language --input output", "language ['output'] - characters"),
        ("alpaca.csv", "--task sequences", "sequences ['instruction'] 'output' characters"),
        (
            "alpaca.csv",
            "--task sequences --input output --label instruction",
            "sequences ['output'] 'instruction' characters",
        ),
        ("judged.csv", "--task sequences", "sequences ['source'] 'target' characters"),
        ("reviews.csv", "--task sequences", "? which text is written for which"),
        ("reviews.csv", "--task language", "language ['text'] - characters"),
        ("reviews.csv", "--task tagging", "? no two columns have equally many items"),
        ("reviews.csv", "--label sentiment", "? there is no column `sentiment`"),
        ("reviews.csv", "--label text --input text", "? both input and label"),
        ("stsb.csv", "--task pairs --input sentence1 --input sentence2", "? `--task pairs` has classes alone"),
        ("iris.csv", "--answer number", "? is no number in some rows"),
    ] {
        place.write(name, &file(name));
        let all = [&["task", "check", name, "--json"], &options.split(' ').collect::<Vec<_>>()[..]].concat();
        let found = decision(&place.rtc(&all).code(0).json());
        match expected.strip_prefix("? ") {
            Some(part) => assert!(found.starts_with("? ") && found.contains(part), "{name} {options}: {found}"),
            None => assert_eq!(found, expected, "{name} {options}"),
        }
    }
    place.rtc(&["task", "check", "tiny.yaml", "--label", "a"]).code(2).says("are for a data file");
}

#[test]
fn only_what_was_tried_is_said_to_train() {
    let place = Place::new();
    place.write("reviews.csv", &table("id=one; text=text; label=positive|negative", ','));
    let said = place.rtc(&["task", "check", "reviews.csv", "--write", "a.yaml"]);
    said.code(0).says("a.yaml: read and learned from (dev ").says("`rtc train gut --experiment a.yaml`");
    for why in ["input", "the only text, 6 words a row", "its name is that of a label", "left out: it names the row"] {
        assert!(said.stdout.contains(why), "`{why}` is not in:\n{}", said.stdout);
    }
    // A row that can't be read is told with its line, and nothing is written.
    let broken = place.read("reviews.csv") + "61,,positive\n";
    place.write("hole.csv", &broken);
    place.rtc(&["task", "check", "hole.csv", "--write", "b.yaml"]).code(4).says("hole.csv:62: `text` has no tokens");
    assert!(!place.path("b.yaml").exists());
    // Without the share of `dev` the rows have one label.
    place.write("few.csv", "text,label\na b,x\na b,x\nc d,y\na b,x\n");
    place.rtc(&["task", "check", "few.csv", "--write", "c.yaml"]).code(4).says("all rows have the same `label`");
    assert!(!place.path("c.yaml").exists());
    // The first row of scikit-learn's files is neither a header nor a row.
    place.write(
        "sk.csv",
        &format!("60,4,setosa,versicolor,virginica\n{}", table("-=float; -=float; -=float; -=float; -=int:0~2", ',')),
    );
    place
        .rtc(&["task", "check", "sk.csv", "--write", "d.yaml"])
        .code(2)
        .says("the first row is neither a header nor a row");
    // Plain text with columns of tabs is no text.
    place.write("tabs.txt", "ham\tgo on\nspam\tbuy it\n");
    place.rtc(&["task", "check", "tabs.txt", "--write", "e.yaml"]).code(2).says("a table is named .tsv");
}

#[test]
fn cut_rows_are_counted() {
    let place = Place::new();
    place.write("long.csv", &table("text=long; label=a|b", ','));
    let task = "task: { name: table, data: { train: long.csv, dev: 10% }, length: 4 }\n";
    let rest = "optimiser: { learning_rate: 0.01 }\nschedule: { kind: constant }\nbatch: { size: 16 }\nepochs: 1\nevaluate: [dev]\n";
    place.write("long.yaml", &format!("{task}{rest}"));
    let found = place.rtc(&["task", "check", "long.yaml"]);
    let line = "train: 54 of 54 rows are cut to `task.length`: ";
    assert!(found.code(0).stdout.contains(line), "{}", found.stdout);
    let json = place.rtc(&["task", "check", "long.yaml", "--json"]).code(0).json();
    let train =
        json["splits"].as_array().expect("splits").iter().find(|split| split["split"] == "train").expect("train");
    assert_eq!(train["cut_rows"], 54);
    assert!(train["cut_tokens"].as_u64().is_some_and(|cut| cut > 54 * 20), "{train}");
    place.rtc(&["train", "tiny.rt", "--experiment", "long.yaml", "--run", "r", "--max-steps", "1"]).code(0).says(line);
    let said = place.rtc(&["predict", "r", "the film was good bad long", "--json"]);
    assert_eq!(said.code(0).says("1 of 1 input cut to the length of the task: 33.3 %").json()["cut"], 2);
}

/// Rows of a table with a text and a label, cells joined by a mark.
fn labelled(head: &str, between: &str, labels: &[&str]) -> String {
    let mut draws = Draws(3);
    let row = |n: usize| format!("{}{between}{}\n", draws.text(5), labels[n % labels.len()]);
    head.to_owned() + &(0..ROWS).map(row).collect::<String>()
}

/// Checks a file twice: `task check` asks, and `--write` ends with code 2, without a file.
fn asks(place: &Place, name: &str, text: &str, whys: &[&str]) {
    place.write(name, text);
    let found = place.rtc(&["task", "check", name, "--json"]).code(0).json();
    let question = found["question"].as_str().unwrap_or_default();
    for why in whys {
        assert!(question.contains(why), "{name}: `{why}` is not in: {found:#}");
    }
    let yaml = format!("{name}.yaml");
    place.rtc(&["task", "check", name, "--write", &yaml]).code(2).says(whys[0]);
    assert!(!place.path(&yaml).exists(), "{name}");
}

/// The experiment that `task check` writes for a file, which has loaded it.
fn drafted(place: &Place, name: &str, bytes: &[u8]) -> String {
    std::fs::write(place.path(name), bytes).expect("a new file");
    let yaml = format!("{name}.yaml");
    place.rtc(&["task", "check", name, "--write", &yaml]).code(0).says("dev 6, train 54");
    place.read(&yaml)
}

#[test]
fn cells_with_another_mark_between_are_read_by_it() {
    let place = Place::new();
    for (name, head, between, mark) in [
        ("semicolons.csv", "text;label\n", ";", "';'"),
        ("bars.csv", "text|label\n", "|", "'|'"),
        ("tabs.csv", "text\tlabel\n", "\t", "\"\\u0009\""),
        ("commas.tsv", "text,label\n", ",", "','"),
        ("headless.csv", "", ";", "';'"),
    ] {
        let written = drafted(&place, name, labelled(head, between, &["pos", "neg"]).as_bytes());
        assert!(written.contains(&format!("\n  delimiter: {mark}\n")), "{name}: {written}");
        let text = written.replace(&format!("  delimiter: {mark}\n"), "");
        place.write("usual.yaml", &text);
        place.rtc(&["task", "check", "usual.yaml"]).code(4);
    }
    // Commas in the cells are no other widths of rows, and quoted cells may hold the mark.
    let commas = labelled("text;label\n", ";", &["pos", "neg"]).replace("the ", "the, ");
    assert!(drafted(&place, "both.csv", commas.as_bytes()).contains("delimiter: ';'"));
    let quoted = labelled("\"text\";\"label\"\n", ";", &["\"p;os\"", "\"neg\""]);
    assert!(drafted(&place, "quoted.csv", quoted.as_bytes()).contains("delimiter: ';'"));
    // Rows of different widths are asked about.
    let ragged = labelled("text;label\n", ";", &["pos", "neg;neg"]);
    asks(&place, "ragged.csv", &ragged, &["the cells have `;` between them", "say `delimiter: ';'`"]);
    place.rtc(&["task", "check", "bars.csv", "--delimiter", ","]).code(0).says("");
    place.rtc(&["task", "check", "bars.csv", "--delimiter", "ab"]).code(2).says("can't stand between cells");
    asks(&place, "sep.csv", &labelled("sep=,\ntext,label\n", ",", &["pos", "neg"]), &["is only for spreadsheets"]);
    asks(&place, "sep2.csv", &labelled("sep=;\ntext;label\n", ";", &["pos", "neg"]), &["is only for spreadsheets"]);
    // The only column may hold any of them.
    for (name, head) in [("one.tsv", "text\n"), ("one.csv", "text\n")] {
        place.write(
            name,
            &(head.to_owned() + &table("-=long", ',').replace("film ", "film; ").replace(" plot ", " | ")),
        );
        assert_eq!(
            decision(&place.rtc(&["task", "check", name, "--json"]).code(0).json()),
            "language ['text'] - characters"
        );
    }
}

#[test]
fn a_label_that_can_be_none_is_a_question() {
    let place = Place::new();
    let question = "`label` has the name of a label, and its values are none";
    asks(
        &place,
        "same.csv",
        &labelled("text,label\n", ",", &["pos"]),
        &[question, "the same in all rows", "one class is nothing to learn"],
    );
    asks(&place, "empty.csv", &labelled("text,label\n", ",", &[""]), &[question, "empty"]);
    asks(&place, "days.csv", &labelled("text,label\n", ",", &["2024-01-02", "2024-01-03"]), &[question, "dates"]);
    asks(&place, "boxed.jsonl", &lines("text=text; label={}"), &[question, "objects"]);
    let found = place.rtc(&["task", "check", "same.csv", "--task", "language", "--json"]).code(0).json();
    assert_eq!(decision(&found), "language ['text'] - characters");
    let found = place.rtc(&["task", "check", "same.csv", "--label", "label", "--json"]).code(0).json();
    assert!(decision(&found).contains("`label` is the same in all rows"), "{found}");
}

#[test]
fn lines_of_tokens_are_no_text() {
    let place = Place::new();
    let token = |n: usize| {
        format!(
            "{}{}",
            if n.is_multiple_of(4) { "\n" } else { "" },
            if n.is_multiple_of(3) { "cat\tN" } else { "sat\tV" }
        )
    };
    let text: String = (1..40).map(|n| token(n) + "\n").collect();
    asks(&place, "conll.txt", &text, &["every line has 2 parts with tabs between", "a JSON line per text"]);
    asks(&place, "blanks.txt", &text.replace('\t', " X "), &["every line has 3 parts with blanks between"]);
    asks(&place, "tabs.txt", &text.replace("\n\n", "\n"), &["a table is named .tsv"]);
    place.write("plain.txt", "to be or\n\nnot to be\n\nthat is the question\n\nto be\n\nor\n");
    assert_eq!(
        decision(&place.rtc(&["task", "check", "plain.txt", "--json"]).code(0).json()),
        "language [-] - characters"
    );
}

#[test]
fn numbers_that_are_none_are_named_with_their_rows() {
    let place = Place::new();
    let broken = |odd: &[&str]| {
        let row = |n: usize| {
            let label =
                odd.get(n / 5).filter(|_| n % 5 == 4).map_or_else(|| format!("{}.5", n % 4), |odd| (*odd).to_owned());
            format!("film number {n},{label}\n")
        };
        "text,target\n".to_owned() + &(0..ROWS).map(row).collect::<String>()
    };
    for (name, odd) in [("nan", "nan"), ("inf", "inf"), ("na", "NA"), ("mark", "?"), ("minus", "-inf")] {
        let name = format!("{name}.csv");
        asks(&place, &name, &broken(&[odd]), &["`target` is a number in 59 of 60 rows", &format!("`{odd}` in line 6")]);
    }
    asks(
        &place,
        "many.csv",
        &broken(&["nan"; 12]),
        &["`target` is a number in 48 of 60 rows", "`nan` in line 11", ", .."],
    );
    let all =
        (0..200).map(|n| format!("film {n},{}\n", if n % 50 == 7 { "nan".to_owned() } else { format!("{n}.25") }));
    asks(
        &place,
        "far.csv",
        &("text,target\n".to_owned() + &all.collect::<String>()),
        &["a number in 196 of 200 rows", "`nan` in line 9"],
    );
    let commas = labelled("text\ttarget\n", "\t", &["1,5", "2,25", "3"]);
    asks(&place, "commas.tsv", &commas, &["`1,5` in line 2", "`--decimal comma` reads the comma"]);
    let said = ["task", "check", "commas.tsv", "--decimal", "comma", "--write", "commas.tsv.yaml"];
    place.rtc(&said).code(0).says("dev 6, train 54");
    let written = place.read("commas.tsv.yaml");
    assert!(written.contains("  answer: number\n  decimal: comma\n"), "{written}");
    let mixed = labelled("text\ttarget\n", "\t", &["1,5", "2.25", "3"]);
    asks(
        &place,
        "mixed.tsv",
        &mixed,
        &["`target` has numbers with a comma and others with a point", "`1,5` in line 2"],
    );
    // A point is no decimal point there.
    place.write("commas.tsv", &commas.replacen("2,25", "1.250", 1));
    place.rtc(&["task", "check", "commas.tsv.yaml"]).code(4).says("`1.250` has a point, and `decimal: comma`");
    let json = |n: usize| {
        format!(
            "{{\"text\": \"film {n}\", \"target\": {}}}\n",
            if n == 3 { "\"nan\"".to_owned() } else { format!("{n}.5") }
        )
    };
    asks(
        &place,
        "odd.jsonl",
        &(0..ROWS).map(json).collect::<String>(),
        &["`target` is a number in 59 of 60 rows", "`nan` in line 4"],
    );
    let found = place.rtc(&["task", "check", "nan.csv", "--answer", "class", "--json"]).code(0).json();
    assert_eq!(decision(&found), "table ['text'] 'target' words");
    let found = place.rtc(&["task", "check", "nan.csv", "--answer", "number", "--json"]).code(0).json();
    assert!(decision(&found).contains("`target` is no number in some rows (`nan` in line 6)"), "{found}");
}

#[test]
fn names_of_splits_are_said() {
    let place = Place::new();
    let row = |n: usize| {
        let split = ["train", "train", "validation", "test"][n % 4];
        format!("film number {n},{},{split}\n", if n.is_multiple_of(3) { "bad" } else { "good" })
    };
    place.write("splits.csv", &("text,label,split\n".to_owned() + &(0..ROWS).map(row).collect::<String>()));
    let said = place.rtc(&["task", "check", "splits.csv", "--write", "a.yaml"]);
    said.code(0).says("warning: `split` says which split a row belongs to (test, train, validation)");
    assert!(said.stdout.contains("left out: it says which split a row belongs to"), "{}", said.stdout);
    // It is no label either.
    place.write(
        "bare.csv",
        &place.read("splits.csv").replace(",good,", ",").replace(",bad,", ",").replace(",label,", ","),
    );
    let found = place.rtc(&["task", "check", "bare.csv", "--json"]).code(0).json();
    assert_eq!(decision(&found), "language ['text'] - characters");
    assert_eq!(found["notes"].as_array().map(Vec::len), Some(1), "{found:#}");
}

#[test]
fn classes_that_look_the_same_are_said_of_a_new_experiment() {
    let place = Place::new();
    place.write("alike.csv", &labelled("text,label\n", ",", &["1", "1.0", "0", "0.0"]));
    let said = place.rtc(&["task", "check", "alike.csv", "--answer", "class", "--write", "a.yaml"]);
    said.code(0).says("the classes `1` (1) and `1.0` (1.0) are the same number").says("`0` (0) and `0.0` (0.0)");
}

#[test]
fn files_that_are_no_tables_have_one_problem() {
    let place = Place::new();
    for (name, text, why) in [
        (
            "pretty.jsonl",
            "{\n  \"text\": \"a\",\n  \"label\": \"b\"\n}\n",
            "pretty.jsonl:1: JSON lines are wanted, an object per line",
        ),
        ("open.json", "[\n  {\"text\": \"a\"},\n  {\"text\": \"b\"}\n", "the list that begins the file never ends"),
        ("more.json", "[{\"text\": \"a\"}]\n{\"text\": \"b\"}\n", "behind the list comes more"),
        ("rowless.csv", "text,label\n", "the file has no rows below the names of its columns"),
    ] {
        place.write(name, text);
        let said = place.rtc(&["task", "check", name]);
        said.code(4).says(why);
        assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    }
    // A mark that is no quotation mark has an option.
    let inches =
        table("id=one; text=text; label=pos|neg", ',').replacen("the ", "\"the ", 1).replacen(",the ", ",\"the ", 1);
    place.write("inches.csv", &inches);
    place.rtc(&["task", "check", "inches.csv"]).code(4).says("`--quotes none` of `rtc task check`");
    place.rtc(&["task", "check", "inches.csv", "--quotes", "none", "--write", "inches.yaml"]).code(0);
    assert!(place.read("inches.yaml").contains("  quotes: none\n"));
    asks(
        &place,
        "rows.csv",
        "{\"text\": \"a, b\", \"label\": \"x\"}\n{\"text\": \"c\", \"label\": \"y\"}\n",
        &["name the file .jsonl"],
    );
    place.rtc(&["task", "check", "nowhere.csv"]).code(6).says("nowhere.csv");
    // Line ends in names are read back.
    let text = table("id=one; text=text; label=pos|neg", ',').replacen("id,text,label", "id,\"my\ntext\",label", 1);
    place.write("ends.csv", &text);
    place.rtc(&["task", "check", "ends.csv", "--write", "ends.yaml"]).code(0);
}

#[test]
fn a_file_that_the_reader_gives_up_is_told_in_a_line() {
    let place = Place::new();
    let mut bytes = include_bytes!("../tables/sst2.parquet").to_vec();
    // The place of a column, which is below 0 then: the reader panics.
    bytes[1244] = 127;
    std::fs::write(place.path("damaged.parquet"), bytes).expect("a new file");
    let mut command = place.command(crate::support::RTC);
    let answer = command.args(["task", "check", "damaged.parquet"]).env("RUST_BACKTRACE", "1").output();
    let answer: crate::support::Answer = answer.expect("the binary runs").into();
    answer.code(4).says("damaged.parquet").is_quiet_about("panicked").is_quiet_about("backtrace");
}

#[test]
fn texts_in_other_encodings_are_read_and_named() {
    let place = Place::new();
    let text = labelled("text,label\n", ",", &["gut", "schl\u{e4}ft"]).replace("the ", "caf\u{e9} it\u{2019}s ");
    let utf16 = |mark: bool, bytes: fn(u16) -> [u8; 2]| {
        let mark = if mark { "\u{feff}" } else { "" };
        format!("{mark}{text}").encode_utf16().flat_map(bytes).collect::<Vec<u8>>()
    };
    let one = |c: char| match c {
        '\u{2019}' => 0x92,
        c => u8::try_from(u32::from(c)).expect("a letter of Western Europe"),
    };
    let western: Vec<u8> = text.chars().map(one).collect();
    for (name, bytes, encoding) in [
        ("little.csv", utf16(true, u16::to_le_bytes), None),
        ("big.csv", utf16(true, u16::to_be_bytes), None),
        ("unmarked.csv", utf16(false, u16::to_le_bytes), Some("utf-16le")),
        ("western.csv", western.clone(), Some("windows-1252")),
    ] {
        let written = drafted(&place, name, &bytes);
        let named = written.lines().find_map(|line| line.strip_prefix("  encoding: "));
        assert_eq!(named, encoding, "{name}: {written}");
        // What is read is what the UTF-8 file has.
        std::fs::write(place.path("plain.csv"), &text).expect("a new file");
        let sample = |file: &str| {
            let said = place.rtc(&["task", "check", file, "--json"]).code(0).json();
            said["columns"].to_string()
        };
        assert_eq!(sample(name), sample("plain.csv"), "{name}");
    }
    let told = place.rtc(&["task", "check", "western.csv"]);
    assert!(told.code(0).stdout.contains("it is read as windows-1252, by its bytes"), "{}", told.stdout);
    let other = place.rtc(&["task", "check", "western.csv", "--encoding", "iso-8859-2", "--write", "other.yaml"]);
    other.code(0);
    assert!(place.read("other.yaml").contains("encoding: iso-8859-2"));
    place.rtc(&["task", "check", "western.csv", "--encoding", "latin-9000"]).code(2).says("there is no encoding");
    // A file in UTF-8 with a byte too many is no file in another encoding.
    let mut damaged = text.clone().into_bytes();
    let at = damaged.iter().rposition(|byte| *byte == b',').expect("a comma");
    damaged.insert(at, 0xE9);
    std::fs::write(place.path("damaged.csv"), &damaged).expect("a new file");
    place.rtc(&["task", "check", "damaged.csv"]).code(4).says("damaged.csv:61: this line is not UTF-8 text");
    // Without the line the experiment says where it is needed.
    place.write("none.yaml", &place.read("western.csv.yaml").replace("  encoding: windows-1252\n", ""));
    place.rtc(&["task", "check", "none.yaml"]).code(4).says("as `encoding: windows-1252`");

    // A list of objects, on one line or on many, is as good as a line for each.
    let objects: Vec<Value> = text
        .lines()
        .skip(1)
        .map(|line| line.split_once(',').expect("two cells"))
        .map(|(text, label)| serde_json::json!({ "text": text, "label": label }))
        .collect();
    let list = Value::Array(objects);
    let pretty = serde_json::to_string_pretty(&list).expect("JSON");
    for (name, text) in [("line.json", list.to_string()), ("pretty.json", pretty)] {
        drafted(&place, name, text.as_bytes());
    }

    // A training on such a file, and questions to its run from files in either form.
    let small =
        ["--set", "embed.width=8", "--set", "self.heads=2", "--set", "feedforward.hidden=8", "--max-steps", "2"];
    let train = |yaml: &str, run: &str| {
        let args = [&["train", "transformer", "--experiment", yaml, "--run", run], &small[..]].concat();
        place.rtc(&args).code(0);
        place.read(&format!("runs/{run}/metrics.jsonl")).lines().next().expect("a line").to_owned()
    };
    let loss = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["loss"].clone();
    let western = train("western.csv.yaml", "western");
    place.rtc(&["task", "check", "plain.csv", "--write", "plain.yaml"]).code(0);
    assert_eq!(loss(&western), loss(&train("plain.yaml", "plain")), "the same rows, from memory and from the file");
    assert_eq!(loss(&western), loss(&train("pretty.json.yaml", "list")));
    let answers = |run: &str, input: &str| {
        place.rtc(&["predict", &format!("runs/{run}"), "--input", input, "--json"]).code(0).stdout.clone()
    };
    assert_eq!(answers("western", "western.csv"), answers("western", "plain.csv"));
    assert_eq!(answers("plain", "little.csv"), answers("plain", "plain.csv"));
    place.write("semicolons.csv", &text.replace(',', ";"));
    place.rtc(&["task", "check", "semicolons.csv", "--write", "semicolons.yaml"]).code(0);
    train("semicolons.yaml", "semicolons");
    assert_eq!(answers("semicolons", "semicolons.csv"), answers("semicolons", "plain.csv"));

    // A text is read so, too.
    let long = "Der K\u{e4}se ist gut, na\u{ef}v und alt.\n".repeat(200);
    std::fs::write(place.path("long.txt"), long.chars().map(one).collect::<Vec<u8>>()).expect("a new file");
    place.rtc(&["task", "check", "long.txt", "--write", "long.yaml"]).code(0);
    assert!(place.read("long.yaml").contains("encoding: windows-1252"));
    place.write("fast.txt", &"__label__good a fine film\n__label__bad a dull one\n".repeat(30));
    place.rtc(&["task", "check", "fast.txt", "--write", "fast.yaml"]).code(2).says("as files of fastText do");
    place.write("book.xlsx", "PK");
    place.rtc(&["task", "check", "book.xlsx"]).code(4).says("save the sheet as CSV");
}

#[test]
fn rows_without_a_label_are_left_out_on_request_and_counted() {
    let place = Place::new();
    let text = labelled("text,label\n", ",", &["pos", "neg", ""]);
    place.write("some.csv", &text);
    let said = place.rtc(&["task", "check", "some.csv", "--write", "some.yaml"]);
    said.code(0)
        .says("20 of 60 rows have no label: `unlabelled: skip` leaves them out")
        .says("rows without a label are skipped");
    let written = place.read("some.yaml");
    assert!(written.contains("\n  unlabelled: skip\n"), "{written}");
    place.write("refused.yaml", &written.replace("  unlabelled: skip\n", ""));
    place
        .rtc(&["task", "check", "refused.yaml"])
        .code(4)
        .says("some.csv:4: `label` is empty")
        .says("`unlabelled: skip`");
    // The rows that are left are those of a file without the others, wherever they are read from.
    let labelled_only: String =
        text.lines().filter(|line| !line.ends_with(',')).map(|line| format!("{line}\n")).collect();
    place.write("labelled.csv", &labelled_only);
    place.rtc(&["task", "check", "labelled.csv", "--write", "labelled.yaml"]).code(0);
    let small =
        ["--set", "embed.width=8", "--set", "self.heads=2", "--set", "feedforward.hidden=8", "--max-steps", "3"];
    let metrics = |yaml: &str, run: &str| {
        place
            .rtc(
                &[&["train", "transformer", "--experiment", yaml, "--run", run, "--with", "log_every=1"], &small[..]]
                    .concat(),
            )
            .code(0);
        let lines = place.read(&format!("runs/{run}/metrics.jsonl"));
        let loss = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["loss"].clone();
        lines.lines().map(loss).collect::<Vec<_>>()
    };
    assert_eq!(metrics("some.yaml", "some"), metrics("labelled.yaml", "labelled"));
    let told = place.rtc(&["task", "check", "some.yaml"]);
    assert!(told.code(0).stdout.contains("rows without a label are skipped"), "{}", told.stdout);
    place.rtc(&["eval", "runs/some", "--split", "dev"]).code(0);
    // JSON lines may lack the key, or have null there.
    let line = |n: usize| match n % 3 {
        0 => format!("{{\"text\": \"film {n}\"}}\n"),
        1 => format!("{{\"text\": \"film {n}\", \"label\": null}}\n"),
        _ => format!("{{\"text\": \"film {n}\", \"label\": {}}}\n", n % 2),
    };
    place.write("some.jsonl", &(0..90).map(line).collect::<String>());
    place.rtc(&["task", "check", "some.jsonl", "--write", "jsonl.yaml"]).code(0).says("60 of 90 rows have no label");
    place.write("tags.yaml", "task: { name: tagging, data: { train: t.jsonl, dev: 10% }, input: a, label: b, unlabelled: skip }\noptimiser: { learning_rate: 0.1 }\nschedule: { kind: constant }\nbatch: { size: 4 }\nepochs: 1\nevaluate: []\n");
    place.rtc(&["task", "check", "tags.yaml"]).code(2).says("is for rows with one label");
}

/// Models of paper size get widths by the number of rows, and all of them can be trained.
#[test]
fn every_model_is_sized_to_the_rows() {
    let place = Place::new();
    let table = |rows: usize| {
        let row = |n: usize| format!("a film {} {},{}\n", n % 7, ["very", "so"][n % 2], ["good", "bad"][n % 3 % 2]);
        format!("text,label\n{}", (0..rows).map(row).collect::<String>())
    };
    place.write("few.csv", &table(40));
    place.rtc(&["task", "check", "few.csv", "--write", "few.yaml"]).code(0).says("parameters on it");
    place.rtc(&["task", "check", "few.csv", "--write", "timed.yaml", "--forecast"]).code(0).says("on it, at most ");
    for model in ["transformer", "ut", "gut", "tlb", "gutlb"] {
        let shown = place.rtc(&["show", model, "--experiment", "few.yaml"]);
        let wide = |line: &&str| line.trim().starts_with("width: 512") || line.trim().starts_with("hidden: 1024");
        assert_eq!(shown.code(0).stdout.lines().filter(wide).count(), 0, "{}", shown.stdout);
        assert!(shown.stdout.contains("width: 128"), "{}", shown.stdout);
        place.rtc(&["train", model, "--experiment", "few.yaml", "--max-steps", "1", "--run", model]).code(0);
    }
    for (rows, width) in [(20_001, Some("embed.width=256")), (200_001, None)] {
        place.write("many.csv", &table(rows));
        let drafted = place.rtc(&["task", "check", "many.csv", "--json"]).code(0).json();
        let text = drafted["experiment"].as_str().expect("an experiment");
        assert_eq!(width.is_some_and(|width| text.contains(width)), width.is_some(), "{text}");
        assert_eq!(text.contains("models:"), width.is_some(), "{text}");
    }
}
