//! Suggestions: of the names that would have been valid the one of the same meaning, else the nearest in spelling.

/// Names of this language, each with its names in other libraries and papers.
#[rustfmt::skip]
const MEANINGS: &[(&str, &[&str])] = &[
    // Masks.
    ("past", &["causal", "autoregressive", "lower", "tril", "decoder", "left"]),
    ("all", &["full", "bidirectional", "none", "encoder", "noncausal", "both"]),
    ("window", &["local", "sliding", "sliding_window", "swa", "band", "banded"]),
    ("sliding_dilated", &["dilated", "strided"]),
    ("kerple_log", &["kerple"]),
    // Statements.
    ("attend", &["attention", "attn", "self_attention", "mha", "multihead", "cross_attention", "sdpa"]),
    ("attention", &["attend", "attn", "self_attention", "mha", "multihead", "cross_attention", "sdpa"]),
    ("dot_product_attention", &["scaled_dot_product_attention", "sdpa", "softmax_attention", "flash_attention"]),
    ("feedforward", &["feed_forward", "ffn", "ff", "mlp", "dense"]),
    ("norm", &["layernorm", "layer_norm", "ln", "prenorm", "pre_norm", "norm_first", "post_norm", "postnorm"]),
    ("embed", &["embedding", "embeddings", "tokens", "wte"]),
    ("head", &["output", "lm_head", "decoder", "predict"]),
    ("readout", &["pooling", "pooler", "aggregate"]),
    ("pool", &["pooling", "pooler", "reduce"]),
    ("recur", &["loop", "repeat", "recurrence", "recurrent", "iterate", "universal"]),
    ("recurse", &["recursion", "recursive", "fold", "tree"]),
    ("stack", &["layers", "blocks", "encoder", "transformer"]),
    ("scan", &["ssm", "s4", "state_space", "convolution", "conv"]),
    ("halt", &["halting", "act", "ponder", "exit", "early_exit", "stop"]),
    ("gate", &["gating", "highway"]),
    ("inject", &["injection", "skip", "input_injection"]),
    ("update", &["write", "memory_update"]),
    // Variants.
    ("self", &["multihead", "tokens"]),
    ("memory", &["cross", "slots", "latents"]),
    ("depthwise", &["vertical", "layerwise", "depth", "layers", "universal"]),
    ("chunkwise", &["chunk", "chunks", "horizontal", "temporal", "block", "blockwise", "segment"]),
    ("global", &["row", "sequence", "example", "sample"]),
    ("token", &["position", "positionwise", "per_token", "local"]),
    ("balanced", &["tree", "binary"]),
    ("chain", &["sequential", "linear", "rnn", "left"]),
    ("elman", &["rnn", "vanilla", "tanh"]),
    ("each", &["per_token", "all", "every", "sequence", "lm"]),
    ("mean", &["average", "avg", "mean_pool"]),
    ("first", &["cls", "bos", "start"]),
    ("end", &["eos"]),
    ("last", &["final", "end"]),
    ("classifier", &["mlp", "two_layer"]),
    ("linear", &["logits", "dense", "projection", "lm_head"]),
    ("mlp", &["ffn", "sigmoid", "highway"]),
    // Fields of models.
    ("width", &["d_model", "dim", "hidden_size", "model_dim", "n_embd", "embedding_dim", "channels", "d"]),
    ("heads", &["num_heads", "n_heads", "n_head", "nhead", "num_attention_heads"]),
    ("head_width", &["head_dim", "d_head", "d_k", "d_kv", "head_size"]),
    ("hidden", &["d_ff", "dff", "ffn_dim", "dim_feedforward", "intermediate_size", "inner", "ff_mult", "expansion"]),
    ("activation", &["act", "nonlinearity", "hidden_act", "act_fn", "function"]),
    ("depth", &["steps", "loops", "iterations", "max_steps", "n_loops", "n_layers", "num_layers", "layers", "bound"]),
    ("copies", &["n_layers", "num_layers", "layers", "depth"]),
    ("size", &["chunk_size", "length", "segment", "block_size"]),
    ("slots", &["num_slots", "n_slots", "memory_size", "latents"]),
    ("attention_dropout", &["attn_dropout", "attn_pdrop"]),
    ("label_smoothing", &["smoothing", "label_smooth"]),
    ("dropout", &["dropout_rate", "drop", "resid_pdrop", "p", "rate"]),
    ("position", &["pos", "positional", "position_embedding", "positional_encoding", "pe", "rope", "rotary"]),
    ("positions", &["max_len", "max_length", "max_position_embeddings", "n_positions", "context", "n_ctx"]),
    ("init", &["std", "initializer_range", "init_std", "initialisation", "initialization"]),
    ("scale", &["embedding_scale", "scale_embedding", "embed_scale"]),
    ("projection_bias", &["biases", "qkv_bias", "use_bias", "attention_bias", "add_bias"]),
    ("discretisation", &["discretization", "disc"]),
    ("threshold", &["tau", "halt_threshold", "act_threshold", "thresh"]),
    ("cost", &["penalty", "ponder_cost", "act_loss", "tau", "time_penalty", "weight"]),
    ("state", &["d_state", "n_state", "state_size", "state_dim", "n"]),
    ("copies", &["n_layer", "count"]),
    ("bias", &["position_bias", "relative_bias", "rpe", "score_bias"]),
    // Words of fields.
    ("rope", &["rotary", "roformer"]),
    ("relative_xl", &["relative", "transformer_xl", "xl"]),
    ("sinusoidal", &["sin", "sine", "sinusoid", "sincos", "fourier", "fixed"]),
    ("learned", &["absolute", "embedding", "trained", "learnable"]),
    ("gelu_tanh", &["gelu_new", "gelu_approx", "gelu_fast"]),
    ("silu", &["swish"]),
    ("pre", &["first", "before", "prenorm"]),
    ("post", &["last", "after", "postnorm"]),
    ("sqrt_width", &["sqrt", "sqrt_d", "true", "sqrt_dim"]),
    ("zoh", &["zero_order_hold", "hold", "exact"]),
    ("bilinear", &["tustin"]),
    ("forward", &["causal", "left", "past", "unidirectional"]),
    ("both", &["bidirectional", "all"]),
    ("inputs", &["qkv", "query_key_value", "in"]),
    ("all", &["true", "yes", "qkvo"]),
    ("none", &["false", "no", "off", "null", "nil", "zero"]),
    ("xavier", &["glorot"]),
    ("fan_in", &["kaiming", "lecun", "he", "uniform"]),
    ("start_end", &["bos_eos", "both", "cls"]),
    ("min", &["minimum", "least"]),
    ("max", &["maximum", "most"]),
    ("floor", &["int", "trunc"]),
    ("log", &["ln", "log2"]),
    // Equations.
    ("int", &["integer", "size"]),
    ("number", &["float", "real", "double"]),
    ("bool", &["boolean", "flag"]),
    ("word", &["string", "str", "enum", "choice"]),
    ("fn", &["function", "callable"]),
    ("cat", &["concat", "concatenate"]),
    ("parts", &["split", "chunk"]),
    ("to", &["out", "out_features", "width", "dim", "units"]),
    ("over", &["axis", "dim", "along"]),
    ("stop", &["detach", "stop_gradient"]),
    ("when", &["where", "select", "choose"]),
    ("top", &["topk", "top_k", "argmax"]),
    ("running_sum", &["cumsum", "cumulative_sum", "prefix_sum"]),
    ("running_mean", &["cummean", "cumulative_mean"]),
    ("dot_product_attention", &["scaled_dot_product_attention", "sdpa", "offset_attention"]),
    ("among", &["gather", "masked"]),
    ("lerp", &["mix", "interpolate"]),
    ("sigmoid", &["logistic"]),
];

/// The candidate that `written` is another name of, else the nearest one, if that is near enough to be a slip of the pen.
pub fn closest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    meant(written, &candidates).or_else(|| nearest(written, candidates))
}

/// "did you mean `attention`?" for another name of a candidate, whatever it looks like.
pub fn same_meaning<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    meant(written, &candidates).map_or_else(String::new, |name| format!("did you mean `{name}`?"))
}

/// Returns the function of equations that has another name elsewhere, as `cat` for `concat`.
pub(crate) fn function_named(written: &str) -> Option<&'static str> {
    const FUNCTIONS: [&str; 12] = [
        "cat",
        "parts",
        "when",
        "top",
        "running_sum",
        "running_mean",
        "dot_product_attention",
        "lerp",
        "sigmoid",
        "stop",
        "norm",
        "feedforward",
    ];
    meant(written, &FUNCTIONS)
}

/// The first candidate of the same meaning, whatever it looks like.
fn meant<'a>(written: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let written = written.to_ascii_lowercase();
    let mut names = MEANINGS.iter().filter(|(_, others)| others.contains(&written.as_str())).map(|(name, _)| *name);
    names.find_map(|name| candidates.iter().copied().find(|candidate| *candidate == name))
}

/// The candidate nearest to `written` in spelling.
fn nearest<'a>(written: &str, candidates: Vec<&'a str>) -> Option<&'a str> {
    let small = written.to_lowercase();
    let length = written.chars().count();
    let reach = match length {
        0..=2 => 1,
        3..=5 => 2,
        _ => 3,
    };
    candidates
        .into_iter()
        // Every letter too many is a change: what is so far in length need not be compared.
        .filter(|name| name.chars().count().abs_diff(length) <= reach)
        // `ReLU` is `relu`, however many letters differ in their case.
        .map(|name| (distance(written, name).min(distance(&small, &name.to_lowercase())), name))
        .filter(|&(d, name)| d <= reach && d < name.chars().count())
        .min_by_key(|&(d, _)| d)
        .map(|(_, name)| name)
}

/// "did you mean `heads`?", or nothing when no candidate is near.
pub fn did_you_mean<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    closest(written, candidates).map_or_else(String::new, |name| format!("did you mean `{name}`?"))
}

/// The name that a text of [`did_you_mean`] suggests.
pub fn suggested(text: &str) -> Option<&str> {
    let name = text.strip_prefix("did you mean `")?.strip_suffix("`?")?;
    (!name.contains('`')).then_some(name)
}

/// "`a`, `b` and `c`" with the given last word.
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>, last: &str) -> String {
    let quoted: Vec<String> = names.into_iter().map(|n| format!("`{n}`")).collect();
    match quoted.split_last() {
        None => "none".to_owned(),
        Some((only, [])) => only.clone(),
        Some((end, rest)) => format!("{} {last} {end}", rest.join(", ")),
    }
}

/// Returns the edit distance in which swapping two neighbours counts once (optimal string alignment).
pub fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (n, row) in rows.iter_mut().enumerate() {
        row[0] = n;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_edits() {
        assert_eq!(distance("heads", "heads"), 0);
        assert_eq!(distance("haeds", "heads"), 1);
        assert_eq!(distance("", "abc"), 3);
    }

    #[test]
    fn suggests_what_is_meant_before_what_looks_alike() {
        assert_eq!(closest("causal", ["past", "all"]), Some("past"));
        assert_eq!(closest("mha", ["mega", "attend"]), Some("attend"));
        assert_eq!(closest("d_model", ["width", "tokens"]), Some("width"));
        assert_eq!(closest("Rotary", ["none", "xpos", "rope"]), Some("rope"));
        // Only where that name would be valid; spelling decides in all other cases.
        assert_eq!(closest("causal", ["heads"]), None);
        assert_eq!(closest("mha", ["mega"]), Some("mega"));
    }

    #[test]
    fn no_name_is_another_name_of_itself() {
        for (name, others) in MEANINGS {
            assert!(!others.contains(name), "{name}");
            assert!(others.iter().all(|other| *other == other.to_ascii_lowercase()), "{name}");
        }
    }

    #[test]
    fn suggests_only_near_names() {
        assert_eq!(closest("hedas", ["heads", "hidden"]), Some("heads"));
        assert_eq!(closest("quux", ["heads", "hidden"]), None);
        assert_eq!(closest("ReLU", ["relu", "gelu"]), Some("relu"));
        assert_eq!(suggested(&did_you_mean("hedas", ["heads", "hidden"])), Some("heads"));
        assert_eq!(suggested("did you mean `a` or `b`?"), None);
        assert_eq!(list(["a", "b", "c"], "or"), "`a`, `b` or `c`");
    }
}
