//! An indexed Job of Kubernetes per group of cells.

use std::path::Path;

use rtc_session::failure::SessionFailure;
use serde_json::{Value, json};

use super::words::{self, CellWords};
use super::{JobGroup, Submission};

/// How often a cell is tried again whose node fails or that ends with an error.
const TRIES: u32 = 6;

/// What stands for an image and for the claim of a volume until somebody fills them in.
const IMAGE: &str = "REGISTRY/rtc:VERSION";
const VOLUME: &str = "CLAIM";

/// The manifests, in YAML.
pub(super) fn manifests(
    submission: &Submission<'_>,
    groups: &[JobGroup],
    command: &CellWords,
) -> Result<String, SessionFailure> {
    let [folder, _] = words::start()?;
    let one = |(n, group): (usize, &JobGroup)| {
        let job = job(submission, group, n + 1, (command, &folder));
        let text = serde_yaml::to_string(&job).map_err(|error| SessionFailure::Panic(format!("no YAML: {error}")))?;
        Ok(format!("---\n{text}"))
    };
    groups.iter().enumerate().map(one).collect()
}

/// The cells stand in the command: the image needs neither a shell nor a list in a file.
fn job(submission: &Submission<'_>, group: &JobGroup, n: usize, (command, folder): (&CellWords, &Path)) -> Value {
    let options = submission.options;
    let name = format!("{}-{n}", label(&submission.name()));
    let memory = options.mem.clone().unwrap_or_else(|| format!("{}Mi", group.request.memory));
    let args = command.with_cell(&format!("{},", group.cells.join(",")));
    let folder = folder.display().to_string();
    // 75 says that the cell was stopped with its state saved, as where its node is drained: that is no failure.
    let stopped = json!({ "action": "Ignore", "onExitCodes": { "operator": "In", "values": [75] } });
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name },
        "spec": {
            "completionMode": "Indexed", "completions": group.cells.len(), "parallelism": group.cells.len(),
            "backoffLimitPerIndex": TRIES, "maxFailedIndexes": group.cells.len(),
            "podFailurePolicy": { "rules": [stopped] },
            "template": { "spec": {
                "restartPolicy": "Never", "terminationGracePeriodSeconds": 120,
                "containers": [{
                    "name": "rtc", "image": options.image.as_deref().unwrap_or(IMAGE), "command": ["rtc"], "args": args, "workingDir": folder,
                    "resources": { "requests": { "cpu": "1", "memory": memory }, "limits": { "memory": memory } },
                    "volumeMounts": [{ "name": "shared", "mountPath": folder }],
                }],
                "volumes": [{ "name": "shared", "persistentVolumeClaim": { "claimName": options.volume.as_deref().unwrap_or(VOLUME) } }],
            } },
        },
    })
}

/// A name as Kubernetes takes it: small letters, digits and `-`, at most 50 characters so that a number fits behind it.
fn label(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().map(plain).take(50).collect();
    name.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::label;

    #[test]
    fn names_have_small_letters_and_digits() {
        assert_eq!(label("rtc-ListOps_ablation 1."), "rtc-listops-ablation-1");
    }
}
