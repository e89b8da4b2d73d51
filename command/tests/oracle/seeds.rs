//! Every command that the reference documents give as an example, and every word they list.

use crate::sim::{Link, Sim, shared};
use command::{COMMANDS, FLAGS, Place};

const DOCUMENTS: [&str; 3] =
    ["seeds/002_b57baa7dcb882857.txt", "seeds/003_9e2e8a5d1af4a27e.txt", "seeds/004_31a178f9c97577fd.txt"];

/// The commands in `pgset "..."`, without those that stand for something else (`$1`, `[name]`, `XX`).
fn examples(text: &str) -> Vec<&str> {
    let quoted = text.split("pgset \"").skip(1).filter_map(|rest| rest.split('"').next());
    quoted.filter(|command| !command.is_empty() && !command.contains(['$', '[', 'X', '\n'])).collect()
}

/// Devices that the paper adds.
fn links() -> Vec<Link> {
    (0..12).map(|number| Link::new(&format!("eth{number}"), number, [10, 0, 0, number])).collect()
}

#[test]
fn every_example_of_the_documents_is_taken() {
    for document in DOCUMENTS {
        let Some(text) = shared(document) else { return };
        let mut sim = Sim::new(1, links());
        sim.write("kpktgend_0", b"add_device eth0").expect("an interface");
        let all = examples(&text);
        assert!(all.len() > 30, "{document}: only {} examples", all.len());
        for command in all {
            let word = command.split(' ').next().expect("a word");
            let spec = COMMANDS.iter().find(|spec| spec.is_called(word.as_bytes()));
            let file = match spec.unwrap_or_else(|| panic!("{document}: no command {word}")).place {
                Place::Pgctrl => continue,
                Place::Thread => "kpktgend_0",
                Place::Device => "eth0",
            };
            let taken = sim.write(file, command.as_bytes());
            // The paper adds the same devices again in its next example.
            if taken == Err("EBUSY".to_owned()) && word == "add_device" {
                continue;
            }
            assert_eq!(taken, Ok(command.len()), "{document}: {command}");
            if word == "rem_device_all" {
                sim.write("kpktgend_0", b"add_device eth0").expect("an interface");
                continue;
            }
            let content = sim.read(file).expect("a file");
            let result = content.lines().find(|line| line.starts_with("Result: ")).expect("a result");
            assert!(result.starts_with("Result: OK: ") || result == "Result: Idle", "{command}: {result}");
        }
    }
}

#[test]
fn every_word_the_howto_lists_is_in_the_tables() {
    let Some(text) = shared(DOCUMENTS[1]) else { return };
    let start = text.find("Current commands and configuration options").expect("the list");
    let list = &text[start..start + text[start..].find("References:").expect("its end")];
    let mut found = 0;
    for line in list.lines().skip(2).map(|line| line.trim_start_matches('-').trim()) {
        let Some(word) = line.split(' ').next().filter(|word| !word.is_empty() && !line.starts_with("**"))
        else {
            continue;
        };
        let is_command = COMMANDS.iter().any(|spec| spec.is_called(word.as_bytes()));
        let is_flag = FLAGS.iter().any(|spec| spec.name == word || spec.aliases.contains(&word));
        assert!(is_command || is_flag, "{word}");
        found += 1;
    }
    assert_eq!(found, 69, "words in the list");
}
