//! Symbolic links of other users, which root does not follow to write a file.

use crate::readers::{pcap_of, wirerate};
use std::fs;
use std::os::unix::fs::{lchown, symlink};

const OTHER_USER: u32 = 65_534;

/// Root overwrote its own file through a link that another user had planted.
#[test]
fn results_are_not_written_through_links_of_other_users() {
    testkit::needs!(testkit::is_root("chown"));
    let folder = testkit::Folder::new("links");
    fs::write(folder.join("a.pcap"), pcap_of(3)).unwrap();
    fs::write(folder.join("f.cfg"), "{ 0x00, 0x11 }\n").unwrap();
    for args in [
        "analyze a.pcap --flows-out OUT",
        "analyze a.pcap --hgrm OUT",
        "rewrite a.pcap -o OUT --src-mac 02:00:00:00:00:01",
        "replay lo a.pcap --dry-run --write OUT",
        "send lo --dry-run=3 --dst-mac 02:00:00:00:00:01 --write OUT",
        "trafgen -i f.cfg -o OUT -n 1",
        "export a.pcap -o OUT",
    ] {
        let target = folder.join("target");
        let link = folder.join("link.pcap");
        let is_folder = args.starts_with("export");
        match is_folder {
            true => fs::create_dir(&target).unwrap(),
            false => fs::write(&target, "of root").unwrap(),
        }
        let words = args.replace("OUT", link.to_str().unwrap());
        let words: Vec<&str> = words.split(' ').collect();
        symlink(&target, &link).unwrap();
        // Its own it follows.
        let own = wirerate(&folder, &words);
        assert!(!own.stderr.contains("symbolic link"), "{args}: {}", own.stderr);
        lchown(&link, Some(OTHER_USER), None).unwrap();
        let _ = if is_folder { fs::remove_dir_all(&target) } else { fs::remove_file(&target) };
        match is_folder {
            true => fs::create_dir(&target).unwrap(),
            false => fs::write(&target, "of root").unwrap(),
        }
        let refused = wirerate(&folder, &words);
        assert!(
            refused.stderr.contains("link.pcap is a symbolic link of another user"),
            "{args}: {}",
            refused.stderr
        );
        assert_ne!(refused.code, 0, "{args}");
        match is_folder {
            true => assert_eq!(fs::read_dir(&target).unwrap().count(), 0, "{args}"),
            false => assert_eq!(fs::read_to_string(&target).unwrap(), "of root", "{args}"),
        }
        fs::remove_file(&link).unwrap();
        let _ = if is_folder { fs::remove_dir_all(&target) } else { fs::remove_file(&target) };
    }
}
