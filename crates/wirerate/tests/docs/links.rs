//! Links between the pages lead to files and titles that exist, and docs/README.md leads to every
//! page. Tables are whole.

use std::collections::BTreeSet;
use std::fs;
use testkit::root;

fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap_or_else(|why| panic!("{page}: {why}"))
}

/// All pages, by their paths in the repository.
fn pages() -> Vec<String> {
    let mut pages: Vec<String> = [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "lab/bench/RESULTS.md",
        "lab/oracle/README.md",
    ]
    .map(str::to_owned)
    .into();
    for entry in fs::read_dir(root().join("docs")).expect("the folder is there").flatten() {
        let name = entry.file_name().into_string().expect("a plain name");
        pages.extend(name.ends_with(".md").then(|| format!("docs/{name}")));
    }
    pages.sort();
    pages
}

/// The targets of the links and pictures of a page.
fn links(text: &str) -> Vec<String> {
    let prose = text.lines().filter(|line| !line.starts_with("    ")).collect::<Vec<_>>().join("\n");
    let in_brackets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let in_quotes = ["src=\"", "srcset=\""].map(|name| prose.split(name).skip(1));
    let in_quotes = in_quotes.into_iter().flatten().filter_map(|rest| rest.split('"').next());
    in_brackets.chain(in_quotes).map(str::to_owned).collect()
}

/// The anchor of a title, as code hosts and mdbook make it.
fn anchor(title: &str) -> String {
    let letters = title.trim_start_matches('#').trim().to_lowercase();
    let letters = letters.chars().map(|c| if c == ' ' { '-' } else { c });
    letters.filter(|c| c.is_alphanumeric() || ['-', '_'].contains(c)).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut checked = 0;
    for page in pages() {
        let folder = root().join(&page);
        let folder = folder.parent().expect("it is a file");
        for link in links(&read(&page)).iter().filter(|link| !link.contains("://")) {
            let (path, title) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { root().join(&page) } else { folder.join(path) };
            assert!(target.exists(), "{page}: {link} leads nowhere");
            if !title.is_empty() {
                let text = fs::read_to_string(&target).expect("a page");
                let is_there = text.lines().any(|line| line.starts_with('#') && anchor(line) == title);
                assert!(is_there, "{page}: {link}: no such title");
            }
            checked += 1;
        }
    }
    assert!(checked > 150, "{checked}");
}

/// Pages that were merged named their own sections by the name of the file.
#[test]
fn links_within_a_page_have_words() {
    for page in pages() {
        let name = page.rsplit('/').next().unwrap_or_default();
        let text = read(&page);
        for link in [format!("[{name}](#"), format!("[{name}]({name}")] {
            assert!(!text.contains(&link), "{page}: {link}");
        }
    }
}

/// Code hosts and mdbook do not show a cell that is one too many: those were names of tests.
#[test]
fn rows_of_a_table_have_the_cells_of_its_head() {
    let bars = |row: &str| row.matches('|').count() - row.matches("\\|").count();
    let mut checked = 0;
    for page in pages() {
        let mut head: Option<usize> = None;
        for line in read(&page).lines() {
            head = line.starts_with('|').then(|| head.unwrap_or_else(|| bars(line)));
            if let Some(bars_of_head) = head {
                assert_eq!(bars(line), bars_of_head, "{page}: {line}");
                checked += 1;
            }
        }
    }
    assert!(checked > 1000, "{checked}");
}

/// The page of the commands and of all pages.
const CONTENTS: &str = "docs/README.md";

/// The pages to which a page leads, by their paths in the repository.
fn linked_from(page: &str, text: &str) -> BTreeSet<String> {
    let path = |link: &String| {
        let link = link.split('#').next().unwrap_or_default();
        match link.strip_prefix("../") {
            Some(above) => above.to_owned(),
            None if page == CONTENTS => format!("docs/{link}"),
            None => link.to_owned(),
        }
    };
    links(text).iter().map(path).collect()
}

#[test]
fn the_contents_lead_to_every_page() {
    let contents = read(CONTENTS);
    let (_, table) = contents.split_once("## Where to go next").expect("the table has its title");
    // It is the contents of the site of `make docs`, too.
    let linked = linked_from(CONTENTS, table);
    for page in pages().iter().filter(|page| !["README.md", CONTENTS].contains(&&***page)) {
        assert!(linked.contains(page), "{page} is not in the table of {CONTENTS}");
    }
}

/// A first page of nine hundred words, and at most 32 pages.
#[test]
fn the_first_page_is_short_and_the_pages_are_few() {
    let words = read("README.md").split_whitespace().count();
    assert!(words <= 900, "README.md has {words} words");
    let docs = pages().into_iter().filter(|page| page.starts_with("docs/")).count();
    assert!(docs <= 32, "{docs} pages");
}

/// The fifteen jobs of a newcomer: the page where each is found, and words of its command.
const JOBS: [(&str, &str, &[&str]); 15] = [
    ("install it", "README.md", &["## Install", "make install", "make package"]),
    ("send a million frames to an address", "README.md", &["--dst 198.18.0.2 --count 1M"]),
    ("send 1 Gbit/s for 10 s", "docs/README.md", &["--rate 1Gbit --duration 10s"]),
    ("use it in a namespace or a container", "docs/install.md", &["container"]),
    ("spread flows over receive queues", "docs/cookbook.md", &["(RSS)", "--random udp-src"]),
    ("see how many frames arrive", "docs/README.md", &["wirerate sink eth1", "`wirerate count DEV`"]),
    ("measure loss from end to end", "README.md", &["measure --tx tx0@tx --rx rx0@rx --expect lost=0"]),
    ("capture whole frames for Wireshark", "docs/cookbook.md", &["Capture whole frames for Wireshark"]),
    ("capture with a filter", "docs/README.md", &["-w web.pcapng tcp port 80"]),
    ("watch live in tshark", "docs/cookbook.md", &["Watch live in tshark"]),
    ("keep a ring of files", "docs/capture.md", &["--rotate-every 10min", "--files"]),
    ("run a pktgen script", "README.md", &["wirerate exec -- ./script.sh"]),
    ("find out why it is slow", "docs/when-it-does-not-work.md", &["wirerate doctor"]),
    ("use the numbers in CI", "docs/README.md", &["--json", "Exit codes:"]),
    ("send TCP, ICMP and bytes of one's own", "docs/cookbook.md", &["TCP SYNs", "pings", "your own payload"]),
];

#[test]
fn the_jobs_of_a_newcomer_are_found_from_the_readme() {
    let mut linked = linked_from("README.md", &read("README.md"));
    linked.extend(linked_from(CONTENTS, &read(CONTENTS)));
    for (job, page, words) in JOBS {
        assert!(page == "README.md" || linked.contains(page), "{job}: {page}");
        let text = read(page);
        for word in words {
            assert!(text.contains(word), "{job}: no {word:?} in {page}");
        }
    }
}

/// Pages gave different orders of `ip link set up` and `ethtool -K`, and none was right for all.
#[test]
fn every_page_has_one_rule_for_gro_of_a_veth() {
    const RULE: &str = "A veth accepts frames from XDP if GRO of its peer is switched on while both ends are up \
                        (`ethtool -K PEER gro off`, then `gro on`), or if its peer runs an XDP program.";
    let mut found = Vec::new();
    for page in pages() {
        let text = read(&page);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if words.contains("ethtool -K PEER gro") || words.contains("has GRO") {
            assert!(words.contains(RULE), "{page}");
            assert_eq!(words.matches("-K PEER gro").count(), words.matches(RULE).count(), "{page}");
            found.push(page);
        }
    }
    assert_eq!(found.len(), 8, "{found:?}");
}
