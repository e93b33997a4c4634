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

const KEYS: [&str; 16] = [
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
    let own = [
        "tags", "tag", "labels", "label", "ner", "pos", "iob", "bio", "upos", "xpos", "chunks", "entities", "target",
        "targets",
    ];
    own.contains(&name.as_str())
        || ["_tags", "_tag", "_labels", "_label", "tags", "_ids"].iter().any(|end| name.ends_with(end))
            && !is_tokens(&name)
}

/// Names that only labels have, the surest first.
const LABELS: [&str; 12] = [
    "label",
    "labels",
    "gold_label",
    "target",
    "targets",
    "class",
    "classes",
    "y",
    "ground_truth",
    "outcome",
    "gold",
    "class_label",
];

/// Names that labels of known data sets have.
const OFTEN: [&str; 62] = [
    "sentiment",
    "species",
    "diagnosis",
    "survived",
    "intent",
    "intents",
    "emotion",
    "emotions",
    "topic",
    "topics",
    "category",
    "categories",
    "relation",
    "polarity",
    "stance",
    "verdict",
    "quality",
    "entailment",
    "entailment_judgment",
    "relatedness_score",
    "similarity",
    "similarity_score",
    "score",
    "rating",
    "ratings",
    "stars",
    "price",
    "medv",
    "med_house_val",
    "median_house_value",
    "sale_price",
    "charges",
    "progression",
    "toxic",
    "spam",
    "churn",
    "exited",
    "is_duplicate",
    "fraud",
    "is_fraud",
    "income",
    "variety",
    "cultivar",
    "type",
    "genre",
    "genres",
    "tag",
    "tags",
    "grade",
    "result",
    "response",
    "decision",
    "acceptability",
    "is_spam",
    "hate",
    "severity",
    "status",
    "fold_change",
    "yield",
    "mpg",
    "num",
    "rings",
];

/// How sure a name is that of a label: 2 for one that only labels have, 1 for one that they often have.
pub(super) fn label(name: &str) -> usize {
    let name = plain(name);
    let name = name.strip_suffix("_id").unwrap_or(&name);
    if LABELS.contains(&name) || name.ends_with("_label") || name.ends_with("_class") || name.starts_with("label_") {
        return 2;
    }
    usize::from(OFTEN.contains(&name) || name.starts_with("is_") || name.starts_with("has_"))
}

/// How early a name stands among those that only labels have.
pub(super) fn label_rank(name: &str) -> usize {
    let name = plain(name);
    LABELS.iter().position(|label| *label == name).unwrap_or(LABELS.len())
}

/// Whether whole numbers of a column of this name are classes, however many.
pub(super) fn is_class(name: &str) -> bool {
    let name = plain(name);
    [
        "label",
        "labels",
        "gold_label",
        "class",
        "classes",
        "intent",
        "category",
        "topic",
        "emotion",
        "coarse_label",
        "fine_label",
    ]
    .contains(&name.as_str())
        || name.ends_with("_label")
        || name.ends_with("_class")
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

/// Whether two names are those of a pair, in this order.
pub(super) fn is_pair(first: &str, second: &str) -> bool {
    let (a, b) = (plain(first), plain(second));
    PAIRS.iter().any(|[first, second]| a == *first && b == *second) || is_numbered(first, second)
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
