//! One Markdown page with every option of every command, from the tables of the parser.

use clap::{Arg, ArgAction, Command};

const INTRO: &str = "# Which options does each command have?

One table per command, from the same tables as `--help`. `-h` and `--help` are options of all
commands.
";

/// The page.
pub(super) fn page(parser: &Command) -> String {
    let mut page = INTRO.to_owned();
    for command in parser.get_subcommands().filter(|command| !command.is_hide_set()) {
        add(command, "wirerate", &mut page);
    }
    page
}

fn add(command: &Command, parent: &str, page: &mut String) {
    let name = format!("{parent} {}", command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    *page += &format!("\n## {name}\n\n{about}.\n");
    let options: Vec<&Arg> =
        command.get_arguments().filter(|option| !option.is_hide_set() && option.get_id() != "help").collect();
    if !options.is_empty() {
        *page += "\n| option | meaning |\n|---|---|\n";
        options.iter().for_each(|option| *page += &row(option));
    }
    for nested in command.get_subcommands().filter(|nested| !nested.is_hide_set()) {
        if nested.get_name() != "help" {
            add(nested, &name, page);
        }
    }
}

fn row(option: &Arg) -> String {
    let (start, between) = (option.get_short(), option.get_long());
    let aliases = option.get_visible_aliases().unwrap_or_default();
    let names = start.map(|short| format!("-{short}")).into_iter();
    let names = names.chain(between.into_iter().chain(aliases).map(|long| format!("--{long}")));
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    let takes_value = option.get_action().takes_values();
    let values = option.get_value_names().unwrap_or_default();
    let values: Vec<_> =
        values.iter().filter(|_| takes_value).map(|value| escaped(value.trim_matches(['<', '>']))).collect();
    let values = values.join(" ");
    let names = match (names.is_empty(), values.is_empty()) {
        (true, _) => format!("`{values}`"),
        (false, true) => names.join(", "),
        (false, false) => format!("{} `{values}`", names.join(", ")),
    };
    let help = option.get_long_help().or(option.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut meaning = escaped(&help.split_whitespace().collect::<Vec<_>>().join(" "));
    let is_count = matches!(option.get_action(), ArgAction::Count);
    let defaults: Vec<_> = option.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if takes_value && !is_count && !defaults.is_empty() && !option.is_hide_default_value_set() {
        meaning += &format!(" \\[default: {}\\]", escaped(&defaults.join(" ")));
    }
    format!("| {names} | {meaning} |\n")
}

/// A text in a cell of a table.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "\\<").replace('*', "\\*")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_option_of_every_command() {
        let parser = crate::parser();
        let page = page(&parser);
        assert!(page.matches("\n| ").count() > 300);
        for command in parser.get_subcommands().filter(|command| !command.is_hide_set()) {
            let (_, part) =
                page.split_once(&format!("\n## wirerate {}\n", command.get_name())).expect("it is there");
            let part = part.split("\n## ").next().unwrap_or(part);
            for option in command.get_opts().filter(|option| !option.is_hide_set()) {
                let name = option.get_long().expect("each has a name");
                assert!(part.contains(&format!("`--{name}`")), "--{name} of {}", command.get_name());
            }
        }
    }
}
