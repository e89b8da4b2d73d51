//! Dependencies between crates and between the modules of a crate, against the table in
//! ARCHITECTURE.md.

mod advice;
mod modules;
mod statics;

use modules::Modules;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Crates without I/O of their own: `std` paths that their sources must not use.
const PURE_CRATES: [&str; 16] = [
    "packet", "frames", "command", "pcapng", "columns", "replay", "filter", "search", "connect", "measure",
    "facts", "metrics", "live", "report", "otg", "fleet",
];
const IO_AND_CLOCKS: [&str; 7] = ["fs", "net::Tcp", "net::Udp", "process", "env", "thread", "time::"];

/// The program and its parts that several commands use.
const PROGRAM: [&str; 8] =
    ["wirerate", "program", "options", "capture-files", "sender", "receiver", "connections", "doctor"];
/// The groups of commands that a build may leave out.
const GROUPS: [&str; 5] = ["export", "fleets", "mgcap", "ports", "trials"];

/// The folders of crates: the product, and what it is tested and measured with.
const FOLDERS: [&str; 2] = ["crates", "lab"];

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn manifest(path: &Path) -> toml::Table {
    read(path).parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn crates() -> Vec<String> {
    let names = FOLDERS.into_iter().flat_map(|folder| {
        let entries = fs::read_dir(testkit::root().join(folder)).expect("the folder can be read");
        entries.map(|entry| entry.expect("the folder can be read").path())
    });
    let names = names.filter(|path| path.join("Cargo.toml").exists());
    names.map(|path| path.file_name().and_then(OsStr::to_str).expect("names are UTF-8").to_owned()).collect()
}

/// Where a crate is.
fn folder_of(name: &str) -> PathBuf {
    let paths = FOLDERS.map(|folder| testkit::root().join(folder).join(name));
    paths.into_iter().find(|path| path.exists()).unwrap_or_else(|| panic!("there is no crate {name}"))
}

/// The words in backquotes.
fn quoted(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The crates table of ARCHITECTURE.md: crate, `depends on`, `must not depend on`.
fn table() -> BTreeMap<String, [BTreeSet<String>; 2]> {
    let text = read(&testkit::root().join("ARCHITECTURE.md"));
    let rows = text.lines().skip_while(|line| !line.starts_with("| crate |")).skip(2);
    rows.take_while(|line| line.starts_with('|'))
        .map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
            let name = quoted(cells[0]).pop_first().expect("the first cell names a crate");
            (name, [quoted(cells[2]), quoted(cells[3])])
        })
        .collect()
}

#[test]
fn crates_depend_on_what_the_table_allows() {
    let (crates, table) = (crates(), table());
    let names: BTreeSet<&String> = crates.iter().collect();
    assert_eq!(names, table.keys().collect(), "ARCHITECTURE.md has a row for each crate");
    for name in &crates {
        let manifest = manifest(&folder_of(name).join("Cargo.toml"));
        let sections = ["dependencies", "build-dependencies"].into_iter();
        let used: BTreeSet<String> = sections
            .filter_map(|section| manifest.get(section)?.as_table())
            .flat_map(toml::Table::keys)
            .filter(|dependency| crates.contains(dependency))
            .cloned()
            .collect();
        let [allowed, forbidden] = &table[name];
        assert_eq!(used, *allowed, "{name}/Cargo.toml, and its row in ARCHITECTURE.md");
        assert!(allowed.is_disjoint(forbidden), "the row of {name} contradicts itself");
    }
}

#[test]
fn pure_crates_do_no_io_and_read_no_clock() {
    for name in PURE_CRATES {
        for (file, path) in Modules::of(&folder_of(name).join("src")).std_paths() {
            let is_allowed =
                path == "time::Duration" || !IO_AND_CLOCKS.iter().any(|word| path.starts_with(word));
            assert!(is_allowed, "{name}/src/{file} uses std::{path}");
        }
    }
}

#[test]
fn modules_of_a_crate_have_no_circles() {
    let mut new = Vec::new();
    for name in crates() {
        for circle in Modules::of(&folder_of(&name).join("src")).circles() {
            new.push(format!("{name}: {:?}\n{}", circle.files, circle.uses.join("\n")));
        }
    }
    assert!(new.is_empty(), "files that use each other:\n{}", new.join("\n"));
}

/// What commands share is in modules beside `cmd`, so that a command can be read, and left out, by
/// itself.
#[test]
fn no_command_imports_another() {
    let modules = Modules::of(&testkit::root().join("crates/wirerate/src"));
    let mut found = modules.uses();
    found.retain(|(from, to, _)| command_of(to).is_some() && command_of(from) != command_of(to));
    assert!(found.is_empty(), "these files import commands: {found:?}");
}

/// What runs the product is not part of it, in no test either.
#[test]
fn the_product_does_not_depend_on_the_lab() {
    let of_lab: Vec<String> = fs::read_dir(testkit::root().join("lab"))
        .expect("the folder can be read")
        .map(|entry| entry.expect("the folder can be read").file_name().to_string_lossy().into_owned())
        .collect();
    for name in crates().iter().filter(|name| !of_lab.contains(name)) {
        let manifest = manifest(&folder_of(name).join("Cargo.toml"));
        for section in ["dependencies", "build-dependencies", "dev-dependencies"] {
            let used = manifest.get(section).and_then(toml::Value::as_table);
            let found = used.and_then(|used| used.keys().find(|key| of_lab.contains(key)));
            assert_eq!(found, None, "{name}, [{section}]");
        }
    }
}

/// One edition and version, one set of lints, and libraries that are compiled once for both.
#[test]
fn the_workspaces_of_the_product_and_of_the_lab_agree() {
    let [product, lab] = ["", "lab"].map(|folder| manifest(&testkit::root().join(folder).join("Cargo.toml")));
    for key in ["resolver", "package", "lints"] {
        assert_eq!(product["workspace"][key], lab["workspace"][key], "workspace.{key}");
    }
    let versions = |of: &toml::Table| of["workspace"]["dependencies"].as_table().expect("a table").clone();
    for (name, version) in versions(&lab) {
        let is_ours = version.get("path").is_some();
        let same = versions(&product).get(&name).is_none_or(|other| *other == version);
        assert!(is_ours || same, "the version of {name}");
    }
    let profiles = |of: &toml::Table| of["profile"].as_table().expect("a table").clone();
    for (name, profile) in profiles(&product) {
        let mut settings = [profile, profiles(&lab)[&name].clone()]
            .map(|profile| profile.as_table().expect("a profile is a table").clone());
        let [of_product, of_lab] = settings.each_mut().map(|settings| {
            let packages = settings.remove("package");
            packages.and_then(|packages| packages.as_table().cloned()).unwrap_or_default()
        });
        assert_eq!(settings[0], settings[1], "profile.{name}");
        for (package, settings) in
            of_lab.iter().filter(|(package, _)| !["bench", "vm"].contains(&package.as_str()))
        {
            assert_eq!(of_product.get(package), Some(settings), "profile.{name}.package.{package}");
        }
    }
}

/// Options become values in the commands, once: what sends and receives gets no text to parse.
#[test]
fn what_sends_and_receives_has_no_parser_of_options() {
    for name in ["units", "capture-files", "sender", "receiver"] {
        let manifest = manifest(&folder_of(name).join("Cargo.toml"));
        let dependencies = manifest["dependencies"].as_table().expect("a table");
        assert!(!dependencies.contains_key("clap"), "{name}");
    }
}

/// What sends and receives tells the console of its command; it writes to no terminal.
#[test]
fn what_sends_and_receives_knows_no_terminal() {
    const PRINTS: [&str; 6] = ["print!(", "println!(", "io::stdin", "io::stdout", "io::stderr", "IsTerminal"];
    for name in ["sender", "receiver"] {
        let source = folder_of(name).join("src");
        for file in Modules::of(&source).files() {
            let code = read(&source.join(file));
            let found = PRINTS.into_iter().find(|print| code.contains(print));
            assert_eq!(found, None, "{name}/src/{file}");
        }
    }
}

/// A sentence for people passes `program::note!`, which shows control characters of names as text.
#[test]
fn notes_of_the_program_are_printable() {
    for name in PROGRAM.into_iter().chain(GROUPS) {
        let source = folder_of(name).join("src");
        for file in Modules::of(&source).files() {
            let code = read(&source.join(file));
            let code: String = code.split_whitespace().collect();
            assert!(!code.contains("eprintln!(\"wirerate:"), "{name}/src/{file}: use program::note!");
        }
    }
}

/// What a build may leave out is decided where commands and modules are listed, so that no other
/// file has parts that only some builds compile.
#[test]
fn few_files_of_the_program_know_its_features() {
    const ALLOWED: [(&str, &[&str]); 2] = [
        ("wirerate", &["cmd/mod.rs", "lib.rs"]),
        ("program", &["advice/mod.rs", "groups.rs", "lib.rs", "monitor/mod.rs"]),
    ];
    let mut found = Vec::new();
    for name in PROGRAM.into_iter().chain(GROUPS) {
        let source = folder_of(name).join("src");
        let allowed = ALLOWED.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, files)| files);
        for file in Modules::of(&source).files().filter(|file| !allowed.contains(file)) {
            let code = read(&source.join(file)).replace("target_feature", "");
            found.extend(code.contains("feature = \"").then(|| format!("{name}/src/{file}")));
        }
    }
    assert!(found.is_empty(), "these files depend on features: {found:?}");
}

/// What the program uses in every build does not use what some builds lack.
#[test]
fn groups_of_commands_can_be_left_out() {
    for name in crates().iter().filter(|name| !GROUPS.contains(&name.as_str())) {
        let manifest = manifest(&folder_of(name).join("Cargo.toml"));
        let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
        for group in GROUPS {
            let Some(dependency) = dependencies.and_then(|all| all.get(group)) else { continue };
            let is_optional = dependency.get("optional").and_then(toml::Value::as_bool) == Some(true);
            assert!(name == "wirerate" && is_optional, "{name} depends on {group}");
        }
    }
}

/// The command of a file of `crates/wirerate/src`: its file or folder below `cmd`.
fn command_of(file: &str) -> Option<&str> {
    file.strip_prefix("cmd/")?.split(['/', '.']).next()
}
