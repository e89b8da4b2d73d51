//! One manual page: name, options and commands by clap, a synopsis with the values of options, and
//! DESCRIPTION, EXAMPLES and EXIT STATUS from the text after the options.

use super::references;
use clap::{Arg, ArgAction, Command};
use clap_mangen::Man;
use std::fmt::Write;

const EXIT_STATUS: &str = "\
.TP\n0\ndone\n\
.TP\n1\ncompleted with loss or a failed check\n\
.TP\n2\nusage error\n\
.TP\n3\nrefused by the host or the device\n";

/// The page of `command`, which is `parser` itself for the page of wirerate.
pub(super) fn text(parser: &Command, command: &Command) -> String {
    let is_wirerate = parser.get_name() == command.get_name();
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let source = format!("wirerate {}", parser.get_version().unwrap_or_default());
    let man = Man::new(command.clone()).title(name.to_uppercase()).source(source).manual("wirerate manual");
    let after = AfterHelp::of(command);
    let mut page = clap_part(|out| man.render_title(out));
    page += &clap_part(|out| man.render_name_section(out));
    page += &synopsis(command);
    page += &clap_part(|out| man.render_description_section(out));
    page += &after.description;
    page += &clap_part(|out| man.render_options_section(out));
    if is_wirerate {
        page += &commands(parser);
        let _ = write!(page, ".SH \"CONTROL FILES\"\n{}", command::commands_roff());
    }
    if !after.examples.is_empty() {
        let _ = write!(page, ".SH EXAMPLES\n{}", after.examples);
    }
    let status = if after.exit_status.is_empty() { EXIT_STATUS.to_owned() } else { after.exit_status };
    let _ = write!(page, ".SH \"EXIT STATUS\"\n{status}");
    page + &closing(parser, command)
}

fn clap_part(render: impl Fn(&mut dyn std::io::Write) -> std::io::Result<()>) -> String {
    let mut part = Vec::new();
    render(&mut part).expect("a vector takes every byte");
    String::from_utf8_lossy(&part).into_owned()
}

/// All options with their values. An option and its value stay on one line.
fn synopsis(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut text = format!(".SH SYNOPSIS\n.nh\n.ad l\n.HP\n\\fB{}\\fR", escaped(name));
    let (positional, options): (Vec<_>, Vec<_>) =
        command.get_arguments().filter(|arg| !arg.is_hide_set()).partition(|arg| arg.is_positional());
    for option in options {
        let word = match (option.get_long(), option.get_short()) {
            (Some(long), _) => format!("--{long}"),
            (None, Some(short)) => format!("-{short}"),
            (None, None) => continue,
        };
        let value = match value_of(option) {
            Some(value) if option.is_require_equals_set() => format!("[=\\fI{}\\fR]", escaped(&value)),
            Some(value) => format!("\\ \\fI{}\\fR", escaped(&value)),
            None => String::new(),
        };
        let (open, close) = if option.is_required_set() { ("", "") } else { ("[", "]") };
        let _ = write!(text, "\n{open}\\fB{}\\fR{value}{close}\\&", escaped(&word));
    }
    for arg in positional {
        let value = value_of(arg).unwrap_or_else(|| arg.get_id().to_string());
        let dots = if matches!(arg.get_action(), ArgAction::Append) { "..." } else { "" };
        let (open, close) = if arg.is_required_set() { ("", "") } else { ("[", "]") };
        let _ = write!(text, "\n{open}\\fI{}\\fR{dots}{close}", escaped(&value));
    }
    if command.has_subcommands() {
        text += "\n\\fICOMMAND\\fR ...";
    }
    text + "\n.ad\n.hy\n"
}

fn value_of(arg: &Arg) -> Option<String> {
    let takes_value = arg.get_num_args().is_some_and(|count| count.takes_values());
    takes_value.then(|| arg.get_value_names().map(|names| names.join(" ")))?
}

/// What can be called, each with its page.
fn commands(parser: &Command) -> String {
    let mut text = ".SH COMMANDS\n".to_owned();
    for command in parser.get_subcommands().filter(|command| !command.is_hide_set()) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let page = escaped(&format!("wirerate-{}", command.get_name()));
        let _ = writeln!(text, ".TP\n\\fB{page}\\fR(1)\n{}", escaped(&about));
    }
    text
}

/// FILES and SEE ALSO.
fn closing(parser: &Command, command: &Command) -> String {
    let references = references::of(command.get_name());
    let mut text = String::new();
    if !references.files.is_empty() {
        text += ".SH FILES\n";
    }
    for (path, meaning) in references.files {
        let _ = writeln!(text, ".TP\n\\fI{}\\fR\n{}", escaped(path), escaped(meaning));
    }
    let home = (parser.get_name() != command.get_name()).then_some("wirerate(1)");
    let pages =
        home.into_iter().chain(references.see_also.iter().copied()).map(|page| match page.split_once('(') {
            Some((name, section)) => format!("\\fB{}\\fR({section}", escaped(name)),
            None => escaped(page),
        });
    let pages: Vec<_> = pages.collect();
    if !pages.is_empty() {
        let _ = write!(text, ".SH \"SEE ALSO\"\n.nh\n.ad l\n{}\n", pages.join(",\n"));
    }
    text
}

/// The text after the options, as parts of a page.
#[derive(Debug, Default)]
struct AfterHelp {
    description: String,
    examples: String,
    exit_status: String,
}

impl AfterHelp {
    fn of(command: &Command) -> Self {
        let text = command.get_after_long_help().or_else(|| command.get_after_help());
        let mut after = Self::default();
        for block in text.map(ToString::to_string).unwrap_or_default().split("\n\n") {
            match block.strip_prefix("Examples:\n") {
                Some(examples) => after.examples += &literal(examples),
                None if block.starts_with("Exit code") => {
                    let (_, status) = block.split_once(": ").unwrap_or(("", block));
                    after.exit_status += &paragraph(status);
                }
                None => after.description += &mixed(block),
            }
        }
        after
    }
}

/// Text, and indented lines as they are.
fn mixed(block: &str) -> String {
    let mut text = String::new();
    for lines in block.lines().collect::<Vec<_>>().chunk_by(|one, other| is_literal(one) == is_literal(other))
    {
        text += &if is_literal(lines[0]) { literal(&lines.join("\n")) } else { paragraph(&lines.join("\n")) };
    }
    text
}

fn is_literal(line: &str) -> bool {
    line.starts_with("  ")
}

fn paragraph(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(escaped).collect();
    format!(".PP\n{}\n", lines.join("\n"))
}

/// Lines that are neither joined nor justified, so that they can be pasted.
fn literal(lines: &str) -> String {
    let lines: Vec<_> = lines.lines().map(|line| escaped(line.strip_prefix("  ").unwrap_or(line))).collect();
    format!(".PP\n.RS 4\n.EX\n{}\n.EE\n.RE\n", lines.join("\n"))
}

/// `\&` keeps a line from being read as a request.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('`', "\\(ga");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str) -> String {
        let parser = crate::parser();
        text(&parser, parser.find_subcommand(name).expect("there is such a command"))
    }

    #[test]
    fn examples_stay_on_a_line_each_and_can_be_pasted() {
        let page = page("ctl");
        let (_, examples) = page.split_once(".SH EXAMPLES\n").expect("there are examples");
        assert!(
            examples
                .starts_with(".PP\n.RS 4\n.EX\nwirerate ctl eth1 mode drop\nwirerate ctl eth1 mode mirror\n"),
            "{examples}"
        );
    }

    #[test]
    fn the_synopsis_has_the_values_of_options() {
        let page = page("send");
        assert!(page.contains("\n[\\fB\\-\\-dst\\-mac\\fR\\ \\fIMAC[\\-MAC]\\fR]\\&\n"), "{page}");
        assert!(page.contains("\n\\fIDEV\\fR\n") || page.contains("\n[\\fIDEV\\fR]"), "{page}");
    }

    #[test]
    fn the_exit_codes_of_exec_are_those_of_its_command() {
        let page = page("exec");
        let (_, status) = page.split_once(".SH \"EXIT STATUS\"\n").expect("there is such a section");
        assert!(status.starts_with(".PP\nthat of CMD, 128"), "{status}");
        assert!(page.contains(".SH FILES\n.TP\n\\fI/proc/net/pktgen\\fR\n"));
    }

    #[test]
    fn every_page_has_its_sections() {
        for (name, page) in super::super::pages() {
            if page.starts_with(".so ") {
                continue;
            }
            for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "\"EXIT STATUS\"", "\"SEE ALSO\""] {
                assert!(page.contains(&format!("\n.SH {section}\n")), "{name} has no {section}");
            }
        }
    }
}
