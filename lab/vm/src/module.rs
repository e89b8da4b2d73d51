//! Kernel modules as files, and their dependencies, read from the modules themselves.

use anyhow::{Context, Result, ensure};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What stands in front of the list of needed modules in a module's `.modinfo`.
const NEEDS: &[u8] = b"\0depends=";

/// All modules in a folder of folders, by name: `mac80211_hwsim`, whatever the file writes for `_`.
pub(crate) fn index(folder: &Path) -> Result<HashMap<String, PathBuf>> {
    let mut all = HashMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Some(name) = name_of(&path) {
                all.insert(name, path);
            }
        }
    }
    Ok(all)
}

/// `esp4` of `/.../esp4.ko.xz`.
fn name_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_suffix(".ko").or_else(|| name.strip_suffix(".ko.xz"))?;
    Some(name.replace('-', "_"))
}

/// The bytes of a module as the kernel takes them.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    if path.extension().is_none_or(|extension| extension != "xz") {
        return fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    }
    let output = Command::new("xz").arg("-dc").arg(path).output().context("cannot run xz")?;
    ensure!(output.status.success(), "xz cannot read {}", path.display());
    Ok(output.stdout)
}

/// The names of the modules that must be there before this one.
pub(crate) fn needs(module: &[u8]) -> Vec<String> {
    let Some(at) = module.windows(NEEDS.len()).position(|window| window == NEEDS) else { return Vec::new() };
    let list = &module[at + NEEDS.len()..];
    let list = list.split(|byte| *byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(list);
    names.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_name_what_they_need() {
        assert_eq!(
            needs(b"..\0license=GPL\0depends=mac80211,cfg80211\0retpoline=Y\0"),
            ["mac80211", "cfg80211"]
        );
        assert_eq!(needs(b"\0depends=gf128mul,ghash-generic\0"), ["gf128mul", "ghash_generic"]);
        assert!(needs(b"\0depends=\0vermagic").is_empty());
        assert!(needs(b"no words").is_empty());
    }

    #[test]
    fn names_do_not_depend_on_how_a_file_is_packed() {
        let name = |path: &str| name_of(Path::new(path));
        assert_eq!(name("/a/ghash-generic.ko.xz").as_deref(), Some("ghash_generic"));
        assert_eq!(name("/a/veth.ko").as_deref(), Some("veth"));
        assert_eq!(name("/a/modules.dep"), None);
    }
}
