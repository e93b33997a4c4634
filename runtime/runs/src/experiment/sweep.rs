//! Sweeps: the block `grid` of an experiment makes several rows of every entry of `compare`, one for each point of a grid of
//! settings, or for points that are drawn.

use std::collections::BTreeMap;

use rtc_compiler::feature::{Feature, slots};
use rtc_compiler::schema::FieldKind;
use schemars::JsonSchema;
use serde_yaml::{Mapping, Value};

use super::compare::ComparedModel;
use super::layers::ExperimentLayers;
use super::schema::{AcceptedNumbers, numbers};
use crate::error::ExperimentError;
use rtc_base::rng::Key;
use rtc_task::error::hint;

/// The most rows of a grid: more are a mistake.
pub const MOST: usize = 1_000;

/// Significant digits of the values of a range.
const DIGITS: usize = 6;

/// Keys of the block that are no settings.
const EDITS: &str = "set";
const RANDOM: &str = "random";

/// The block as it is written.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its form is read")]
pub(super) struct Swept {
    /// Edits of the spec with their values, as in `{ depthwise.depth: [4, 8] }`.
    set: Option<BTreeMap<String, Several>>,
    /// How many points are drawn, and by which seed; all points without it.
    random: Option<Drawn>,
    /// Settings with their values, as in `batch.size: [16, 32]`.
    #[serde(flatten)]
    settings: BTreeMap<String, Several>,
}

/// How many points are drawn, and by which seed.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code, reason = "only its form is read")]
struct Drawn {
    /// How many.
    count: u64,
    /// Other points for another seed.
    seed: Option<u64>,
}

/// The values of a setting.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its form is read")]
enum Several {
    /// Any values.
    List(Vec<serde_json::Value>),
    /// Numbers between two ends.
    Range(Between),
}

/// Numbers between two ends.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code, reason = "only its form is read")]
struct Between {
    /// One end.
    from: f64,
    /// The other end.
    to: f64,
    /// How many values; as many as are drawn without it.
    steps: Option<u64>,
    /// Whether differences or quotients of neighbours are equal.
    scale: Option<SweepScale>,
}

/// How values lie between two ends.
#[derive(JsonSchema)]
#[schemars(rename = "Scale")]
#[serde(rename_all = "snake_case")]
#[allow(dead_code, reason = "only its form is read")]
enum SweepScale {
    /// With equal differences.
    Linear,
    /// With equal quotients.
    Log,
}

/// The block `grid`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sweep {
    axes: Vec<SweptSetting>,
    /// How many points are drawn, and by which seed; all points without it.
    random: Option<(usize, u64)>,
}

/// A setting with its values.
#[derive(Clone, Debug, PartialEq)]
struct SweptSetting {
    /// The path, as in `optimiser.learning_rate`.
    path: String,
    /// Whether it is one of the spec.
    of_spec: bool,
    values: Values,
}

/// The values of a setting.
#[derive(Clone, Debug, PartialEq)]
enum Values {
    List(Vec<String>),
    Range(SweepRange),
}

/// Numbers between two ends.
#[derive(Clone, Copy, Debug, PartialEq)]
struct SweepRange {
    from: f64,
    to: f64,
    /// How many; as many as are drawn without it.
    steps: Option<usize>,
    /// Whether quotients are equal, and not differences.
    log: bool,
    /// Whether they are whole.
    whole: bool,
}

impl Sweep {
    /// Reads the block.
    pub(super) fn read(layers: &ExperimentLayers, block: &Value) -> Result<Self, ExperimentError> {
        let wrong = |path: &[&str], message: &str| {
            Err(layers.error(&[&[&["grid"], path].concat(), &["grid"]], format!("`grid`: {message}")))
        };
        let Some(fields) = block.as_mapping().filter(|fields| !fields.is_empty()) else {
            return wrong(&[], "takes settings with their values, as in `{ batch.size: [16, 32] }`");
        };
        let random = match fields.get(RANDOM).map(random) {
            Some(Err(message)) => return wrong(&[RANDOM], message),
            Some(Ok(random)) => Some(random),
            None => None,
        };
        let edits = match fields.get(EDITS) {
            None => &Mapping::new(),
            Some(Value::Mapping(edits)) => edits,
            Some(_) => {
                return wrong(
                    &[EDITS],
                    "`set` takes edits of the spec with their values, as in `{ depthwise.depth: [4, 8] }`",
                );
            }
        };
        let own = fields.iter().filter(|(key, _)| !matches!(key.as_str(), Some(EDITS | RANDOM)));
        let mut axes: Vec<SweptSetting> = vec![];
        for (of_spec, (path, list)) in own.map(|one| (false, one)).chain(edits.iter().map(|one| (true, one))) {
            let Some(path) = path.as_str() else { return wrong(&[], "a setting is a path, as in `batch.size`") };
            let place = if of_spec { vec![EDITS, path] } else { vec![path] };
            if !of_spec && path.split('.').next() == Some("seeds") {
                return wrong(&place, "`seeds` are no setting: every row is trained with all of them");
            }
            let numbers = if of_spec { of_field(path) } else { numbers(path) };
            match values(list, random.is_some(), numbers) {
                Ok(values) => axes.push(SweptSetting { path: path.to_owned(), of_spec, values }),
                Err(message) => return wrong(&place, &format!("`{path}`: {message}")),
            }
        }
        if axes.is_empty() {
            return wrong(&[], "has no setting");
        }
        let sweep = Self { axes, random };
        match sweep.count() {
            count if count > MOST => return wrong(&[], &format!("{count} points are more than {MOST}")),
            _ => {}
        }
        match (sweep.random, sweep.points().len()) {
            (Some((count, _)), found) if found < count => wrong(
                &[RANDOM],
                &format!(
                    "`random` asks for {count} different points, and {found} were found: say `count: {found}`, or give the \
                     settings more values"
                ),
            ),
            _ => Ok(sweep),
        }
    }

    /// The rows of some entries: every entry at every point, which its name says where the points differ.
    pub(super) fn rows(
        &self,
        layers: &ExperimentLayers,
        entries: &[ComparedModel],
    ) -> Result<Vec<ComparedModel>, ExperimentError> {
        let points = self.points();
        let wrong = |message: String| Err(layers.error(&[&["grid"]], format!("`grid`: {message}")));
        if points.len() * entries.len() > MOST {
            let rows = points.len() * entries.len();
            return wrong(format!("{rows} rows are more than {MOST}"));
        }
        let mut rows: Vec<ComparedModel> = vec![];
        for entry in entries {
            for point in &points {
                let row = self.row(entry, point, &points);
                if let Some(same) = rows.iter().find(|other| other.folder() == row.folder()) {
                    return wrong(format!("the rows `{}` and `{}` need names that differ", same.name, row.name));
                }
                rows.push(row);
            }
        }
        Ok(rows)
    }

    /// An entry at a point.
    fn row(&self, entry: &ComparedModel, point: &[String], points: &[Vec<String>]) -> ComparedModel {
        let mut row = entry.clone();
        for (n, (axis, value)) in self.axes.iter().zip(point).enumerate() {
            let edits = if axis.of_spec { &mut row.set } else { &mut row.with };
            edits.push(format!("{}={value}", axis.path));
            if points.iter().any(|other| other[n] != *value) {
                row.name.push_str(&format!(" {}={value}", self.short(n)));
            }
        }
        row
    }

    /// What names call a setting: the end of its path, or all of it where another one ends alike.
    fn short(&self, n: usize) -> &str {
        let end = |axis: &SweptSetting| axis.path.rsplit('.').next().unwrap_or_default().to_owned();
        let own = &self.axes[n];
        let alike = self.axes.iter().filter(|axis| end(axis) == end(own)).count();
        if alike > 1 { &own.path } else { own.path.rsplit('.').next().unwrap_or_default() }
    }

    /// How many points there are, at most.
    fn count(&self) -> usize {
        match self.random {
            Some((count, _)) => count,
            None => self.axes.iter().map(|axis| axis.values.all().len()).fold(1, usize::saturating_mul),
        }
    }

    /// The values of all settings, point by point; the last setting changes first. No point is there twice.
    fn points(&self) -> Vec<Vec<String>> {
        let Some((count, seed)) = self.random else {
            return self.axes.iter().fold(vec![vec![]], |points, axis| {
                let all = axis.values.all();
                let longer = |point: &Vec<String>| -> Vec<Vec<String>> {
                    all.iter().map(|value| [point.as_slice(), std::slice::from_ref(value)].concat()).collect()
                };
                points.iter().flat_map(longer).collect()
            });
        };
        let key = Key::new(seed).stream("sweep");
        let draw = |n: u64| -> Vec<String> {
            self.axes.iter().map(|axis| axis.values.draw(key.stream(&axis.path), n)).collect()
        };
        let mut points: Vec<Vec<String>> = vec![];
        for point in (0..100 * count as u64).map(draw) {
            if points.len() < count && !points.contains(&point) {
                points.push(point);
            }
        }
        points
    }
}

impl Values {
    /// All of them, in order.
    fn all(&self) -> Vec<String> {
        match self {
            Self::List(list) => list.clone(),
            Self::Range(range) => range.all(),
        }
    }

    /// One of them.
    fn draw(&self, key: Key, n: u64) -> String {
        match self {
            Self::List(list) => list[key.below(n, list.len() as u64) as usize].clone(),
            Self::Range(range) if range.steps.is_some() => {
                let all = range.all();
                all[key.below(n, all.len() as u64) as usize].clone()
            }
            Self::Range(range) => range.at(key.uniform(n), 3),
        }
    }
}

impl SweepRange {
    fn all(&self) -> Vec<String> {
        let steps = self.steps.unwrap_or(2);
        (0..steps).map(|n| self.at(n as f64 / (steps - 1) as f64, DIGITS)).collect()
    }

    /// How many different values it has, where that is less than it asks for.
    fn too_few(&self) -> Option<usize> {
        let mut all = self.all();
        let asked = all.len();
        all.dedup();
        (all.len() < asked).then_some(all.len())
    }

    /// Whether every value is whole as it is, without being rounded.
    fn is_exactly_whole(&self) -> bool {
        let real = Self { whole: false, ..*self };
        self.steps.is_some()
            && real.all().iter().all(|value| value.parse().is_ok_and(|value: f64| value.fract() == 0.0))
    }

    /// The number at this share of the way, with so many digits.
    fn at(&self, share: f64, digits: usize) -> String {
        let Self { from, to, .. } = *self;
        let between = if self.log { from * (to / from).powf(share) } else { from + share * (to - from) };
        let number = if share == 1.0 { to } else { between };
        if self.whole {
            return format!("{}", number.round() as i64);
        }
        let rounded: f64 = format!("{number:.*e}", digits - 1).parse().unwrap_or(number);
        if (1e-4..1e7).contains(&rounded.abs()) || rounded == 0.0 {
            rounded.to_string()
        } else {
            format!("{rounded:e}")
        }
    }
}

/// `{ count: 8, seed: 1 }`.
fn random(block: &Value) -> Result<(usize, u64), &'static str> {
    const FORM: &str = "`random` takes how many points are drawn and by which seed, as in `{ count: 8, seed: 1 }`";
    let fields = block.as_mapping().ok_or(FORM)?;
    let known = fields.keys().all(|key| matches!(key.as_str(), Some("count" | "seed")));
    let count = fields.get("count").and_then(Value::as_u64).filter(|count| *count > 0 && known).ok_or(FORM)?;
    let seed = fields.get("seed").map_or(Some(0), Value::as_u64).ok_or(FORM)?;
    Ok((usize::try_from(count).unwrap_or(usize::MAX), seed))
}

/// A list of values, or a range.
fn values(given: &Value, drawn: bool, numbers: Option<AcceptedNumbers>) -> Result<Values, String> {
    match given {
        Value::Sequence(list) if !list.is_empty() => {
            let texts: Vec<String> = list.iter().map(inline).collect();
            let pairs = (0..list.len()).flat_map(|a| (a + 1..list.len()).map(move |b| (a, b)));
            // Points that are drawn are told apart by their texts.
            let is_twice = |(a, b): &(usize, usize)| is_same(&list[*a], &list[*b]) && !(drawn && texts[*a] == texts[*b]);
            match pairs.into_iter().find(is_twice) {
                Some((a, b)) => Err(format!("`{}` and `{}` are the same value: remove one", texts[a], texts[b])),
                None => Ok(Values::List(texts)),
            }
        }
        Value::Mapping(fields) => range(fields, drawn, numbers).map(Values::Range),
        _ => Err("takes a list of values, as in `[1, 2]`, or a range, as in `{ from: 1e-4, to: 1e-2, steps: 3, scale: log }`".to_owned()),
    }
}

fn range(fields: &Mapping, drawn: bool, numbers: Option<AcceptedNumbers>) -> Result<SweepRange, String> {
    const KNOWN: [&str; 4] = ["from", "to", "steps", "scale"];
    for name in fields.keys().map(|name| name.as_str().unwrap_or_default()) {
        if !KNOWN.contains(&name) {
            return Err(format!("a range has no field `{name}`{} (known: {})", hint(name, &KNOWN), KNOWN.join(", ")));
        }
    }
    let end = |name: &str| fields.get(name).and_then(Value::as_f64).filter(|end| end.is_finite());
    let (Some(from), Some(to)) = (end("from"), end("to")) else {
        return Err("a range goes `from` a number `to` another one".to_owned());
    };
    let log = match fields.get("scale").map(|scale| scale.as_str().unwrap_or_default()) {
        None | Some("linear") => false,
        Some("log") if from > 0.0 && to > 0.0 => true,
        Some("log") => return Err("both ends of a logarithmic range are positive".to_owned()),
        Some(_) => return Err("`scale` is `linear` or `log`".to_owned()),
    };
    let steps = match fields.get("steps").map(Value::as_u64) {
        None if drawn => None,
        Some(Some(steps)) if (2..=MOST as u64).contains(&steps) => Some(steps as usize),
        _ => return Err(format!("`steps` says how many values a range has, from 2 to {MOST}")),
    };
    let is_whole = |name: &str| fields.get(name).is_some_and(|end| end.is_i64() || end.is_u64());
    let range = SweepRange { from, to, steps, log, whole: false };
    let range = SweepRange { whole: whole(&range, is_whole("from") && is_whole("to"), numbers)?, ..range };
    match range.too_few().filter(|_| from != to || steps.is_some()) {
        Some(1) => {
            Err(format!("all values from {from} to {to} are one: give it as a list, `[{}]`", range.at(0.0, DIGITS)))
        }
        Some(count) => Err(format!(
            "{} values from {from} to {to}{} are {count} different: say `steps: {count}`, or give a list",
            range.steps.unwrap_or(2),
            if range.whole { ", which are whole numbers here," } else { ", with six digits each," },
        )),
        None => Ok(range),
    }
}

/// Whether a range has whole numbers alone: the setting decides. Of a setting that is not known, the range itself must say so.
fn whole(range: &SweepRange, whole_ends: bool, numbers: Option<AcceptedNumbers>) -> Result<bool, String> {
    match numbers {
        Some(AcceptedNumbers::Any) => Ok(false),
        Some(AcceptedNumbers::Whole) if whole_ends => Ok(true),
        Some(AcceptedNumbers::Whole) => Err("takes whole numbers: both ends of its range must be whole".to_owned()),
        None if !whole_ends || range.is_exactly_whole() => Ok(false),
        None => Err(format!(
            "whether it takes whole numbers alone is not known: write `from: {:.1}` for any number, `steps` that give whole ones, \
             or a list",
            range.from
        )),
    }
}

/// Whether two values are equal; 1 and 1.0 are.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.is_f64() != b.is_f64() && a.as_f64() == b.as_f64(),
        (Value::Sequence(a), Value::Sequence(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (Value::Mapping(a), Value::Mapping(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_same(a, b)))
        }
        _ => a == b,
    }
}

/// Which numbers a field of a spec takes, by the end of its path: `depthwise.depth`, `attend[2].heads`, `dropout`. Nothing of a
/// field that a spec defines, or that is a different one in different statements.
fn of_field(path: &str) -> Option<AcceptedNumbers> {
    let mut parts = path.rsplit('.').map(|part| part.split('[').next().unwrap_or_default());
    let (name, statement) = (parts.next()?, parts.next().unwrap_or("model"));
    let is_meant = |feature: &&Feature| feature.slot == statement || feature.variant == statement;
    let features = slots().iter().flat_map(|slot| &slot.features).map(|feature| &**feature).filter(is_meant);
    let kinds =
        features.flat_map(|feature| &feature.fields).filter(|field| field.name == name).map(|field| &field.kind);
    let mut found = kinds.map(|kind| match kind {
        FieldKind::Int | FieldKind::IntOr(_) | FieldKind::Depth | FieldKind::Choices => Some(AcceptedNumbers::Whole),
        FieldKind::Float | FieldKind::FloatOr(_) => Some(AcceptedNumbers::Any),
        FieldKind::Word(_) | FieldKind::Truth | FieldKind::Function | FieldKind::Mask | FieldKind::Bias => None,
    });
    let first = found.next()??;
    found.all(|other| other == Some(first)).then_some(first)
}

/// A value as an edit has it: in one line.
fn inline(value: &Value) -> String {
    let json = || serde_json::to_string(value).unwrap_or_default();
    match value {
        // A text stands as it is where it is read back as that text.
        Value::String(text) if serde_yaml::from_str::<Value>(text).is_ok_and(|read| read == *value) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => json(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ExperimentFile;

    const REST: &str = "task: { name: listops }\noptimiser: { learning_rate: 0.1 }\nschedule: { kind: constant }\n\
                        batch: { size: 2 }\nepochs: 1\nevaluate: [test]\n";

    fn parse(grid: &str) -> Result<ExperimentFile, String> {
        ExperimentFile::parse("x.yaml", &format!("{REST}{grid}\n")).map_err(|error| error.to_string())
    }

    fn names(file: &ExperimentFile) -> Vec<&str> {
        file.compare().iter().map(|entry| entry.name.as_str()).collect()
    }

    #[test]
    fn every_entry_is_taken_at_every_point() {
        let file = parse(
            "compare: [ut, gut]\ngrid:\n  optimiser.learning_rate: [1e-3, 0.003]\n  set: { depthwise.depth: [4, 8] }\n  batch.size: [16]",
        );
        let file = file.expect("valid");
        let expected = [
            "ut learning_rate=0.001 depth=4",
            "ut learning_rate=0.001 depth=8",
            "ut learning_rate=0.003 depth=4",
            "ut learning_rate=0.003 depth=8",
        ];
        assert_eq!(names(&file)[..4], expected);
        assert_eq!(file.compare().len(), 8);
        let last = &file.compare()[7];
        assert_eq!((&last.spec, &last.set), (&"gut".to_owned(), &vec!["depthwise.depth=8".to_owned()]));
        assert_eq!(last.with, ["optimiser.learning_rate=0.003", "batch.size=16"]);
        assert_eq!(last.folder(), "gut-learning_rate-0.003-depth-8");
        let experiment = file.resolve(None, &last.with).expect("valid");
        assert_eq!((experiment.optimiser.learning_rate, experiment.batch.size), (0.003, 16));
    }

    #[test]
    fn a_sweep_needs_no_comparison_where_there_is_a_model() {
        let file = parse("model: ut\ngrid: { batch.size: { from: 8, to: 64, steps: 4, scale: log } }").expect("valid");
        assert_eq!(names(&file), ["ut size=8", "ut size=16", "ut size=32", "ut size=64"]);
        let error = parse("grid: { batch.size: [8] }").expect_err("no model");
        assert!(error.contains("x.yaml:7: `grid`"), "{error}");
    }

    #[test]
    fn ranges_end_where_they_should() {
        let of = |range: &str| {
            let file = parse(&format!("model: ut\ngrid: {{ ema.decay: {range} }}")).expect("valid");
            file.compare().iter().map(|entry| entry.with[0].replace("ema.decay=", "")).collect::<Vec<_>>()
        };
        assert_eq!(of("{ from: 0.0, to: 1, steps: 4 }"), ["0", "0.333333", "0.666667", "1"]);
        assert_eq!(of("{ from: 1e-5, to: 1e-3, steps: 3, scale: log }"), ["1e-5", "0.0001", "0.001"]);
        assert_eq!(of("{ from: 1, to: 3, steps: 5 }"), ["1", "1.5", "2", "2.5", "3"]);
        assert_eq!(of("{ from: 0, to: 1, steps: 11 }").len(), 11);
    }

    #[test]
    fn the_setting_decides_whether_a_range_is_whole() {
        let of = |setting: &str, range: &str| {
            let file = parse(&format!("model: ut\ngrid: {{ {setting}: {range} }}"))?;
            let edit =
                |edits: &[String]| edits.first().and_then(|edit| edit.split_once('=')).map(|(_, n)| n.to_owned());
            let entries = file.compare().iter();
            Ok::<_, String>(entries.filter_map(|entry| edit(&entry.with).or(edit(&entry.set))).collect::<Vec<_>>())
        };
        let four = "{ from: 0, to: 1, steps: 5 }";
        let real = ["0", "0.25", "0.5", "0.75", "1"].map(str::to_owned).to_vec();
        for setting in ["optimiser.weight_decay", "ema.decay", "set: { dropout", "set: { attend.dropout"] {
            let close = if setting.contains('{') { "} " } else { "" };
            assert_eq!(of(setting, &format!("{four} {close}")), Ok(real.clone()), "{setting}");
        }
        for setting in ["batch.size", "schedule.warmup", "task.options.train_length", "set: { depthwise.depth"] {
            let close = if setting.contains('{') { "} " } else { "" };
            let range = |steps: usize| of(setting, &format!("{{ from: 8, to: 11, steps: {steps} }} {close}"));
            assert_eq!(range(4), Ok(["8", "9", "10", "11"].map(str::to_owned).to_vec()), "{setting}");
            let error = range(5).expect_err("only four are whole");
            assert!(error.contains("are 4 different: say `steps: 4`"), "{error}");
        }
        let error = of("ema.decay", "{ from: 1, to: 1, steps: 2 }").expect_err("one value");
        assert!(error.contains("all values from 1 to 1 are one: give it as a list, `[1]`"), "{error}");
        for (list, twice) in [
            ("[1, 1.0]", "`1` and `1.0` are"),
            ("[0.5, 16, 16]", "`16` and `16` are"),
            ("[1e1, 10]", "`10.0` and `10` are"),
            ("[[0.9, 1], [0.90, 1.0]]", "are the same value"),
        ] {
            let error = of("ema.decay", list).expect_err(list);
            assert!(error.contains(twice), "{error}");
        }
        assert_eq!(of("ema.decay", "[1, 1.5]").map(|values| values.len()), Ok(2));
        let error = of("batch.size", "{ from: 8.5, to: 11, steps: 4 }").expect_err("no size is a half");
        assert!(error.contains("takes whole numbers"), "{error}");
        let own = |range: &str| of("set: { mine.gain", &format!("{range} }}"));
        assert_eq!(own("{ from: 1, to: 3, steps: 3 }"), Ok(["1", "2", "3"].map(str::to_owned).to_vec()));
        assert_eq!(own("{ from: 1.0, to: 2, steps: 3 }"), Ok(["1", "1.5", "2"].map(str::to_owned).to_vec()));
        let error = own("{ from: 1, to: 2, steps: 3 }").expect_err("it may be whole");
        assert!(error.contains("write `from: 1.0` for any number"), "{error}");
        let drawn = parse("model: ut\ngrid: { optimiser.weight_decay: { from: 0, to: 1 }, random: { count: 8 } }");
        assert_eq!(drawn.map(|file| file.compare().len()), Ok(8));
    }

    #[test]
    fn points_are_drawn_alike_each_time_and_by_their_seed() {
        let of = |seed: u64| {
            let grid = format!(
                "model: ut\ngrid:\n  optimiser.learning_rate: {{ from: 1e-4, to: 1e-2, scale: log }}\n  \
                 schedule.kind: [constant, cosine]\n  random: {{ count: 6, seed: {seed} }}"
            );
            let file = parse(&grid).expect("valid");
            file.compare().iter().map(|entry| entry.with.clone()).collect::<Vec<_>>()
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        assert_eq!(of(1).len(), 6);
        let rate = |edits: &Vec<String>| edits[0].split_once('=').and_then(|(_, rate)| rate.parse::<f64>().ok());
        assert!(of(1).iter().all(|edits| rate(edits).is_some_and(|rate| (1e-4..=1e-2).contains(&rate))));
        let few = parse("model: ut\ngrid: { batch.size: [8, 16], random: { count: 5 } }").expect_err("there are two");
        assert!(few.contains("asks for 5 different points, and 2 were found: say `count: 2`"), "{few}");
    }

    #[test]
    fn mistakes_have_a_line_and_a_cure() {
        let cases = [
            ("model: ut\ngrid: 5", "x.yaml:8: `grid`: takes settings with their values"),
            ("model: ut\ngrid:\n  batch.size: 8", "x.yaml:9: `grid`: `batch.size`: takes a list of values"),
            (
                "model: ut\ngrid:\n  batch.size: { from: 1, too: 2 }",
                "x.yaml:9: `grid`: `batch.size`: a range has no field `too`; did you mean `to`?",
            ),
            (
                "model: ut\ngrid:\n  batch.size: { from: 0, to: 2, steps: 2, scale: log }",
                "both ends of a logarithmic range are positive",
            ),
            ("model: ut\ngrid:\n  batch.size: { from: 1, to: 2 }", "`steps` says how many values"),
            ("model: ut\ngrid:\n  seeds: [1, 2]", "x.yaml:9: `grid`: `seeds` are no setting"),
            ("model: ut\ngrid:\n  batch.size: [8]\n  random: 7", "x.yaml:10: `grid`: `random` takes how many"),
            ("model: ut\ngrid:\n  set: [8]", "`set` takes edits of the spec"),
            ("model: ut\ngrid: { batch.size: [8, 8] }", "`8` and `8` are the same value: remove one"),
            (
                "model: ut\ngrid: { batch.size: { from: 1, to: 1000, steps: 1000 }, log_every: [1, 2] }",
                "2000 points are more than 1000",
            ),
        ];
        for (grid, expected) in cases {
            let error = parse(grid).expect_err(expected);
            assert!(error.contains(expected), "{error} should say {expected}");
        }
    }
}
