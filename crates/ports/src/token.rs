//! The token that clients of the server must send: from a file, the environment or systemd.

use std::env;
use std::path::{Path, PathBuf};

/// The variable with the token.
const VARIABLE: &str = "WIRERATE_OTG_TOKEN";
/// The variable with the folder of the credentials that systemd loads, and the name of ours.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";
const CREDENTIAL: &str = "otg-token";

/// The token, if there is one. One on the command line is a warning.
///
/// # Errors
/// A file that cannot be read; a token that is empty or cannot stand in a header.
pub(super) fn read(file: Option<&Path>, word: Option<&str>) -> Result<Option<String>, String> {
    if word.is_some() {
        program::note!(
            "every user of this host sees --token in the list of processes\n  \
             try: --token-file FILE, or {VARIABLE}=TOKEN wirerate otg"
        );
    }
    let credential = env::var_os(CREDENTIALS).map(|folder| PathBuf::from(folder).join(CREDENTIAL));
    choose(file, word, env::var(VARIABLE).ok().as_deref(), credential.as_deref())
}

fn choose(
    file: Option<&Path>,
    word: Option<&str>,
    variable: Option<&str>,
    credential: Option<&Path>,
) -> Result<Option<String>, String> {
    match (file, word.or(variable), credential) {
        (Some(file), ..) => of_file(file).map(Some),
        (None, Some(token), _) => checked(token, "the token").map(Some),
        (None, None, Some(file)) if file.exists() => of_file(file).map(Some),
        _ => Ok(None),
    }
}

fn of_file(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    checked(text.trim_end_matches(['\r', '\n']), &path.display().to_string())
}

/// A token fits into a header, and into an address.
fn checked(token: &str, place: &str) -> Result<String, String> {
    let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
    match !token.is_empty() && is_plain {
        true => Ok(token.to_owned()),
        false => Err(format!(
            "{place} is not one word of ASCII letters, digits and signs\n  try: openssl rand -hex 16 > FILE"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_before_the_environment() {
        let folder = testkit::Folder::new("otg-token");
        let file = |name: &str, text: &str| {
            std::fs::write(folder.file(name), text).unwrap();
            PathBuf::from(folder.file(name))
        };
        let (given, credential) = (file("given", "abc\n"), file("credential", "xyz"));
        let token = |file: Option<&Path>, variable: Option<&str>, credential: Option<&Path>| {
            choose(file, None, variable, credential).unwrap()
        };
        assert_eq!(token(Some(&given), Some("v"), Some(&credential)).as_deref(), Some("abc"));
        assert_eq!(token(None, Some("v"), Some(&credential)).as_deref(), Some("v"));
        assert_eq!(token(None, None, Some(&credential)).as_deref(), Some("xyz"));
        assert_eq!(token(None, None, Some(folder.file("none").as_ref())), None);
        assert_eq!(choose(None, Some("word"), Some("v"), None).unwrap().as_deref(), Some("word"));
        for text in ["", "a b", "ä", "a\nb"] {
            let error = choose(Some(&file("bad", text)), None, None, None).unwrap_err();
            assert!(error.contains("bad is not one word"), "{error}");
        }
        assert!(
            choose(Some(folder.file("none").as_ref()), None, None, None)
                .unwrap_err()
                .contains("No such file")
        );
    }
}
