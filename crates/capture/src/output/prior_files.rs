//! Files that an earlier capture with the same name pattern left: names, lengths and ages.

use crate::output::names::{NamePattern, without_number};
use crate::output::place::Place;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EarlierFile {
    /// Its path, as the pattern gives it.
    pub(crate) name: String,
    /// The path without its number, and the number; `None` for a file that was never completed.
    pub(crate) numbered: Option<(String, u64)>,
    /// Its length in bytes.
    pub(crate) bytes: u64,
}

/// Those of `pattern`, the oldest first. Folders that cannot be read hold none.
pub(crate) fn find(pattern: &NamePattern) -> Vec<EarlierFile> {
    let components = pattern.components();
    let (file, folders) = components.split_last().expect("a pattern has a name");
    let mut found: Vec<(SystemTime, EarlierFile)> = Vec::new();
    for folder in existing_folders(folders) {
        for (path, name) in entries(Path::new(if folder.is_empty() { "." } else { &folder })) {
            let Ok(meta) = fs::symlink_metadata(&path) else { continue };
            let Some(base) = base_of(file, &name).filter(|_| meta.is_file()) else { continue };
            let numbered = base.map(|(base, number)| (format!("{folder}{base}"), number));
            let modified = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            found.push((
                modified,
                EarlierFile { name: format!("{folder}{name}"), numbered, bytes: meta.len() },
            ));
        }
    }
    found.sort_by(|a, b| (a.0, &a.1.name).cmp(&(b.0, &b.1.name)));
    found.into_iter().map(|(_, file)| file).collect()
}

/// The highest number of files whose names differ in their numbers only, by that name without one.
pub(crate) fn highest_numbers(files: &[EarlierFile]) -> BTreeMap<String, u64> {
    let mut highest = BTreeMap::new();
    for (base, number) in files.iter().filter_map(|file| file.numbered.as_ref()) {
        let known = highest.entry(base.clone()).or_default();
        *known = (*number).max(*known);
    }
    highest
}

/// What the name of a complete file is without its number (0 where it has none), `Some(None)` for
/// one that was never completed, `None` for a file of another kind.
fn base_of(pattern: &NamePattern, name: &str) -> Option<Option<(String, u64)>> {
    if let Some((base, number)) = without_number(name)
        && pattern.may_give(&base)
    {
        return Some(Some((base, number)));
    }
    if pattern.has_time() && pattern.may_give(name) {
        return Some(Some((name.to_owned(), 0)));
    }
    let (base, number) = name.rsplit_once(".part.")?;
    (number.parse::<u32>().is_ok() && pattern.may_give(base)).then_some(None)
}

/// The folders that there are, each as the beginning of a path, with its slash.
fn existing_folders(patterns: &[NamePattern]) -> Vec<String> {
    let mut folders = vec![String::new()];
    for pattern in patterns {
        let below = |folder: &String| {
            if !pattern.has_time() {
                return vec![format!("{folder}{}/", pattern.expand(0, 0))];
            }
            let here = Path::new(if folder.is_empty() { "." } else { folder });
            let names =
                entries(here).into_iter().filter(|(path, name)| path.is_dir() && pattern.may_give(name));
            names.map(|(_, name)| format!("{folder}{name}/")).collect()
        };
        folders = folders.iter().flat_map(below).collect();
    }
    folders
}

/// Paths and names. A name that is not UTF-8 is left out: patterns make none.
fn entries(folder: &Path) -> Vec<(PathBuf, String)> {
    // No file of a folder is ours that root would not write to.
    if Place::behind_links(&folder.join(".x")).is_err() {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let entry = |entry: fs::DirEntry| Some((entry.path(), entry.file_name().into_string().ok()?));
    entries.flatten().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_pattern_are_found_in_all_its_folders_and_no_others() {
        let folder = testkit::Folder::new("earlier");
        for name in [
            "2025/x10.pcapng",
            "2026/x11_1.pcapng",
            "2026/x11.pcapng.part.2",
            "2026/x11.pcapng.part",
            "2026/x1",
            "y/x10.pcapng",
        ] {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        let pattern = format!("{}/%Y/x%H.pcapng", folder.display());
        let mut found = find(&NamePattern::parse(&pattern).unwrap());
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let path = |name: &str| folder.join(name).display().to_string();
        let file = |name: &str, numbered: Option<(&str, u64)>| EarlierFile {
            name: path(name),
            numbered: numbered.map(|(base, number)| (path(base), number)),
            bytes: name.len() as u64,
        };
        let expected = [
            file("2025/x10.pcapng", Some(("2025/x10.pcapng", 0))),
            file("2026/x11.pcapng.part.2", None),
            file("2026/x11_1.pcapng", Some(("2026/x11.pcapng", 1))),
        ];
        assert_eq!(found, expected);
        fs::remove_dir_all(folder).unwrap();
    }
}
