//! Fields under the name that another program has for them, or in a wrong block: the message says their place here.

use rtc_compiler::feature::slots;

use super::schema;

/// Fields as other programs name them, by their paths.
const SYNONYMS: [(&str, &str); 34] = [
    ("lr", "optimiser.learning_rate"),
    ("learning-rate", "optimiser.learning_rate"),
    ("wd", "optimiser.weight_decay"),
    ("eps", "optimiser.epsilon"),
    ("beta1", "optimiser.betas"),
    ("beta2", "optimiser.betas"),
    ("adam_beta1", "optimiser.betas"),
    ("adam_beta2", "optimiser.betas"),
    ("grad_clip", "optimiser.clip"),
    ("gradient_clip", "optimiser.clip"),
    ("max_grad_norm", "optimiser.clip"),
    ("param_groups", "optimiser.groups"),
    ("parameter_groups", "optimiser.groups"),
    ("steps", "max_steps"),
    ("num_steps", "max_steps"),
    ("max_iters", "max_steps"),
    ("iterations", "max_steps"),
    ("updates", "max_steps"),
    ("num_epochs", "epochs"),
    ("num_train_epochs", "epochs"),
    ("max_epochs", "epochs"),
    ("batch_size", "batch.size"),
    ("gradient_accumulation_steps", "batch.accumulate"),
    ("class_weight", "loss.class_weights"),
    ("scheduler", "schedule"),
    ("lr_scheduler", "schedule"),
    ("warmup_steps", "schedule.warmup"),
    ("dataset", "task"),
    ("max_length", "task.length"),
    ("max_len", "task.length"),
    ("tokenizer", "task.tokens"),
    ("vocab_size", "task.vocabulary"),
    ("save_every", "checkpoints.every"),
    ("save_steps", "checkpoints.every"),
];

/// Settings of the command line that other programs have in their files.
const OPTIONS: [(&[&str], &str); 5] = [
    (&["device", "devices", "gpu", "gpus", "cuda", "accelerator", "use_cuda"], "--device cuda"),
    (&["precision", "dtype", "fp16", "bf16", "amp", "mixed_precision"], "--precision bf16"),
    (&["threads", "workers", "num_workers", "n_jobs"], "--threads N"),
    (&["memory", "gradient_checkpointing"], "--memory SIZE"),
    (&["run", "run_name", "output_dir", "save_dir", "log_dir"], "--run NAME"),
];

/// The most places of a name that are listed.
const MOST: usize = 3;

/// The field of a block with the fields `known` that other programs name so.
pub(super) fn own_field(name: &str, known: &[&str]) -> Option<&'static str> {
    let (_, path) = SYNONYMS.iter().find(|(other, _)| *other == name)?;
    path.rsplit('.').next().filter(|field| known.contains(field))
}

/// Says the place of a field that a block with the fields `known` does not have; nothing if the name is not known anywhere.
pub(super) fn cure(name: &str, known: &[&str]) -> Option<String> {
    if let Some((path, field)) = name.rsplit_once('.') {
        let is_field = schema::paths(field).iter().any(|path| path == name);
        return is_field.then(|| {
            format!(
                "a path with dots is for `--with`: in the file `{field}` stands in the block `{path}`, as `{}`",
                nested(name)
            )
        });
    }
    let of_command = OPTIONS.iter().find(|(names, _)| names.contains(&name));
    if let Some((_, option)) = of_command {
        return Some(format!("the command line says it, as `{option}`"));
    }
    let paths = match SYNONYMS.iter().find(|(other, _)| *other == name) {
        Some((_, path)) => vec![(*path).to_owned()],
        None => schema::paths(name),
    };
    match &paths[..] {
        [] => is_of_model(name).then(|| of_model(name)),
        [path] => match path.rsplit('.').next() {
            Some(field) if known.contains(&field) => Some(format!("it is `{field}` here")),
            _ => Some(place(path)),
        },
        several => {
            let several = several.iter().take(MOST).map(|path| format!("`{path}`")).collect::<Vec<_>>();
            Some(format!("it is {}", several.join(" or ")))
        }
    }
}

/// A path as blocks in braces: `a.b` is `a: { b: .. }`.
fn nested(path: &str) -> String {
    match path.split_once('.') {
        Some((outer, inner)) => format!("{outer}: {{ {} }}", nested(inner)),
        None => format!("{path}: .."),
    }
}

/// Says the place of a field of another block.
fn place(path: &str) -> String {
    match path.rsplit_once('.') {
        Some((outer, field)) => format!("it is `{path}`: the block `{outer}` has the field `{field}`"),
        None => format!("it is `{path}` at the top of the experiment, in no block"),
    }
}

/// Whether a statement or a field of the language has this name.
fn is_of_model(name: &str) -> bool {
    slots().iter().any(|slot| {
        let is_field = || slot.features.iter().flat_map(|feature| &feature.fields).any(|field| &*field.name == name);
        &*slot.name == name || is_field()
    })
}

/// Says the place of a setting of the model.
fn of_model(name: &str) -> String {
    let path = match name {
        "dropout" | "label_smoothing" => format!("{name}=0.1"),
        "width" => "embed.width=64".to_owned(),
        "heads" => "self.heads=4".to_owned(),
        _ => {
            return format!(
                "`{name}` is of the model, whose settings `set` edits, as `set: [dropout=0.1]`: `rtc show MODEL` has their paths"
            );
        }
    };
    format!("`{name}` is of the model, whose settings `set` edits: `set: [{path}]`")
}

/// The message of an edit by `--with`: names `--set` where the first key of its path is no field of experiments.
pub(super) fn of_edit(edit: &str, message: &str) -> String {
    let key = edit.split(['.', '=']).next().unwrap_or_default();
    let unknown = format!("unknown field `{key}`");
    let is_known =
        message.contains("did you mean") || message.contains("; it is ") || message.contains("the command line says");
    if !message.starts_with(&unknown) || is_known {
        return format!("the edit `{edit}`: {message}");
    }
    if is_of_model(key) {
        return format!(
            "the edit `{edit}`: {unknown} of an experiment; settings of the model are edited by `--set {edit}`"
        );
    }
    format!("the edit `{edit}`: if this is a setting of the model, `--set {edit}` edits it; {message}")
}

/// Whether an experiment has a field of this name at its top.
pub fn is_field(name: &str) -> bool {
    schema::paths(name).iter().any(|path| path == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synonyms_lead_to_fields() {
        for (other, path) in SYNONYMS {
            let field = path.rsplit('.').next().expect("a path has a key");
            assert!(schema::paths(field).iter().any(|known| known == path), "{other}: {path}");
        }
    }

    #[test]
    fn places_are_seen_from_the_block() {
        let of = |known: &[&str], name: &str| cure(name, known).unwrap_or_default();
        assert_eq!(of(&["learning_rate", "kind"], "lr"), "it is `learning_rate` here");
        assert_eq!(
            of(&[], "lr"),
            "it is `optimiser.learning_rate`: the block `optimiser` has the field `learning_rate`"
        );
        assert_eq!(
            of(&["learning_rate", "kind"], "epochs"),
            "it is `epochs` at the top of the experiment, in no block"
        );
        assert_eq!(of(&[], "kind"), "it is `optimiser.kind` or `schedule.kind`");
        assert!(of(&[], "optimiser.clip").contains("`optimiser: { clip: .. }`"));
        assert!(of(&[], "dropout").contains("`set: [dropout=0.1]`"));
        assert!(of(&[], "halt").contains("`rtc show MODEL`"));
        assert_eq!(of(&[], "no_such_thing"), "");
    }
}
