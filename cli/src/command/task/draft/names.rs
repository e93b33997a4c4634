//! Names of columns, as data sets have them.

/// The name in small letters with `_` between its words: `PassengerId` is `passenger_id`.
pub(super) fn plain(name: &str) -> String {
    let (mut plain, mut small) = (String::new(), false);
    for c in name.trim().chars() {
        if c.is_uppercase() && small {
            plain.push('_');
        }
        small = c.is_lowercase() || c.is_ascii_digit();
        if c.is_alphanumeric() {
            plain.extend(c.to_lowercase());
        } else if !plain.ends_with('_') {
            plain.push('_');
        }
    }
    plain.trim_matches('_').to_owned()
}

const KEYS: [&str; 17] = [
    "",
    "id",
    "ids",
    "idx",
    "index",
    "guid",
    "uuid",
    "uid",
    "key",
    "row",
    "row_number",
    "rownames",
    "unnamed_0",
    "hash",
    "url",
    "level_0",
    "index_level_0",
];

/// Whether a name is that of a key.
pub(super) fn is_key(name: &str) -> bool {
    let name = plain(name);
    if name.strip_suffix("_id").is_some_and(|stem| label(stem) > 0) {
        return false;
    }
    KEYS.contains(&name.as_str())
        || ["_id", "_idx", "_index", "_uuid", "_guid", "_url", "_key"].iter().any(|end| name.ends_with(end))
        || name.starts_with("unnamed_")
}

/// Whether a name is that of an input, also where it counts the rows.
pub(super) fn is_feature(name: &str) -> bool {
    ["x", "t", "time", "step", "n"].contains(&plain(name).as_str())
}

const TEXTS: [&str; 40] = [
    "text",
    "texts",
    "sentence",
    "sentences",
    "content",
    "review",
    "review_text",
    "review_body",
    "body",
    "tweet",
    "message",
    "comment",
    "comment_text",
    "document",
    "article",
    "title",
    "headline",
    "subject",
    "abstract",
    "description",
    "summary",
    "premise",
    "hypothesis",
    "question",
    "query",
    "passage",
    "context",
    "utterance",
    "smiles",
    "sequence",
    "expression",
    "formula",
    "prompt",
    "paragraph",
    "phrase",
    "snippet",
    "post",
    "string",
    "code",
    "dialogue",
];

/// Whether a name is that of a text.
pub(super) fn is_text(name: &str) -> bool {
    let name = plain(name);
    TEXTS.contains(&name.as_str())
        || TEXTS.iter().any(|text| {
            name.strip_prefix(text)
                .is_some_and(|end| SIDES.iter().flatten().any(|side| end.trim_start_matches('_') == *side))
        })
}

/// Names of tokens in tables with a label for each.
pub(super) fn is_tokens(name: &str) -> bool {
    ["tokens", "token", "words", "word", "text", "sentence", "input", "inputs", "input_ids", "form", "forms"]
        .contains(&plain(name).as_str())
}

/// Names of labels of tokens.
pub(super) fn is_tags(name: &str) -> bool {
    let name = plain(name);
    found(&name).is_some_and(|label| label.uses.1)
        || ["_tags", "_tag", "_labels", "_label", "tags", "_ids"].iter().any(|end| name.ends_with(end))
            && !is_tokens(&name)
}

/// A name that labels have.
struct LabelName {
    name: &'static str,
    /// 2 for a name that only labels have, 1 for one of known data sets, 0 for one that is none for a row.
    sure: usize,
    /// Whether whole numbers are classes there, however many; and whether the labels may be those of tokens.
    uses: (bool, bool),
}

const PLAIN: (bool, bool) = (false, false);
const CLASS: (bool, bool) = (true, false);
const TAGS: (bool, bool) = (false, true);
const BOTH: (bool, bool) = (true, true);

const fn known(name: &'static str, sure: usize, uses: (bool, bool)) -> LabelName {
    LabelName { name, sure, uses }
}

/// Names that labels have, the surest first.
#[rustfmt::skip]
const LABELS: &[LabelName] = &[
    known("label", 2, BOTH),
    known("labels", 2, BOTH),
    known("gold_label", 2, PLAIN),
    known("target", 2, TAGS),
    known("targets", 2, TAGS),
    known("class", 2, CLASS),
    known("classes", 2, CLASS),
    known("y", 2, PLAIN),
    known("ground_truth", 2, PLAIN),
    known("outcome", 2, PLAIN),
    known("gold", 2, PLAIN),
    known("class_label", 2, PLAIN),
    known("sentiment", 1, PLAIN),
    known("species", 1, PLAIN),
    known("diagnosis", 1, PLAIN),
    known("survived", 1, PLAIN),
    known("intent", 1, CLASS),
    known("intents", 1, PLAIN),
    known("emotion", 1, CLASS),
    known("emotions", 1, PLAIN),
    known("topic", 1, CLASS),
    known("topics", 1, PLAIN),
    known("category", 1, CLASS),
    known("categories", 1, PLAIN),
    known("relation", 1, PLAIN),
    known("polarity", 1, PLAIN),
    known("stance", 1, PLAIN),
    known("verdict", 1, PLAIN),
    known("quality", 1, PLAIN),
    known("entailment", 1, PLAIN),
    known("entailment_judgment", 1, PLAIN),
    known("relatedness_score", 1, PLAIN),
    known("similarity", 1, PLAIN),
    known("similarity_score", 1, PLAIN),
    known("score", 1, PLAIN),
    known("rating", 1, PLAIN),
    known("ratings", 1, PLAIN),
    known("stars", 1, PLAIN),
    known("price", 1, PLAIN),
    known("medv", 1, PLAIN),
    known("med_house_val", 1, PLAIN),
    known("median_house_value", 1, PLAIN),
    known("sale_price", 1, PLAIN),
    known("charges", 1, PLAIN),
    known("progression", 1, PLAIN),
    known("toxic", 1, PLAIN),
    known("spam", 1, PLAIN),
    known("churn", 1, PLAIN),
    known("exited", 1, PLAIN),
    known("is_duplicate", 1, PLAIN),
    known("fraud", 1, PLAIN),
    known("is_fraud", 1, PLAIN),
    known("income", 1, PLAIN),
    known("variety", 1, PLAIN),
    known("cultivar", 1, PLAIN),
    known("type", 1, PLAIN),
    known("genre", 1, PLAIN),
    known("genres", 1, PLAIN),
    known("tag", 1, TAGS),
    known("tags", 1, TAGS),
    known("grade", 1, PLAIN),
    known("result", 1, PLAIN),
    known("response", 1, PLAIN),
    known("decision", 1, PLAIN),
    known("acceptability", 1, PLAIN),
    known("is_spam", 1, PLAIN),
    known("hate", 1, PLAIN),
    known("severity", 1, PLAIN),
    known("status", 1, PLAIN),
    known("fold_change", 1, PLAIN),
    known("yield", 1, PLAIN),
    known("mpg", 1, PLAIN),
    known("num", 1, PLAIN),
    known("rings", 1, PLAIN),
    known("ner", 0, TAGS),
    known("pos", 0, TAGS),
    known("iob", 0, TAGS),
    known("bio", 0, TAGS),
    known("upos", 0, TAGS),
    known("xpos", 0, TAGS),
    known("chunks", 0, TAGS),
    known("entities", 0, TAGS),
];

fn found(name: &str) -> Option<&'static LabelName> {
    LABELS.iter().find(|label| label.name == name)
}

/// How sure a name is that of a label: 2 for one that only labels have, 1 for one that they often have.
pub(super) fn label(name: &str) -> usize {
    let name = plain(name);
    let name = name.strip_suffix("_id").unwrap_or(&name);
    if name.ends_with("_label") || name.ends_with("_class") || name.starts_with("label_") {
        return 2;
    }
    let flag = name.starts_with("is_") || name.starts_with("has_");
    found(name).map_or(0, |label| label.sure).max(usize::from(flag))
}

/// How early a name stands among those that only labels have.
pub(super) fn label_rank(name: &str) -> usize {
    let name = plain(name);
    LABELS.iter().position(|label| label.sure == 2 && label.name == name).unwrap_or(LABELS.len())
}

/// Whether whole numbers of a column of this name are classes, however many.
pub(super) fn is_class(name: &str) -> bool {
    let name = plain(name);
    found(&name).is_some_and(|label| label.uses.0) || name.ends_with("_label") || name.ends_with("_class")
}

/// Whether whole numbers of a column of this name measure something.
pub(super) fn is_measure(name: &str) -> bool {
    const MEASURES: [&str; 15] = [
        "price",
        "amount",
        "age",
        "cost",
        "salary",
        "value",
        "charges",
        "count",
        "weight",
        "height",
        "mpg",
        "rings",
        "progression",
        "yield",
        "medv",
    ];
    let name = plain(name);
    MEASURES.iter().any(|measure| name == *measure || name.ends_with(&format!("_{measure}")))
}

/// The two ends of names that are otherwise equal.
const SIDES: [[&str; 2]; 7] =
    [["1", "2"], ["a", "b"], ["x", "y"], ["left", "right"], ["one", "two"], ["first", "second"], ["0", "1"]];

const PAIRS: [[&str; 2]; 19] = [
    ["premise", "hypothesis"],
    ["question", "sentence"],
    ["question", "passage"],
    ["question", "context"],
    ["question", "answer"],
    ["query", "document"],
    ["query", "passage"],
    ["query", "text"],
    ["query", "title"],
    ["query", "product_title"],
    ["claim", "evidence"],
    ["context", "hypothesis"],
    ["text", "hypothesis"],
    ["context", "response"],
    ["sentence", "paraphrase"],
    ["source", "target"],
    ["src", "tgt"],
    ["left", "right"],
    ["first", "second"],
];

/// Names of a text and of the text that is written for it.
const SEQUENCES: [[&str; 2]; 9] = [
    ["source", "target"],
    ["source_text", "target_text"],
    ["src", "tgt"],
    ["input", "target"],
    ["input_text", "target_text"],
    ["prompt", "completion"],
    ["prompt", "response"],
    ["question", "answer"],
    ["article", "summary"],
];

/// Whether two names are those of a text and of the text that is written for it.
pub(super) fn is_sequence(first: &str, second: &str) -> bool {
    let (a, b) = (plain(first), plain(second));
    SEQUENCES.iter().any(|[first, second]| a == *first && b == *second)
}

/// Whether two names are those of a pair, in this order.
pub(super) fn is_pair(first: &str, second: &str) -> bool {
    let (a, b) = (plain(first), plain(second));
    PAIRS.iter().any(|[first, second]| a == *first && b == *second) || is_numbered(first, second)
}

/// Whether a name is that of an answer to choose from, as `choice1`.
pub(super) fn is_choice(name: &str) -> bool {
    let name = plain(name);
    ["choice", "option", "answer", "ending", "candidate", "sol", "solution"].iter().any(|stem| name.starts_with(stem))
}

/// Whether two names differ in their ends alone, as `sentence1` and `sentence2`.
pub(super) fn is_numbered(first: &str, second: &str) -> bool {
    let (first, second) = (plain(first), plain(second));
    let ends = |[a, b]: &[&str; 2]| {
        let stem = |name: &str, end: &str| name.strip_suffix(end).map(|stem| stem.trim_end_matches('_').to_owned());
        stem(&first, a).is_some_and(|stem_a| stem(&second, b) == Some(stem_a))
    };
    SIDES.iter().any(ends)
}

/// Whether a text of the first name is a heading of one of the second.
pub(super) fn is_heading(first: &str, second: &str) -> bool {
    let (first, second) = (plain(first), plain(second));
    let heading =
        ["title", "headline", "subject", "heading", "summary", "keyword", "question_title", "review_title", "name"];
    let body = [
        "text",
        "body",
        "content",
        "description",
        "abstract",
        "review",
        "review_text",
        "review_body",
        "article",
        "short_description",
        "message",
        "question_body",
        "question_content",
        "selftext",
        "post",
    ];
    heading.contains(&first.as_str()) && body.contains(&second.as_str())
}
