//! What is to be seen of a column: of some rows first, which all threads do, and then of all of them in their order.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::RandomState;

use crate::files::FileCell;

/// What is to be seen of a column.
#[derive(Clone, Debug, Default)]
pub struct ColumnLook {
    /// Its name.
    pub name: String,
    /// Its first value.
    pub first: String,
    /// Its different values with the number of their rows. Beyond [`Self::MOST`] values no further ones are counted.
    pub values: BTreeMap<String, usize>,
    /// Whether a value came twice.
    pub repeats: bool,
    /// Words of all its values.
    pub words: usize,
    /// Its different words, or items of its lists, as far as they were counted.
    pub items: BTreeSet<String>,
    /// Rows without a value.
    pub missing: usize,
    /// Rows with a list.
    pub lists: usize,
    /// Rows with an object, or with lists in lists, which no task takes.
    pub nested: usize,
    /// Rows whose value is a finite number, or whose items all are; and of these the rows with whole numbers alone.
    pub numbers: usize,
    /// See `numbers`.
    pub whole: usize,
    /// Rows whose value is a number with a decimal comma, as `1,5`.
    pub commas: usize,
    /// Of these, rows whose comma may separate thousands, as in `1,500`.
    pub thousands: usize,
    /// Rows whose value is a number as people write it: with separators of thousands, a comma, a currency or a percent sign.
    pub written: usize,
    /// Whether all of its values are numbers, of which none has a point and some a decimal comma: they count as numbers.
    pub has_commas: bool,
    /// The first rows without a number, with their values.
    pub odd: Vec<(usize, String)>,
    /// The smallest and the largest of these numbers.
    pub range: Option<[f64; 2]>,
    /// Whether every value is a whole number, one above that of the row before.
    pub counting: bool,
    /// Rows whose value has no blank, and has a digit, a slash or an `@`.
    pub codes: usize,
    /// Rows whose value is a date or a time.
    pub dates: usize,
    /// The most characters of a value.
    pub longest: usize,
    /// Whether the file has names for its values, which are numbers of classes.
    pub class_names: bool,
    last: Option<f64>,
}

impl ColumnLook {
    /// More different values are not counted.
    pub const MOST: usize = 1_000;

    /// Rows with a value.
    pub fn filled(&self, rows: usize) -> usize {
        rows.saturating_sub(self.missing)
    }

    /// More rows without a number are not kept.
    pub const ODD: usize = 5;

    /// A column of which nothing was seen in some rows.
    pub(super) fn new(name: &str, missing: usize) -> Self {
        Self { name: name.to_owned(), missing, ..Self::default() }
    }

    /// Adds what was seen of the rows that follow.
    pub(super) fn add(&mut self, part: ColumnPart) {
        let ColumnPart { look, numbers, values, again, items, .. } = part;
        if self.first.is_empty() {
            self.first = look.first;
        }
        self.words += look.words;
        self.missing += look.missing;
        self.lists += look.lists;
        self.nested += look.nested;
        self.whole += look.whole;
        self.commas += look.commas;
        self.thousands += look.thousands;
        self.written += look.written;
        self.codes += look.codes;
        self.dates += look.dates;
        self.longest = self.longest.max(look.longest);
        let room = Self::ODD.saturating_sub(self.odd.len());
        self.odd.extend(look.odd.into_iter().take(room));
        if let Some([low, high]) = look.range {
            self.widen(low, high);
        }
        numbers.into_iter().for_each(|number| self.count_number(number));
        self.repeats |= look.repeats;
        for (value, (_, rows)) in in_order(values, |(order, _)| *order) {
            if let Some(known) = self.values.get_mut(&value) {
                self.repeats = true;
                *known += rows;
            } else if self.values.len() <= Self::MOST {
                self.repeats |= rows > 1;
                self.values.insert(value, rows);
            }
        }
        for (value, rows) in again {
            *self.values.entry(value).or_default() += rows;
        }
        for (item, _) in in_order(items, |order| *order) {
            if self.items.len() <= Self::MOST {
                self.items.insert(item);
            }
        }
    }

    fn widen(&mut self, low: f64, high: f64) {
        let [least, most] = self.range.unwrap_or([low, high]);
        self.range = Some([least.min(low), most.max(high)]);
    }

    /// Counts a row with a value.
    fn count_number(&mut self, NumberSeen { is_number, next }: NumberSeen) {
        let begins = self.last.is_none() && self.numbers == 0;
        self.counting = next.is_some_and(|next| {
            next.fract() == 0.0
                && if begins { next.abs() <= 1.0 } else { self.counting && self.last == Some(next - 1.0) }
        });
        self.last = next;
        self.numbers += usize::from(is_number);
    }

    /// Takes numbers with a decimal comma as numbers, where all are, and the comma has no other meaning: not in a file in which it stands
    /// between cells too, and not in numbers that may all be thousands. `sure` says that it is decimal in any file.
    pub(super) fn see_commas(&mut self, rows: usize, (semicolons, sure): (bool, bool)) {
        let is_comma = self.commas > 0 && self.whole == self.numbers && self.commas + self.numbers == self.filled(rows);
        if is_comma && (sure || semicolons && self.thousands < self.commas) {
            (self.has_commas, self.numbers) = (true, self.numbers + self.commas);
            self.odd.clear();
        }
    }
}

/// The entries of a map in the order of their numbers.
fn in_order<T>(map: HashMap<String, T, RandomState>, order: impl Fn(&T) -> usize) -> Vec<(String, T)> {
    let mut all: Vec<(String, T)> = map.into_iter().collect();
    all.sort_unstable_by_key(|(_, value)| order(value));
    all
}

/// A row with a value, as far as the rows before it matter.
#[derive(Clone, Copy, Debug)]
struct NumberSeen {
    /// Whether the value is a number, or a list of numbers.
    is_number: bool,
    /// The number, if it is one alone.
    next: Option<f64>,
}

/// What is to be seen of a column in rows that follow one another.
#[derive(Clone, Debug, Default)]
pub(super) struct ColumnPart {
    /// Counts; without what the rows before them matter for.
    pub(super) look: ColumnLook,
    /// The line of the first row with the column.
    pub(super) line: usize,
    numbers: Vec<NumberSeen>,
    /// Values that were not known, with their order and the number of their rows.
    values: HashMap<String, (usize, usize), RandomState>,
    /// Values that were known, with the number of their rows.
    again: BTreeMap<String, usize>,
    /// Words and items that were not known, with their order.
    items: HashMap<String, usize, RandomState>,
}

impl ColumnPart {
    /// A part in which nothing was seen of the column in some rows.
    pub(super) fn new(name: &str, line: usize, missing: usize) -> Self {
        Self { look: ColumnLook::new(name, missing), line, ..Self::default() }
    }

    /// Sees a cell; `known` is what was seen of the column in the rows before. Returns how many words or items the cell has, where they
    /// can be counted.
    pub(super) fn see(&mut self, cell: &FileCell, line: usize, known: &ColumnLook) -> Option<usize> {
        let shown = |item: &'_ Option<String>| item.as_deref().unwrap_or("null").to_owned();
        match cell {
            FileCell::Missing => {
                self.look.missing += 1;
                None
            }
            FileCell::Text(text) if text.trim().is_empty() => {
                self.look.missing += 1;
                Some(0)
            }
            FileCell::Text(text) => Some(self.see_text(text, line, known)),
            FileCell::List(items) => {
                self.look.lists += 1;
                self.see_list(&items.iter().map(shown).collect::<Vec<_>>(), line, known);
                Some(items.len())
            }
            FileCell::Lists(lists) => {
                self.look.lists += 1;
                self.look.nested += 1;
                self.see_list(&lists.iter().flatten().map(shown).collect::<Vec<_>>(), line, known);
                None
            }
        }
    }

    /// Sees a text that is not blank, and returns the number of its words.
    fn see_text(&mut self, text: &str, line: usize, known: &ColumnLook) -> usize {
        let (plain, number) = (text.trim(), number(text));
        self.see_numbers(number.as_slice(), number.is_some(), number);
        self.look.commas += usize::from(has_decimal_comma(plain));
        if number.is_none() {
            self.look.thousands += usize::from(has_decimal_comma(plain) && is_grouped(plain, &[',']));
            self.look.written += usize::from(is_written_number(plain));
        }
        let mut words = 0;
        if known.items.len() <= ColumnLook::MOST {
            for word in text.split_whitespace() {
                words += 1;
                self.see_item(word, known);
            }
        } else {
            words = count_words(text);
        }
        self.look.words += words;
        self.look.codes += usize::from(words == 1 && plain.contains(is_of_a_code));
        self.see_value(Cow::Borrowed(text), number.is_some(), line, known);
        words
    }

    /// Sees the items of a list.
    fn see_list(&mut self, texts: &[String], line: usize, known: &ColumnLook) {
        let numbers: Option<Vec<f64>> = texts.iter().map(|text| number(text)).collect();
        self.see_numbers(
            numbers.as_deref().unwrap_or_default(),
            numbers.as_ref().is_some_and(|all| !all.is_empty()),
            None,
        );
        self.look.words += texts.len();
        if known.items.len() <= ColumnLook::MOST {
            texts.iter().for_each(|item| self.see_item(item, known));
        }
        let text = texts.join(" ");
        let is_code = !text.trim().contains(char::is_whitespace) && text.trim().contains(is_of_a_code);
        self.look.codes += usize::from(is_code);
        self.see_value(Cow::Owned(text), numbers.is_some(), line, known);
    }

    fn see_numbers(&mut self, numbers: &[f64], is_number: bool, next: Option<f64>) {
        self.numbers.push(NumberSeen { is_number, next });
        if is_number {
            self.look.whole += usize::from(numbers.iter().all(|number| number.fract() == 0.0));
            numbers.iter().for_each(|number| self.look.widen(*number, *number));
        }
    }

    fn see_item(&mut self, item: &str, known: &ColumnLook) {
        if self.items.len() <= ColumnLook::MOST && !self.items.contains_key(item) && !known.items.contains(item) {
            self.items.insert(item.to_owned(), self.items.len());
        }
    }

    /// Sees the text of a cell.
    fn see_value(&mut self, text: Cow<'_, str>, has_number: bool, line: usize, known: &ColumnLook) {
        let (look, plain) = (&mut self.look, text.trim());
        if !has_number && look.odd.len() < ColumnLook::ODD {
            look.odd.push((line, plain.chars().take(40).collect()));
        }
        look.dates += usize::from(is_date(plain));
        look.longest = look.longest.max(text.chars().count());
        if look.first.is_empty() {
            look.first = text.clone().into_owned();
        }
        let is_full = known.values.len() > ColumnLook::MOST;
        if is_full && (known.repeats || look.repeats) {
            return;
        }
        if known.values.contains_key(&*text) {
            look.repeats = true;
            match self.again.get_mut(&*text) {
                Some(rows) => *rows += 1,
                None => drop(self.again.insert(text.into_owned(), 1)),
            }
            return;
        }
        match self.values.get_mut(&*text) {
            _ if is_full => {}
            Some((_, rows)) => *rows += 1,
            None => drop(self.values.insert(text.into_owned(), (self.values.len(), 1))),
        }
    }
}

pub(super) fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|number| number.is_finite())
}

fn has_decimal_comma(text: &str) -> bool {
    text.split_once(',').is_some_and(|(whole, part)| {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits(whole.trim_start_matches(['-', '+'])) && digits(part)
    })
}

/// Currencies and other signs that stand beside a number.
const SIGNS: [&str; 11] = ["$", "\u{20ac}", "\u{a3}", "\u{a5}", "\u{20b9}", "%", "USD", "EUR", "GBP", "CHF", "JPY"];
/// Characters between groups of three digits.
const BETWEEN: [char; 5] = [',', '.', '\'', '\u{a0}', '\u{202f}'];

/// Whether a text that is no plain number is one as people write it, as `$1,500`, `12 %`, `1.100,50` or `0,5`.
fn is_written_number(text: &str) -> bool {
    let unsigned = text.trim_start_matches(['-', '+']);
    let mut core = unsigned.trim();
    for sign in SIGNS {
        core = core.strip_prefix(sign).or_else(|| core.strip_suffix(sign)).unwrap_or(core).trim();
    }
    let core = core.trim_start_matches(['-', '+']);
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let fraction = |core: &str| core.split_once([',', '.']).is_some_and(|(whole, part)| digits(whole) && digits(part));
    digits(core) && core.len() < unsigned.len() || fraction(core) || is_grouped(core, &BETWEEN)
}

/// Whether digits stand in groups of three with one of these characters between, and maybe a fraction after another one.
fn is_grouped(text: &str, between: &[char]) -> bool {
    let text = text.trim_start_matches(['-', '+']);
    let Some(mark) = text.chars().find(|c| between.contains(c)) else { return false };
    let other = if mark == ',' { '.' } else { ',' };
    let (whole, fraction) = text.split_once(other).map_or((text, None), |(whole, part)| (whole, Some(part)));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut groups = whole.split(mark);
    let first = groups.next().unwrap_or_default();
    digits(first)
        && first.len() <= 3
        && groups.all(|group| digits(group) && group.len() == 3)
        && fraction.is_none_or(digits)
}

fn is_of_a_code(c: char) -> bool {
    c.is_ascii_digit() || c == '/' || c == '@'
}

/// The number of words between blanks, as `split_whitespace` has them.
fn count_words(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut count, mut behind_blank) = (0, 0, true);
    while let Some(byte) = bytes.get(at) {
        let (is_blank, width) = match byte {
            b' ' | b'\t'..=b'\r' => (true, 1),
            // The first bytes of all blanks beyond ASCII.
            0xC2 | 0xE1..=0xE3 => {
                let c = text[at..].chars().next().expect("a character begins here");
                (c.is_whitespace(), c.len_utf8())
            }
            _ => (false, 1),
        };
        count += usize::from(behind_blank && !is_blank);
        (at, behind_blank) = (at + width, is_blank);
    }
    count
}

/// Whether a text is a date or a time as `2024-01-31`, `31/01/2024` or `2024-01-31 10:00:00`.
fn is_date(text: &str) -> bool {
    let day = text.split(['T', ' ']).next().unwrap_or_default();
    let parts: Vec<&str> = day.split(['-', '/', '.']).collect();
    let digits = |part: &&str| (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.len() == 3
        && parts.iter().all(digits)
        && parts.iter().filter(|part| part.len() == 4).count() <= 1
        && day.len() >= 6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_write_them() {
        for text in ["$42,185.76", "0%", "12 %", "1.100,50", "1,304,806", "-1'000", "USD 5", "0,5", "358,593", "$1"] {
            assert!(is_written_number(text), "{text}");
        }
        for text in ["a1", "1,2,3", "2024-01-31", "1.2.3", "", "$", "x,5", "5 apples", "1,,5"] {
            assert!(!is_written_number(text), "{text}");
        }
        assert!(is_grouped("358,593", &[',']) && is_grouped("1,358,593.5", &[',']));
        assert!(!is_grouped("16,27", &[',']) && !is_grouped("1358,593", &[',']) && !is_grouped("12", &[',']));
    }

    #[test]
    fn words_are_counted_as_they_are_split() {
        let blanks = (0..=u32::from(char::MAX)).filter_map(char::from_u32).filter(|c| c.is_whitespace());
        let blanks: Vec<char> = blanks.collect();
        assert!(blanks.len() > 20);
        let others = ['a', '\0', '\x1c', '\u{85}', 'é', '“', '…', 'ก', '日', '😀', '\u{200b}', '\u{180e}'];
        let all: Vec<char> = blanks.iter().copied().chain(others).collect();
        for n in 0..2_000 {
            let mut draws = rtc_base::rng::Key::new(n).draws();
            let text: String = (0..draws.below(12)).map(|_| all[draws.below(all.len() as u64) as usize]).collect();
            assert_eq!(count_words(&text), text.split_whitespace().count(), "{text:?}");
        }
    }
}
