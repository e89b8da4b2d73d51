//! docs/options.md has every option of every command, from the tables of the parser.

use clap::{Arg, ArgAction, Command};
use std::fs;
use std::path::Path;

const INTRO: &str = "# Which options does each command have?

One table per command, from the same tables as `--help`. `-h` and `--help` are options of all
commands. UPDATE=1 with the test of the docs rewrites this page.
";

#[test]
fn the_page_of_options_has_every_option() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/options.md");
    let mut expected = INTRO.to_owned();
    let parser = wirerate::parser();
    for command in parser.get_subcommands().filter(|command| !command.is_hide_set()) {
        add(command, "wirerate", &mut expected);
    }
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&page, &expected).expect("the page can be written");
    }
    assert_eq!(fs::read_to_string(&page).expect("the page is there"), expected, "UPDATE=1 rewrites it");
    assert!(expected.matches("\n| ").count() > 300);
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
