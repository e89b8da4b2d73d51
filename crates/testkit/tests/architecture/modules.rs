//! Which file of a crate uses which other file: from `use` lines, other paths and re-exports.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Names of modules from the root of the crate on.
type ModulePath = Vec<String>;

/// Keywords that stand before the name of an item.
const ITEMS: [&str; 8] = ["struct", "enum", "union", "trait", "fn", "const", "static", "type"];
/// Re-exports of re-exports, at most.
const DEPTH_MAX: u32 = 10;

#[derive(Debug, Default)]
struct Module {
    file: String,
    children: BTreeSet<String>,
    items: BTreeSet<String>,
    imports: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
}

/// A path in the code of a module.
#[derive(Debug)]
struct Mention {
    from: ModulePath,
    path: Vec<String>,
    /// Set for a re-export: it counts only where the module uses the name itself.
    reexport: Option<String>,
}

/// Files that use each other, and the paths by which they do.
pub(crate) struct Circle {
    pub(crate) files: Vec<String>,
    pub(crate) uses: Vec<String>,
}

/// The modules of a crate without its tests.
#[derive(Default)]
pub(crate) struct Modules {
    src: PathBuf,
    modules: BTreeMap<ModulePath, Module>,
    mentions: Vec<Mention>,
    words: BTreeSet<(ModulePath, String)>,
}

impl Modules {
    /// Reads the crate whose sources are in `src`.
    pub(crate) fn of(src: &Path) -> Self {
        let mut modules = Self { src: src.to_owned(), ..Self::default() };
        let root = ["lib.rs", "main.rs"].into_iter().find(|name| src.join(name).exists());
        modules.read_file(root.expect("a crate has lib.rs or main.rs"), Vec::new());
        modules
    }

    /// The files of the modules.
    pub(crate) fn files(&self) -> impl Iterator<Item = &str> {
        self.modules.values().map(|module| module.file.as_str())
    }

    /// Paths into `std` without that word, with the file that has each.
    pub(crate) fn std_paths(&self) -> impl Iterator<Item = (&str, String)> {
        let of_std = self.mentions.iter().filter(|mention| mention.path[0] == "std");
        of_std.map(|mention| (self.modules[&mention.from].file.as_str(), mention.path[1..].join("::")))
    }

    /// A file, another one that it uses, and the path by which it does; less what a module uses of
    /// its own submodules.
    pub(crate) fn uses(&self) -> Vec<(&str, &str, String)> {
        self.mentions
            .iter()
            .filter(|mention| self.counts(mention))
            .filter_map(|mention| {
                let target = self.resolve(&mention.from, &mention.path, 0)?;
                let files = [&mention.from, &target].map(|module| self.modules[module].file.as_str());
                // A module and the files below it are one unit: they may use what it defines.
                let is_below = target.starts_with(&mention.from);
                (files[0] != files[1] && !is_below).then(|| (files[0], files[1], mention.path.join("::")))
            })
            .collect()
    }

    /// Groups of files that use each other.
    pub(crate) fn circles(&self) -> Vec<Circle> {
        let uses = self.uses();
        let mut circles = Vec::new();
        let mut done = BTreeSet::new();
        for (file, ..) in &uses {
            let reached = reach(file, &uses);
            let members: BTreeSet<&str> =
                reached.iter().copied().filter(|other| reach(other, &uses).contains(file)).collect();
            if members.len() > 1 && done.insert(members.clone()) {
                let is_inside =
                    |(from, to, _): &&(&str, &str, String)| members.contains(from) && members.contains(to);
                let lines: BTreeSet<String> = uses
                    .iter()
                    .filter(is_inside)
                    .map(|(from, to, path)| format!("  {from} -> {to}: {path}"))
                    .collect();
                let files = members.iter().map(|file| (*file).to_owned()).collect();
                circles.push(Circle { files, uses: lines.into_iter().collect() });
            }
        }
        circles
    }

    fn counts(&self, mention: &Mention) -> bool {
        mention
            .reexport
            .as_ref()
            .is_none_or(|name| self.words.contains(&(mention.from.clone(), name.clone())))
    }

    /// The module that has the item of a path; `None` for another crate's.
    fn resolve(&self, from: &ModulePath, path: &[String], depth: u32) -> Option<ModulePath> {
        let (mut module, mut rest) = match path[0].as_str() {
            "crate" => (Vec::new(), &path[1..]),
            "self" => (from.clone(), &path[1..]),
            "super" => (from[..from.len() - 1].to_vec(), &path[1..]),
            name if self.modules[from].children.contains(name) => (from.clone(), path),
            _ => return None,
        };
        while let Some((name, others)) = rest.split_first() {
            let here = &self.modules[&module];
            if name == "super" {
                module.pop();
            } else if here.children.contains(name) {
                module.push(name.clone());
            } else if let Some(import) = here.imports.get(name) {
                let path: Vec<String> = import.iter().chain(others).cloned().collect();
                return (depth < DEPTH_MAX).then(|| self.resolve(&module, &path, depth + 1)).flatten();
            } else {
                let globs = here.globs.iter().filter_map(|glob| self.resolve(&module, glob, depth + 1));
                return Some(
                    globs.into_iter().find(|glob| self.modules[glob].items.contains(name)).unwrap_or(module),
                );
            }
            rest = others;
        }
        Some(module)
    }

    fn read_file(&mut self, file: &str, module: ModulePath) {
        let text = fs::read_to_string(self.src.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let tokens = text.parse().unwrap_or_else(|error| panic!("{file}: {error}"));
        self.modules.insert(module.clone(), Module { file: file.to_owned(), ..Module::default() });
        self.read(tokens, &module);
    }

    fn read(&mut self, tokens: TokenStream, module: &ModulePath) {
        let mut rest = Tokens(tokens.into_iter().collect());
        let mut is_public = false;
        while let Some(token) = rest.next() {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => rest.attribute(),
                TokenTree::Group(group) => {
                    // `pub(crate)` keeps what `pub` said.
                    is_public &= group.delimiter() == Delimiter::Parenthesis;
                    self.read(group.stream(), module);
                    continue;
                }
                TokenTree::Ident(word) => {
                    let word = word.to_string();
                    match word.as_str() {
                        "pub" => {
                            is_public = true;
                            continue;
                        }
                        "use" => self.read_use(&mut rest, module, Vec::new(), is_public),
                        "mod" => self.read_mod(&mut rest, module),
                        item if ITEMS.contains(&item) => {
                            if let Some(name) = rest.word() {
                                self.own(module).items.insert(name);
                            }
                        }
                        _ => self.mention(rest.path(word), module),
                    }
                }
                _ => {}
            }
            is_public = false;
        }
    }

    fn own(&mut self, module: &ModulePath) -> &mut Module {
        self.modules.get_mut(module).expect("it has been read")
    }

    fn mention(&mut self, path: Vec<String>, module: &ModulePath) {
        self.words.insert((module.clone(), path[0].clone()));
        if path.len() > 1 {
            self.mentions.push(Mention { from: module.clone(), path, reexport: None });
        }
    }

    fn read_mod(&mut self, rest: &mut Tokens, module: &ModulePath) {
        let Some(name) = rest.word() else { return };
        self.own(module).children.insert(name.clone());
        let child: ModulePath = module.iter().chain([&name]).cloned().collect();
        if let Some(TokenTree::Group(body)) = rest.0.first().cloned() {
            rest.next();
            let file = self.own(module).file.clone();
            self.modules.insert(child.clone(), Module { file, ..Module::default() });
            return self.read(body.stream(), &child);
        }
        let path = child.join("/");
        let files = [format!("{path}.rs"), format!("{path}/mod.rs")];
        let file = files.iter().find(|file| self.src.join(file).exists());
        self.read_file(file.unwrap_or_else(|| panic!("no file for mod {path}")), child);
    }

    /// The rest of a `use` line, or of one branch of it.
    fn read_use(&mut self, rest: &mut Tokens, module: &ModulePath, mut path: Vec<String>, is_public: bool) {
        let mut name = None;
        while let Some(token) = rest.next() {
            match token {
                TokenTree::Ident(word) if word == "as" => name = rest.word(),
                TokenTree::Ident(word) if word == "self" && !path.is_empty() => {}
                TokenTree::Ident(word) => path.push(word.to_string()),
                TokenTree::Punct(punct) if punct.as_char() == '*' => {
                    self.own(module).globs.push(path.clone());
                    return self.mentions.push(Mention { from: module.clone(), path, reexport: None });
                }
                TokenTree::Group(branches) => {
                    let mut branches = Tokens::of(&branches);
                    while !branches.0.is_empty() {
                        self.read_use(&mut branches, module, path.clone(), is_public);
                    }
                    return;
                }
                TokenTree::Punct(punct) if [',', ';'].contains(&punct.as_char()) => break,
                _ => {}
            }
        }
        let Some(name) = name.or_else(|| path.last().cloned()) else { return };
        self.own(module).imports.insert(name.clone(), path.clone());
        self.mentions.push(Mention { from: module.clone(), path, reexport: is_public.then_some(name) });
    }
}

/// Files that `file` uses, also by way of others.
fn reach<'a>(file: &'a str, uses: &[(&'a str, &'a str, String)]) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![file];
    while let Some(file) = open.pop() {
        open.extend(
            uses.iter()
                .filter(|(from, ..)| *from == file)
                .map(|(_, to, _)| *to)
                .filter(|to| reached.insert(*to)),
        );
    }
    reached
}

struct Tokens(Vec<TokenTree>);

impl Tokens {
    fn of(group: &Group) -> Self {
        Self(group.stream().into_iter().collect())
    }

    fn next(&mut self) -> Option<TokenTree> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    /// The next token where it is a word.
    fn word(&mut self) -> Option<String> {
        let Some(TokenTree::Ident(word)) = self.0.first() else { return None };
        let word = word.to_string();
        self.next();
        Some(word)
    }

    fn is_punct(&self, at: usize, wanted: char) -> bool {
        matches!(self.0.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
    }

    /// A path that begins with `word`.
    fn path(&mut self, word: String) -> Vec<String> {
        let mut path = vec![word];
        while self.is_punct(0, ':')
            && self.is_punct(1, ':')
            && matches!(self.0.get(2), Some(TokenTree::Ident(_)))
        {
            self.0.drain(..2);
            path.extend(self.word());
        }
        path
    }

    /// An attribute behind its `#`. With `cfg(test)` the item goes with it.
    fn attribute(&mut self) {
        if self.is_punct(0, '!') {
            self.next();
        }
        let Some(TokenTree::Group(group)) = self.next() else { return };
        if group.stream().to_string().replace(' ', "") != "cfg(test)" {
            return;
        }
        while let Some(token) = self.next() {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ';' => return,
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return,
                _ => {}
            }
        }
    }
}
