// SPDX-License-Identifier: GPL-3.0-or-later
//! Additions to clap's completion scripts: names of jobs and nodes, asked of Slurm.

use clap_complete::Shell;

const BASH: &str = r#"
# Names of jobs and nodes come from Slurm; without an answer within a second there are none.
_phalanx_ask() {
    case $1 in
        jobs) timeout 1 squeue -h -o %i ;;
        nodes) timeout 1 sinfo -h -N -o %N | sort -u ;;
    esac 2>/dev/null
}
_phalanx_names() {
    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" what="" word
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        [[ $word == -* ]] && continue
        [[ $word == explain ]] && what=jobs
        break
    done
    case $prev in
        --node|--nodes) what=nodes ;;
        --socket|--config|--master) what="" ;;
    esac
    if [[ -n $what && $cur != -* ]]; then
        COMPREPLY=($(compgen -W "$(_phalanx_ask "$what")" -- "$cur"))
    else
        _phalanx "$@"
    fi
}
complete -F _phalanx_names -o bashdefault -o default phalanx
"#;

const ZSH: &str = r#"autoload -U is-at-least

_phalanx_jobs() { compadd -- ${(f)"$(timeout 1 squeue -h -o %i 2>/dev/null)"} }
_phalanx_nodes() { compadd -- ${(f)"$(timeout 1 sinfo -h -N -o %N 2>/dev/null)"} }
"#;

const FISH: &str = r#"
complete -c phalanx -n "__fish_phalanx_using_subcommand explain" -f \
    -a "(timeout 1 squeue -h -o %i 2>/dev/null)"
complete -c phalanx -n "__fish_phalanx_using_subcommand history" -l node -x \
    -a "(timeout 1 sinfo -h -N -o %N 2>/dev/null)"
"#;

/// Returns clap's script with names of jobs and nodes.
pub fn with_names(shell: Shell, script: &str) -> String {
    match shell {
        Shell::Bash => script.to_owned() + BASH,
        Shell::Fish => script.to_owned() + FISH,
        Shell::Zsh => {
            let line = |line: &str| {
                let named = |end: &str, function: &str| {
                    line.strip_suffix(end).map(|begin| format!("{begin}{function}"))
                };
                if line.starts_with("':job -- ") {
                    named(":_default' \\", ":_phalanx_jobs' \\")
                } else {
                    named(":NODE:_default' \\", ":NODE:_phalanx_nodes' \\")
                }
                .unwrap_or_else(|| line.to_owned())
            };
            let lines: Vec<String> = script.lines().map(line).collect();
            (lines.join("\n") + "\n").replacen("autoload -U is-at-least\n", ZSH, 1)
        }
        _ => script.to_owned(),
    }
}
