//! `rtc completions`: the script that teaches a shell the arguments.
//!
//! The scripts for bash, zsh and fish ask `rtc complete` for the words that fit, and so know specs, experiments and the paths of
//! `--set`; other shells get the table of arguments as it is.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::exit::{CommandResult, Exit};
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  rtc completions bash > ~/.local/share/bash-completion/completions/rtc
  rtc completions zsh > ~/.zfunc/_rtc
  rtc completions fish > ~/.config/fish/completions/rtc.fish
";

/// The line is cut at blanks alone, since bash cuts words at `:` and `=`, too; what it has cut off stays on the line.
const BASH: &str = r#"_rtc() {
    local line="${COMP_LINE:0:COMP_POINT}" words current cut word
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current="${words[-1]}" cut=""
    [[ $COMP_WORDBREAKS == *:* && $current == *:* ]] && cut="${current%"${current##*:}"}"
    [[ $COMP_WORDBREAKS == *=* && $current == *=* && ${#cut} -lt ${#current} ]] && {
        word="${current%"${current##*=}"}"
        [[ ${#word} -gt ${#cut} ]] && cut="$word"
    }
    COMPREPLY=()
    while IFS=$'\t' read -r word _; do
        [[ $word == *[/=] ]] && compopt -o nospace 2> /dev/null
        COMPREPLY+=("${word#"$cut"}")
    done < <("${COMP_WORDS[0]}" complete -- "${words[@]}" 2> /dev/null)
}
complete -o default -F _rtc rtc
"#;

const ZSH: &str = r#"#compdef rtc
_rtc() {
    local -a open closed shown_open shown_closed
    local word help
    while IFS=$'\t' read -r word help; do
        if [[ $word == *[/=] ]]; then
            open+=("$word") shown_open+=("$word${help:+  -- $help}")
        else
            closed+=("$word") shown_closed+=("$word${help:+  -- $help}")
        fi
    done < <("${words[1]}" complete -- "${(@)words[1,CURRENT]}" 2> /dev/null)
    if (( ${#open} + ${#closed} == 0 )); then
        _files
        return
    fi
    (( ${#open} )) && compadd -l -S '' -d shown_open -a open
    (( ${#closed} )) && compadd -l -d shown_closed -a closed
}
compdef _rtc rtc
"#;

const FISH: &str = r#"function __rtc_complete
    set -l words (commandline -opc) (commandline -ct)
    $words[1] complete -- $words 2> /dev/null
end
complete -c rtc -a "(__rtc_complete)"
"#;

/// Arguments of `rtc completions`.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Options {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    let script = match options.shell {
        Shell::Bash => BASH.to_owned(),
        Shell::Zsh => ZSH.to_owned(),
        Shell::Fish => FISH.to_owned(),
        other => {
            let mut script = vec![];
            clap_complete::generate(other, &mut crate::command::Cli::command(), "rtc", &mut script);
            String::from_utf8_lossy(&script).into_owned()
        }
    };
    terminal.result(&script)?;
    Ok(Exit::Done)
}
