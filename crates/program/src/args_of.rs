//! Arguments without a command line, for tests.

/// The arguments of a command from the words behind its name, separated by blanks.
///
/// # Errors
/// clap's own.
pub fn args_of<A: clap::Args>(words: &str) -> Result<A, clap::Error> {
    let words = ["wirerate"].into_iter().chain(words.split_whitespace());
    A::from_arg_matches(&A::augment_args(clap::Command::new("wirerate")).try_get_matches_from(words)?)
}
