//! The forms of equations besides `name = value`: what `rtc explain` and the reference say of them.

/// A word that begins an equation.
pub(crate) struct FormRow {
    /// The word.
    pub(crate) word: &'static str,
    /// What it does.
    pub(crate) doc: &'static str,
    /// A spec with it, without any problem.
    pub(crate) example: &'static str,
}

/// All of them.
pub(crate) const FORMS: &[FormRow] = &[
    FormRow {
        word: "out",
        doc: "`out x` ends a definition: `x` is what it gives.",
        example: "def half(x) {\n    out 0.5 * x\n}\n",
    },
    FormRow {
        word: "show",
        doc: "`show name = x` binds a name like every equation, and hands the value to a gate behind the layer, which has a value of \
              this name.",
        example: "def network(x) {\n    show normed = norm(x)\n    out x + linear(gelu(linear(normed)))\n}\n\ndef gate careful(result, \
                  input, normed) {\n    out lerp(sigmoid(linear(normed)), result, input)\n}\n",
    },
    FormRow {
        word: "share",
        doc: "`share net = mlp { hidden: 8 }` makes one set of weights: `net(x)` is applied as often as wanted.",
        example: "def twice(x) {\n    share net = mlp { hidden: 8 }\n    out x + net(x + net(x))\n}\n",
    },
    FormRow {
        word: "carry",
        doc: "`carry name = start` hands a value on from step to step, in a `loop` and in definitions that stand in steps: a step reads \
              what the last one left, at first the start, and an equation `name = ..` below makes the value of the next step.",
        example: "def gate smooth(result, input) {\n    carry average = zeros(input)\n    average = 0.9 * average + 0.1 * result\n    \
                  out average\n}\n",
    },
    FormRow {
        word: "go",
        doc: "`go condition`, in a `loop` and in definitions that stand in steps: a row or a position for which it is false refuses the \
              step. It keeps what it had, and takes no further step.",
        example: "model moved {\n    embed { width: 8 }\n    loop {\n        steps: 4\n        before = state\n        feedforward { \
                  hidden: 16 }\n        go mean((state - before)^2) { over: width } > 0.01\n    }\n    readout mean\n}\n",
    },
    FormRow {
        word: "until",
        doc: "`until condition`, in a `loop` and in definitions that stand in steps: the step for which it is true is the last one that \
              the row or the position takes.",
        example: "model settled {\n    embed { width: 8 }\n    loop {\n        steps: 4\n        before = state\n        feedforward { \
                  hidden: 16 }\n        until mean(mean((state - before)^2)) { over: width } < 0.01\n    }\n    readout mean\n}\n",
    },
    FormRow {
        word: "loss",
        doc: "`loss 0.1 * average(x)` adds a mean over the answers of the batch to what the model pays; in a loop every step adds its own. A \
              model that pays `answer(..)` pays no other cross entropy.",
        example: "model both {\n    embed { width: 8 }\n    loss 0.5 * average(answer(state))\n    attend self { heads: 2 }\n    loss \
                  average(answer(state))\n    readout mean\n}\n",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{NoFiles, check_all};
    use crate::diag::{Style, render};
    use crate::schema::Catalog;
    use crate::source::Source;

    #[test]
    fn examples_have_no_problem_and_show_their_word() {
        for FormRow { word, example, .. } in FORMS {
            let model = "\nmodel last { embed { width: 8 }, readout mean }\n";
            let text = if example.contains("model") { (*example).to_owned() } else { format!("{example}{model}") };
            let (_, problems, sources) = check_all(&NoFiles, Source::new("example.rt", text), &Catalog::default());
            assert!(problems.is_empty(), "{word}: {}", render(&problems, &sources, Style::Plain));
            assert!(example.contains(&format!("    {word} ")), "{word}");
        }
    }
}
