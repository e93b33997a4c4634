//! What the program explains by itself: fields and values of the language, and the pages of the documentation.

use std::fs;
use std::path::Path;

use crate::support::Place;

/// Fields and words that fields take are explained, too.
#[test]
fn fields_and_values_are_explained() {
    let place = Place::new();
    for (word, part) in [
        ("xpos", "`position` of `attend self`: "),
        ("rope", "`position` of `attend self`: "),
        ("heads", "`heads` of `attend self`: "),
        ("threshold", "`threshold` of `halt global`: "),
    ] {
        let said = place.rtc(&["explain", word]);
        assert!(said.code(0).stdout.contains(part), "{}", said.stdout);
    }
    place.rtc(&["explain", "xpas"]).code(2).says("there is no code or statement `xpas`");
}

/// Every page of the book is part of the program, as it is in the repository.
#[test]
fn pages_of_the_documentation_are_printed() {
    let place = Place::new();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).expect("the book has a summary");
    let pages = summary.split("](").skip(1).filter_map(|rest| rest.split(".md)").next());
    let pages: Vec<&str> = pages.filter(|page| !page.contains('/')).collect();
    let listed = place.rtc(&["docs"]);
    let names: Vec<&str> = listed.code(0).stdout.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, pages);
    for page in pages {
        let text = fs::read_to_string(docs.join(format!("{page}.md"))).expect("a page");
        assert_eq!(place.rtc(&["docs", page]).code(0).stdout.trim_end(), text.trim_end(), "{page}");
    }
    assert_eq!(place.rtc(&["docs", "docs/export.md"]).code(0).stdout, place.rtc(&["docs", "export"]).stdout);
    place.rtc(&["docs", "exprot"]).code(2).says("did you mean `export`?");
    let found = place.rtc(&["docs", "--find", "Weight Decay"]);
    assert!(found.code(0).stdout.lines().any(|line| line.starts_with("experiments:")), "{}", found.stdout);
    place.rtc(&["docs", "export", "--find", "no such text"]).code(1);
}
