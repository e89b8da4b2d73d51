//! The outputs of `wirerate capture`: one `--write`, or several with a filter and a snaplen each.

use super::args::Args;
use super::autostop::Autostop;
use crate::bad_usage::without_file;
use crate::rx_args::Targets;
use capture::{Options, Output, OutputOptions};
use program::outcome::Failure;
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// What is wrong with the outputs, before anything is started.
pub fn refusal(args: &Args) -> Result<(), Failure> {
    refuse_counts(args)?;
    let has_limit = |limit: &Autostop| limit.size_bytes().is_some() || limit.files().is_some();
    if args.write.is_empty() && args.files.autostop.iter().any(has_limit) {
        return Err(without_file().try_this("-w frames.pcapng"));
    }
    let mut seen: Vec<PathBuf> = Vec::new();
    for name in &args.write {
        let file = resolved(name);
        if seen.contains(&file) {
            let why = "it is named twice: the frames of two outputs would be mixed";
            return Err(Failure::usage(format!("write {}", name.display()), why)
                .try_this("another name for each --write"));
        }
        seen.push(file);
        refuse_output(args, name)?;
    }
    Ok(())
}

/// The path of an output that is the same for all its names; the file need not be there.
fn resolved(name: &Path) -> PathBuf {
    if name == Path::new("-") {
        return name.to_owned();
    }
    let folder = name.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let in_folder = || Some(fs::canonicalize(folder).ok()?.join(name.file_name()?));
    fs::canonicalize(name).ok().or_else(in_folder).unwrap_or_else(|| name.to_owned())
}

/// Each filter and each snaplen belongs to an output.
fn refuse_counts(args: &Args) -> Result<(), Failure> {
    let (files, filters, snaplens) = (args.write.len(), args.rx.filters.len(), args.snaplen.len());
    let act = "capture into several files";
    if filters > files.max(1) {
        let why = format!("there are {filters} filters for {files} --write: each filter belongs to one");
        let all = args.rx.filters.iter().map(|filter| format!("({filter})")).collect::<Vec<_>>().join(" or ");
        return Err(Failure::usage(act, why).try_this(format!("-f '{all}' for one file")));
    }
    if snaplens > 1 && snaplens != files {
        let why = format!("there are {snaplens} --snaplen for {files} --write");
        return Err(Failure::usage(act, why).try_this("--snaplen once for all, or once for each --write"));
    }
    Ok(())
}

fn refuse_output(args: &Args, name: &Path) -> Result<(), Failure> {
    let is_stdout = name == Path::new("-");
    if is_stdout && (args.json || args.csv) {
        let option = if args.json { "--json" } else { "--csv" };
        let why = "both want standard output";
        return Err(Failure::usage(format!("use {option} with --write -"), why)
            .try_this(format!("--write FILE {option}")));
    }
    if is_stdout && io::stdout().is_terminal() {
        let why = "standard output is a terminal, and a capture file is not text";
        return Err(Failure::usage("write frames to standard output", why)
            .try_this("-w FILE, or `... -w - | tcpdump -n -r -`"));
    }
    match args.files.refusal(name) {
        Some(why) if args.files.run.is_some() => {
            Err(Failure::usage("name the run", why).try_this("--format parquet"))
        }
        Some(why) => Err(Failure::usage(format!("write {}", name.display()), why)
            .try_this("a name that ends in .zst or .lz4")
            .try_this("`... -w - | gzip > FILE.gz`")),
        None => Ok(()),
    }
}

/// Where the frames of a `--write` go.
///
/// # Errors
/// When standard output is closed.
pub fn output(name: Option<&Path>) -> io::Result<Output> {
    Ok(match name {
        None => Output::Nowhere,
        Some(name) if name == Path::new("-") => {
            // The descriptor itself: Rust's standard output looks for line ends in everything.
            let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            Output::Descriptor { name: "standard output".to_owned(), file }
        }
        Some(path) => Output::File(path.to_owned()),
    })
}

/// The filter of an output; an empty one is none.
pub fn filter_of(targets: &Targets, output: usize) -> Option<String> {
    let filter = match &targets.filters[..] {
        [] => targets.filter.clone(),
        filters => filters.get(output).cloned(),
    };
    filter.filter(|filter| !filter.trim().is_empty())
}

/// The outputs behind the first one.
///
/// # Errors
/// When standard output is closed.
pub fn more(args: &Args, targets: &Targets) -> io::Result<Vec<OutputOptions>> {
    let more = args.write.iter().enumerate().skip(1).map(|(number, name)| {
        let snaplen = args.snaplen_of(number);
        let Options { format, compression, .. } = args.files.apply(Some(name), 0, Options::new(""));
        Ok(OutputOptions {
            output: output(Some(name))?,
            filter: filter_of(targets, number),
            snaplen: snaplen.bytes(),
            header_cut: snaplen.header_cut(),
            format,
            compression,
        })
    });
    more.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use capture::Format;
    use program::args_of;

    fn refused(words: &str) -> Option<String> {
        refusal(&args_of(words).expect("the words are options")).err().map(|failure| failure.to_string())
    }

    #[test]
    fn filters_and_snaplens_belong_to_the_files_in_their_order() {
        let args: Args = args_of("lo -w a.pcapng -f udp -s 96 -w b.pcap.zst -f tcp -s headers").unwrap();
        let targets = args.rx.targets("capture").expect("lo is there");
        assert_eq!(
            [0, 1].map(|output| filter_of(&targets, output)),
            [Some("udp".into()), Some("tcp".into())]
        );
        let more = more(&args, &targets).unwrap();
        assert_eq!((more[0].filter.as_deref(), more[0].header_cut), (Some("tcp"), Some(0)));
        assert_eq!((more[0].format, more[0].compression.is_some()), (Format::Pcap, true));
        let args: Args = args_of("lo -w a -w b -w c -s 64 udp").unwrap();
        let targets = args.rx.targets("capture").expect("lo is there");
        for output in 0..3 {
            assert_eq!(filter_of(&targets, output).as_deref(), Some("udp"), "words are for all");
            assert_eq!(args.snaplen_of(output).bytes(), 64);
        }
        let args: Args = args_of("lo -w a -f udp -w b -f tcp -w c").unwrap();
        assert_eq!(filter_of(&args.rx.targets("capture").expect("lo is there"), 2), None);
    }

    #[test]
    fn what_belongs_to_no_file_is_refused() {
        for (words, why) in [
            ("lo -w a -w b -w a", "a: it is named twice"),
            ("lo -w a -f udp -f tcp", "2 filters for 1 --write"),
            ("lo -w a -w b -w c -s 1 -s 2", "2 --snaplen for 3 --write"),
            ("lo -w - -w -", "-: it is named twice"),
            ("lo -w a -w ./a", "./a: it is named twice"),
            ("lo -w /usr/../dev/null -w /dev/null", "/dev/null: it is named twice"),
        ] {
            let text = refused(words).unwrap_or_else(|| panic!("{words}"));
            assert!(text.contains(why) && text.contains("try: "), "{words}: {text}");
        }
        assert_eq!(refused("lo -w a -w b -f udp -s 0"), None);
        let args: Args = args_of("lo -w a -f udp -w b -f tcp port 80").unwrap();
        let text = args.rx.targets("capture").expect_err("words of no filter").to_string();
        assert!(text.contains("'port 80' belongs to none of the 2 filters"), "{text}");
    }
}
