//! Values that come with the rows: the columns in which they stand, and what models take of them.

use std::sync::Arc;

use rtc_compiler::pipeline::asked::ExternalInput;

use super::plan::{BrokenTaskRule, CustomTaskKind};
use crate::GivenColumns;
use crate::TaskSettings;
use crate::files::{Column, FileCell};
use crate::{Example, GivenColumn};
use rtc_base::batch::Given;

/// The columns of an experiment.
pub(super) fn columns(kind: CustomTaskKind, settings: &TaskSettings) -> Result<Vec<GivenColumn>, BrokenTaskRule> {
    let columns: Vec<GivenColumn> = match &settings.given {
        None => return Ok(vec![]),
        Some(_) if kind.reads_windows() => {
            let name = kind.name();
            let message = format!(
                "`{name}` has no rows, so nothing comes with them: values come with the rows of a file of the other tasks"
            );
            return Err(("given", message));
        }
        Some(_) if kind == CustomTaskKind::Sequences => {
            let message =
                "`sequences` takes a text and nothing else: write what a model must know of a row into its input text";
            return Err(("given", message.to_owned()));
        }
        Some(GivenColumns::Same(names)) => {
            let same = |name: &String| GivenColumn { name: name.as_str().into(), column: Column::Name(name.clone()) };
            names.iter().map(same).collect()
        }
        Some(GivenColumns::Named(named)) => {
            let one =
                |(name, column): (&String, &Column)| GivenColumn { name: name.as_str().into(), column: column.clone() };
            named.iter().map(one).collect()
        }
    };
    for (n, GivenColumn { name, .. }) in columns.iter().enumerate() {
        let known = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(known) {
            let message = format!("`{name}` is no name of an equation, under which a model takes a value by `given`");
            return Err(("given", message));
        }
        if columns[..n].iter().any(|other| other.name == *name) {
            return Err(("given", format!("`{name}` stands there twice")));
        }
    }
    Ok(columns)
}

/// The numbers of a cell, and how many each of its lists has where it is a list of lists.
struct CellNumbers {
    all: Vec<f64>,
    lists: Option<Vec<usize>>,
}

impl CellNumbers {
    /// Reads a cell: one number, or several in a list or with blanks between them.
    fn of(cell: &FileCell) -> Result<Self, String> {
        let number = |(n, text): (usize, Option<&str>), single: bool| {
            let place = if single { String::new() } else { format!(", its number {}", n + 1) };
            let text = text.unwrap_or("null");
            // Models compute in single precision, in which larger numbers are infinite.
            let finite = text.parse::<f64>().ok().filter(|number| (*number as f32).is_finite());
            finite.ok_or_else(|| format!("is `{text}`{place}, which is no finite number"))
        };
        let some = |items: &mut dyn Iterator<Item = Option<&str>>| {
            let items: Vec<Option<&str>> = items.collect();
            let single = items.len() == 1;
            items.into_iter().enumerate().map(|item| number(item, single)).collect::<Result<Vec<f64>, String>>()
        };
        let (all, lists) = match cell {
            FileCell::Missing => return Err("is missing".to_owned()),
            FileCell::Text(text) => (some(&mut text.split_whitespace().map(Some))?, None),
            FileCell::List(items) => (some(&mut items.iter().map(Option::as_deref))?, None),
            FileCell::Lists(lists) => {
                (some(&mut lists.iter().flatten().map(Option::as_deref))?, Some(lists.iter().map(Vec::len).collect()))
            }
        };
        if all.is_empty() { Err("is empty".to_owned()) } else { Ok(Self { all, lists }) }
    }
}

/// The value of a row in a cell, if it is one that every model can take that takes it. `cut` says how many tokens were cut off.
pub(super) fn value(
    GivenColumn { name, column }: &GivenColumn,
    cell: &FileCell,
    (example, cut): (&Example, usize),
    asked: &[ExternalInput],
) -> Result<Given, String> {
    let place = if *column == Column::Name(name.to_string()) {
        format!("`{name}`")
    } else {
        format!("`{column}`, which gives `{name}`,")
    };
    let numbers = CellNumbers::of(cell).map_err(|why| {
        let cure = if why.starts_with("is `") { "correct it" } else { "give every row a number, or a list of them" };
        format!("{place} {why}: {cure}")
    })?;
    for asked in asked.iter().filter(|asked| *asked.name == **name) {
        fits(asked, &numbers, (example, cut)).map_err(|why| format!("{place} {why}"))?;
    }
    Ok(Given { name: Arc::clone(name), numbers: numbers.all })
}

/// So many things.
fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

/// Refuses what a model can't take.
fn fits(asked: &ExternalInput, numbers: &CellNumbers, (example, cut): (&Example, usize)) -> Result<(), String> {
    let (tokens, width) = (example.tokens.len(), asked.width());
    if asked.around.is_some() && example.second.is_some() {
        let why = "has a value for every position, and a pair has two texts: a value per row belongs to both";
        return Err(why.to_owned());
    }
    if asked.around.is_some() && cut > 0 {
        let all = tokens + cut;
        return Err(format!(
            "has a value for every position, and the text has {all} tokens, more than `length: {tokens}` leaves of it: set \
             `task.length` to {all}"
        ));
    }
    let last = asked.dims.last().copied().unwrap_or(1);
    if let Some((n, size)) = numbers.lists.iter().flatten().enumerate().find(|(_, size)| **size != last) {
        return Err(format!("has {size} numbers in its list {}, and the model takes {last} in each", n + 1));
    }
    let (values, found) = (asked.values(tokens), numbers.all.len());
    if found != values * width {
        let of = match asked.around {
            None => "for a row".to_owned(),
            Some(0) => format!("for a row of {}, {width} for each", counted(tokens, "token")),
            Some(around) => {
                let besides = counted(around, "position");
                format!("for a row of {} and {besides} besides, {width} for each", counted(tokens, "token"))
            }
        };
        return Err(format!("has {}, and the model takes {} {of}", counted(found, "number"), values * width));
    }
    let Some(things) = asked.things else { return Ok(()) };
    match numbers.all.iter().find(|id| !(id.fract() == 0.0 && (0.0..things as f64).contains(*id))) {
        None => Ok(()),
        Some(id) if id.fract() == 0.0 && *id > 0.0 => Err(format!(
            "is {id}, and the model knows 0 to {}: correct it, or give the `ids` of the spec at least {}",
            things - 1,
            id + 1.0
        )),
        Some(id) => Err(format!("is {id}, and the model takes whole numbers from 0 to {}: correct it", things - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column() -> GivenColumn {
        GivenColumn { name: "start".into(), column: Column::Name("begin".to_owned()) }
    }

    fn asked(around: Option<usize>, dims: &[usize], things: Option<usize>) -> ExternalInput {
        ExternalInput { name: "start".to_owned(), things, around, dims: dims.to_vec() }
    }

    fn text(text: &str) -> FileCell {
        FileCell::Text(text.to_owned())
    }

    fn lists(lists: &[&[&str]]) -> FileCell {
        let items = |items: &&[&str]| items.iter().map(|item| Some((*item).to_owned())).collect();
        FileCell::Lists(lists.iter().map(items).collect())
    }

    fn of(cell: &FileCell, asked: &[ExternalInput]) -> Result<Vec<f64>, String> {
        let example = Example::classified(vec![7, 7], 0);
        value(&column(), cell, (&example, 0), asked).map(|given| given.numbers)
    }

    #[test]
    fn values_are_read_as_models_take_them() {
        let per_row = asked(None, &[], None);
        let list = FileCell::List(vec![Some("1".to_owned()), Some("-2e-1".to_owned())]);
        assert_eq!(of(&text(" 0.5 "), std::slice::from_ref(&per_row)), Ok(vec![0.5]));
        assert_eq!(of(&list, &[asked(None, &[2], None)]), Ok(vec![1.0, -0.2]));
        assert_eq!(of(&list, &[asked(Some(0), &[], None)]), Ok(vec![1.0, -0.2]));
        assert_eq!(of(&text("1 2 3 4 5 6"), &[asked(Some(1), &[2], None)]).map(|all| all.len()), Ok(6));
        assert_eq!(
            of(&lists(&[&["1", "2"], &["3", "4"]]), &[asked(Some(0), &[2], None)]),
            Ok(vec![1.0, 2.0, 3.0, 4.0])
        );
        assert_eq!(of(&text("399"), &[asked(None, &[], Some(400)), asked(None, &[], None)]), Ok(vec![399.0]));
        // What another value is asked to be is nothing to this one, and without a model any numbers are values.
        assert_eq!(of(&text("1 2"), &[ExternalInput { name: "other".to_owned(), ..per_row }]), Ok(vec![1.0, 2.0]));
        assert_eq!(of(&text("1 2"), &[]), Ok(vec![1.0, 2.0]));
    }

    #[test]
    fn what_is_no_value_is_refused_with_the_cure() {
        let (one, ids) = (asked(None, &[], None), asked(None, &[], Some(400)));
        let hole = FileCell::List(vec![Some("1".to_owned()), None]);
        for (cell, asked, why) in [
            (FileCell::Missing, &one, "`begin`, which gives `start`, is missing: give every row a number"),
            (text(" "), &one, "is empty: give every row a number"),
            (text("many"), &one, "is `many`, which is no finite number: correct it"),
            (text("1e39"), &one, "is `1e39`, which is no finite number"),
            (text("NaN"), &one, "is `NaN`, which is no finite number"),
            (hole, &one, "is `null`, its number 2, which is no finite number"),
            (text("1 2"), &one, "has 2 numbers, and the model takes 1 for a row"),
            (
                text("400"),
                &ids,
                "is 400, and the model knows 0 to 399: correct it, or give the `ids` of the spec at least 401",
            ),
            (text("-1"), &ids, "is -1, and the model takes whole numbers from 0 to 399"),
            (text("1.5"), &ids, "is 1.5, and the model takes whole numbers from 0 to 399"),
            (
                text("1"),
                &asked(Some(0), &[3], None),
                "has 1 number, and the model takes 6 for a row of 2 tokens, 3 for each",
            ),
            (
                text("1"),
                &asked(Some(2), &[], None),
                "takes 4 for a row of 2 tokens and 2 positions besides, 1 for each",
            ),
            (
                lists(&[&["1", "2", "3"], &["4", "5", "6"]]),
                &asked(Some(1), &[2], None),
                "has 3 numbers in its list 1, and the model takes 2 in each",
            ),
        ] {
            let error = of(&cell, std::slice::from_ref(asked)).expect_err(why);
            assert!(error.contains(why), "{error} should say {why}");
        }
        let each = [asked(Some(0), &[], None)];
        let cut = Example::classified(vec![7, 7], 0);
        let error = value(&column(), &text("1 2"), (&cut, 1), &each).expect_err("a token is left out");
        assert!(
            error.contains("the text has 3 tokens, more than `length: 2` leaves of it: set `task.length` to 3"),
            "{error}"
        );
        let pair = Example { second: Some(vec![7]), ..cut };
        let error = value(&column(), &text("1 2"), (&pair, 0), &each).expect_err("which row?");
        assert!(error.contains("a pair has two texts"), "{error}");
    }
}
