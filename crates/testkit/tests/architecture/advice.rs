//! Libraries know neither options nor commands of wirerate: what to try about an error is decided
//! in `crates/program/src/advice`.

use crate::modules::Modules;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::fs;
use std::iter::Peekable;

/// Other crates that know the command line: programs, what serves tests, and the description of the
/// output of commands.
const OTHERS: [&str; 4] = ["bench", "vm", "testkit", "facts"];

/// Texts that are allowed: their file, some of their words, and the reason.
const ALLOWED: [(&str, &str, &str); 19] = [
    ("crates/capture/src/backend/select.rs", "--at both shows them", "the reason for a source, in reports"),
    ("crates/capture/src/options.rs", "an XDP program (--at)", "names one of two options that contradict"),
    ("crates/capture/src/output/fileset.rs", "--rotate-size or", "an answer to `wirerate ctl`"),
    ("crates/capture/src/output/recorder.rs", "--max-saves allows", "an answer to `wirerate ctl`"),
    ("crates/capture/src/writer.rs", "ctl DEV save` makes one", "an answer to `wirerate ctl`"),
    ("crates/capture/src/writer.rs", "(--keep 30s)", "an answer to `wirerate ctl`"),
    ("crates/command/src/fault.rs", "help commands` lists them", "the refusal of a write is one line"),
    ("crates/ctlfs/src/control/state.rs", "OUTER,INNER` sends", "a note in the log"),
    ("crates/ctlfs/src/exec.rs", "is not inside a `wirerate", "names the process that is missing"),
    ("crates/ctlfs/src/exec.rs", "no `wirerate exec` named", "names the process that is missing"),
    ("crates/ctlfs/src/programs.rs", "\"", "scripts that run the program, or stand for other ones"),
    ("crates/engine/src/select.rs", "(--engine xdp is", "a hint about the choice, in reports"),
    ("crates/engine/src/xdp/mod.rs", "--engine skb sends", "a hint about the choice, in reports"),
    ("crates/fleet/src/", "--json has all)", "a part of the report"),
    ("crates/fleet/src/flow_account.rs", "--count is {count}", "plans have options of `send`"),
    ("crates/host/src/command_place.rs", "nsenter --net", "another program"),
    ("crates/server/src/listen.rs", "give --tls CERT KEY", "names the two options that are missing"),
    (
        "crates/server/src/request_body.rs",
        "higher --max-body",
        "an answer to a client, which has no other way to know",
    ),
    ("crates/units/src/mix.rs", "a value of --imix", "names the option that takes a name"),
];

fn knows_command_line(name: &str) -> bool {
    crate::PROGRAM.contains(&name) || crate::GROUPS.contains(&name) || OTHERS.contains(&name)
}

/// The string literals of code without its tests, and the names of its functions.
#[derive(Default)]
struct Words {
    texts: Vec<String>,
    functions: Vec<String>,
}

impl Words {
    fn read(&mut self, tokens: TokenStream) {
        let mut rest = tokens.into_iter().peekable();
        while let Some(token) = rest.next() {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => self.attribute(&mut rest),
                TokenTree::Group(group) => self.read(group.stream()),
                TokenTree::Literal(literal) => self.texts.push(literal.to_string()),
                TokenTree::Ident(word) if word == "fn" => {
                    self.functions.extend(rest.peek().map(TokenTree::to_string));
                }
                _ => {}
            }
        }
    }

    /// An attribute behind its `#`: only messages of errors count. With `cfg(test)` the item goes.
    fn attribute(&mut self, rest: &mut Peekable<impl Iterator<Item = TokenTree>>) {
        rest.next_if(|token| token.to_string() == "!");
        let Some(TokenTree::Group(group)) = rest.next_if(|token| matches!(token, TokenTree::Group(_))) else {
            return;
        };
        let text = group.stream().to_string().replace(' ', "");
        if text.starts_with("error(") {
            self.read(group.stream());
        }
        if text == "cfg(test)" {
            let is_end = |token: &TokenTree| match token {
                TokenTree::Punct(punct) => punct.as_char() == ';',
                TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                _ => false,
            };
            rest.find(is_end);
        }
    }
}

/// True for an option, as `--count`, or a command in backquotes.
fn names_command_line(text: &str) -> bool {
    let is_option = |(at, _): (usize, &str)| {
        let before = text[..at].chars().next_back();
        let after = text[at + 2..].chars().next();
        after.is_some_and(|letter| letter.is_ascii_lowercase())
            && before.is_none_or(|letter| !letter.is_ascii_alphanumeric() && letter != '-')
    };
    text.contains("`wirerate ") || text.match_indices("--").any(is_option)
}

#[test]
fn libraries_do_not_know_the_command_line() {
    let (mut found, mut used) = (Vec::new(), [false; ALLOWED.len()]);
    for name in crate::crates().into_iter().filter(|name| !knows_command_line(name)) {
        let source = crate::folder_of(&name).join("src");
        for file in Modules::of(&source).files() {
            let path = format!("crates/{name}/src/{file}");
            let code = fs::read_to_string(source.join(file)).expect("the sources can be read");
            let mut words = Words::default();
            words.read(code.parse().unwrap_or_else(|error| panic!("{path}: {error}")));
            let advice = words.functions.into_iter().filter(|name| name.contains("advice"));
            found.extend(advice.map(|name| format!("{path}: fn {name}")));
            for text in words.texts.into_iter().filter(|text| names_command_line(text)) {
                let is_it =
                    |(file, part, _): &(&str, &str, &str)| path.starts_with(file) && text.contains(part);
                match ALLOWED.iter().position(is_it) {
                    Some(place) => used[place] = true,
                    None => found.push(format!("{path}: {text}")),
                }
            }
        }
    }
    assert!(found.is_empty(), "decide this in crates/program/src/advice:\n{}", found.join("\n"));
    let gone: Vec<_> = ALLOWED.iter().zip(used).filter(|(_, used)| !used).collect();
    assert!(gone.is_empty(), "remove these from the list of this test: {gone:?}");
}

#[test]
fn options_and_commands_are_found_in_texts_but_not_in_tests() {
    let code = r##"
        //! The option `--top`.
        /// The option `--doc`.
        #[error("no frames: --count is 0")]
        #[arg(long = "--no-error")]
        fn busy_advice() { format!("`wirerate doctor {device}`"); "a -- b", "----begin", r#"--raw"# }
        #[cfg(test)]
        mod tests { fn advice() { "--test" } }
        const LAST: &str = "see --last";
    "##;
    let mut words = Words::default();
    words.read(code.parse().expect("it is Rust"));
    words.texts.retain(|text| names_command_line(text));
    let expected = [
        r#""no frames: --count is 0""#,
        r#""`wirerate doctor {device}`""#,
        r###"r#"--raw"#"###,
        r#""see --last""#,
    ];
    assert_eq!(words.texts, expected);
    assert_eq!(words.functions, ["busy_advice"]);
}
