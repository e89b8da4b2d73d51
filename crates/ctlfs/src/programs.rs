//! Replacements for programs, which answer for pktgen and mgcap under `exec` and pass all other
//! calls to the real ones.
//!
//! They are mounted over the real programs, because a script may call `/sbin/modprobe`, and sudo
//! resets PATH. A program that the host does not have is put into [`EXTRA_DIR`], which sudo looks
//! in on most hosts, and into a directory that comes first in CMD's PATH.

use crate::mount_ns::{MountNamespace, MountNamespaceError, try_to};
use crate::sys;
use nix::mount::{MsFlags, mount};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Where programs are looked for when PATH is not set, and by sudo.
pub(crate) const PATH_IF_UNSET: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The directory that shows programs which the host does not have.
const EXTRA_DIR: &str = "/usr/local/sbin";
/// The modules of the kernel, one a line.
const MODULES: &str = "/proc/modules";
/// The line of the module that scripts look for.
const PKTGEN_LINE: &str = "pktgen 61440 0 - Live 0x0000000000000000\n";

/// A program: its name, and the shell commands for the calls that it answers. They may use `$REAL`
/// (empty where the host has no such program), `$DIR` (our private directory) and `$WIRERATE`; all
/// other calls go to the real program.
type Program = (&'static str, &'static str);

/// Unloading the module removes all device instances.
const RESET: &str = r#"reset() {
    [ ! -e /proc/net/pktgen/pgctrl ] || echo reset > /proc/net/pktgen/pgctrl
}
refreshed() {
    [ -n "$REAL" ] || return 127
    "$REAL" "$@"
    status=$?
    if [ -e "$DIR/modules.real" ]; then
        { grep -q '^pktgen ' "$DIR/modules.real" || echo "$PKTGEN"
            cat "$DIR/modules.real"; } > "$DIR/modules"
    fi
    exit $status
}
"#;

const MODPROBE: Program = (
    "modprobe",
    r#"removes=
for word do
    case $word in -r* | -[!-]*r* | --remove) removes=1 ;; esac
done
for word do
    case $word in pktgen) [ -z "$removes" ] || reset; exit ;; esac
done
refreshed "$@""#,
);

const RMMOD: Program = (
    "rmmod",
    r#"has_pktgen= others=
for word do
    shift
    case $word in
        pktgen) has_pktgen=1; continue ;;
        -*) ;;
        *) others=1 ;;
    esac
    set -- "$@" "$word"
done
if [ -n "$has_pktgen" ]; then
    reset
    [ -n "$others" ] || exit 0
fi
refreshed "$@""#,
);

/// The real one looks in `/sys/module` as well, where nothing can be added.
const LSMOD: Program = (
    "lsmod",
    r#"if [ -n "$REAL" ]; then
    modules=$("$REAL" "$@" 2> /dev/null)
else
    modules="Module                  Size  Used by"
fi
echo "$modules"
case "
$modules" in *"
pktgen "*) ;; *) echo "pktgen                 61440  0" ;; esac
exit 0"#,
);

const IP: Program = (
    "ip",
    r#"netns= takes= verb= count=0
for word do
    count=$((count + 1))
    if [ -n "$takes" ]; then
        [ $takes != netns ] || netns=$word
        takes=
        continue
    fi
    case $word in
        -n | -ne | -net | -netn | -netns | --netns) takes=netns ;;
        -f | -family | -l | -loops | -rc | -rcvbuf | -b | -batch) takes=other ;;
        -*) ;;
        *) verb=$word; break ;;
    esac
done
if [ "$verb" = mgcap ]; then
    shift $count
    [ $# -gt 0 ] || set -- help
    set -- "$WIRERATE" mgcap --dir "$DIR/mgcap" "$@"
    [ -n "$netns" ] || exec "$@"
    set -- netns exec "$netns" "$@"
fi"#,
);

const MGCAP: Program = (
    "mgcap",
    r#"for word do
    case $word in --dir | --dir=*) exec "$WIRERATE" mgcap "$@" ;; esac
done
exec "$WIRERATE" mgcap --dir "$DIR/mgcap" "$@""#,
);
const MGDUMP: Program = ("mgdump", r#"exec "$WIRERATE" mgdump "$@""#);
const HWTSTAMP: Program = ("mgcap_hwtstamp_config", r#"exec "$WIRERATE" mgcap_hwtstamp_config "$@""#);

/// The programs that scripts for pktgen call.
pub(crate) const OF_PKTGEN: &[Program] = &[MODPROBE, RMMOD, LSMOD];
/// The programs that users of mgcap call.
pub(crate) const OF_MGCAP: &[Program] = &[IP, MGCAP, MGDUMP, HWTSTAMP];

impl MountNamespace {
    /// Puts `programs` where CMD finds them.
    pub(crate) fn add_programs(&self, programs: &[Program]) -> Result<(), MountNamespaceError> {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut missing = Vec::new();
        for program in programs {
            let places = places(program.0, &path);
            if places.is_empty() {
                self.write(program, &self.bin(), None)?;
                missing.push(program.0);
            }
            for (number, place) in places.iter().enumerate() {
                if let Err(error) = self.cover(program, number, place) {
                    tracing::warn!(%error, "only a call by PATH finds it");
                    self.write(program, &self.bin(), Some(place))?;
                }
            }
        }
        let extra = self.dir().join("extra");
        if !missing.is_empty() && !extra.exists() && Path::new(EXTRA_DIR).is_dir() {
            self.cover_extra_dir(&extra)?;
        }
        for name in missing.into_iter().filter(|_| extra.exists()) {
            // EXTRA_DIR itself is read-only; this is the directory below it.
            let step = format!("make a link to our {name}");
            try_to(&step, symlink(self.bin().join(name), extra.join(name)))?;
        }
        Ok(())
    }

    /// Shows the module pktgen in `/proc/modules`.
    pub(crate) fn add_module(&self) -> Result<(), MountNamespaceError> {
        // A kernel without modules has no such file.
        let Ok(modules) = fs::read_to_string(MODULES) else { return Ok(()) };
        let [ours, real] = ["modules", "modules.real"].map(|name| self.dir().join(name));
        let is_there = modules.lines().any(|line| line.starts_with("pktgen "));
        let text = if is_there { modules } else { format!("{PKTGEN_LINE}{modules}") };
        let step = format!("show pktgen in {MODULES}");
        try_to(&step, File::create(&real))?;
        try_to(&step, sys::bind_no_follow(Path::new(MODULES), &real))?;
        try_to(&step, fs::write(&ours, text))?;
        try_to(&step, sys::bind_no_follow(&ours, Path::new(MODULES)))
    }

    /// Mounts our program over `place`, and shows what was there in a directory of ours.
    fn cover(&self, program: &Program, number: usize, place: &Path) -> Result<(), MountNamespaceError> {
        let name = program.0;
        let step = format!("put our {name} over {}", place.display());
        let [ours, real] = ["ours", "real"].map(|kind| self.dir().join(format!("{kind}-{number}")));
        try_to(&step, fs::create_dir_all(&ours))?;
        try_to(&step, fs::create_dir_all(&real))?;
        let real = real.join(name);
        if place.is_symlink() {
            // One program of many names, which acts by the name that it is called by.
            try_to(&step, place.canonicalize().and_then(|target| symlink(target, &real)))?;
        } else {
            try_to(&step, File::create(&real))?;
            try_to(&step, sys::bind_no_follow(place, &real))?;
        }
        let file = self.write(program, &ours, Some(&real))?;
        try_to(&step, sys::bind_no_follow(&file, place))
    }

    /// Writes our program of that name into the directory `to`.
    fn write(
        &self,
        (name, ours): &Program,
        to: &Path,
        real: Option<&Path>,
    ) -> Result<PathBuf, MountNamespaceError> {
        let exe = try_to("find our own program", std::env::current_exe())?;
        let text = format!(
            "#!/bin/sh\n# wirerate exec\nREAL={}\nDIR={}\nWIRERATE={}\nPKTGEN='{}'\n{RESET}{ours}\n\
             [ -n \"$REAL\" ] || {{ echo \"{name}: command not found\" >&2; exit 127; }}\nexec \"$REAL\" \"$@\"\n",
            quoted(real.unwrap_or(Path::new(""))),
            quoted(self.dir()),
            quoted(&exe),
            PKTGEN_LINE.trim_end(),
        );
        let path = to.join(name);
        let step = format!("write our {name}");
        try_to(&step, fs::write(&path, text))?;
        try_to(&step, fs::set_permissions(&path, PermissionsExt::from_mode(0o755)))?;
        Ok(path)
    }

    /// Mounts a directory of ours, read-only, over [`EXTRA_DIR`]; it has links to everything that
    /// was there.
    fn cover_extra_dir(&self, extra: &Path) -> Result<(), MountNamespaceError> {
        let step = format!("put our programs into {EXTRA_DIR}");
        let below = self.dir().join("below");
        try_to(&step, fs::create_dir(extra))?;
        try_to(&step, fs::create_dir(&below))?;
        try_to(&step, mount(Some(EXTRA_DIR), &below, None::<&str>, MsFlags::MS_BIND, None::<&str>))?;
        let hidden = try_to(&step, Path::new(EXTRA_DIR).canonicalize())?;
        for entry in try_to(&step, fs::read_dir(EXTRA_DIR))?.flatten() {
            // A link that leads nowhere is left out.
            let Ok(target) = entry.path().canonicalize() else { continue };
            let target = target.strip_prefix(&hidden).map_or(target.clone(), |rest| below.join(rest));
            try_to(&step, symlink(target, extra.join(entry.file_name())))?;
        }
        try_to(&step, mount(Some(extra), EXTRA_DIR, None::<&str>, MsFlags::MS_BIND, None::<&str>))?;
        // What would be written here would be lost at the end.
        let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
        try_to(&step, mount(None::<&str>, EXTRA_DIR, None::<&str>, read_only, None::<&str>))
    }
}

/// In quotes of the shell, which end at a quote and begin again after it.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

/// Every file to be covered so that `name` is ours wherever it is called: what links of the same
/// name lead to, and links to programs of another name (`/sbin/modprobe` to `kmod`) themselves.
fn places(name: &str, path: &str) -> BTreeSet<PathBuf> {
    let dirs = path.split(':').chain(PATH_IF_UNSET.split(':')).map(Path::new).filter(|dir| dir.is_absolute());
    let place = |dir: &Path| {
        let target = dir.join(name).canonicalize().ok().filter(|target| target.is_file())?;
        if target.file_name().is_some_and(|file| file == name) {
            return Some(target);
        }
        Some(dir.canonicalize().ok()?.join(name))
    };
    dirs.filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_the_same_name_are_one_place_and_a_multi_call_link_is_its_own() {
        let dir = testkit::Folder::new("places");
        let [one, two] = ["one", "two"].map(|name| dir.join(name));
        fs::create_dir_all(&one).unwrap();
        fs::create_dir_all(&two).unwrap();
        for name in ["wrd-ip", "kmod"] {
            fs::write(one.join(name), "").unwrap();
        }
        symlink(one.join("wrd-ip"), two.join("wrd-ip")).unwrap();
        symlink("../one/kmod", two.join("wrd-modprobe")).unwrap();
        let path = format!("{}:relative:{}", two.display(), one.display());
        let found = |name| places(name, &path).into_iter().collect::<Vec<_>>();
        let expected = [one.canonicalize().unwrap().join("wrd-ip")];
        assert_eq!(found("wrd-ip"), expected);
        assert_eq!(found("wrd-modprobe"), [two.canonicalize().unwrap().join("wrd-modprobe")]);
        assert!(found("wrd-none").is_empty());
    }

    #[test]
    fn a_path_with_a_quote_stays_one_word() {
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
