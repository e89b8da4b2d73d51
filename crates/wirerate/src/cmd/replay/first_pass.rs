//! What has to be known before the first frame: which hosts are servers (`--split auto`,
//! `--each-loop clients`), and whether the files are whole (`--strict`).

use super::args::Args;
use super::fields::SplitChoice;
use super::target::TargetFacts;
use anyhow::anyhow;
use capture_files::playlist::{Played, Playlist, PlaylistOptions, refuse_stdin};
use program::outcome::Failure;
use program::stop::Stop;
use replay::{Edits, FrameMaker, FrameSettings, HostRoles, StopCause, TargetKind};
use units::quantity_of;

/// Reads all files once, if an option needs that. Returns the roles of the hosts for `--split
/// auto` and `--each-loop clients`. `edited` makes the frames that will be sent.
///
/// # Errors
/// Bad usage for standard input; refused for a file that cannot be read, or with `--strict` is
/// damaged; with `--strict`, a failed check for a packet that cannot be edited.
pub fn first_pass(
    args: &Args,
    facts: &TargetFacts,
    edited: FrameSettings,
    stop: &Stop,
) -> Result<Option<HostRoles>, Failure> {
    let splits = args.split == Some(SplitChoice::Auto);
    let moves = args.each_loop.iter().any(|step| step.needs_roles());
    let is_auto = splits || moves;
    let option = match (args.strict, splits, moves) {
        (true, ..) => "--strict",
        (_, true, _) => "--split auto",
        (.., true) => "--each-loop clients",
        _ => return Ok(None),
    };
    refuse_stdin(&args.files, &format!("read standard input before the first frame, for {option}"))?;
    let options = PlaylistOptions {
        command: format!("replay {}", args.device),
        loops: 1,
        fcs: args.edit.fcs.into(),
        console: stop.console().clone(),
        ..PlaylistOptions::default()
    };
    let mut playlist = Playlist::open(args.files.clone(), options)?;
    // The bytes of the file without edits, with an Ethernet header where the device has one.
    let settings = FrameSettings { target: facts.kind, dst_mac: Some(facts.mac), ..FrameSettings::default() };
    let mut maker = FrameMaker::new(settings);
    let mut edited = (args.strict && edited.edits != Edits::default()).then(|| FrameMaker::new(edited));
    let mut roles = HostRoles::default();
    while !stop.is_set() {
        match playlist.advance()? {
            Played::End | Played::NextLoop => break,
            Played::Packet => {
                if is_auto && let Ok(Ok(made)) = maker.make(&playlist.record()) {
                    roles.see(made.bytes, facts.kind == TargetKind::Ethernet);
                }
                let edited = edited.as_mut().map(|maker| maker.make(&playlist.record()).map(drop));
                match edited {
                    Some(Err(why @ StopCause::NotEdited { .. })) => {
                        return Err(Failure::failed("send edited packets", why)
                            .try_this("without --strict, to send such packets as they are"));
                    }
                    Some(Err(why @ StopCause::NotAnonymized { .. })) => {
                        return Err(Failure::failed("send edited packets", why)
                            .try_this("files of Ethernet, IP, loopback or cooked frames"));
                    }
                    _ => {}
                }
            }
        }
    }
    match &playlist.damages().places[..] {
        [why, ..] if args.strict => {
            let failure = Failure::refused("send damaged files", anyhow!("{why}"));
            Err(failure.try_this("without --strict, to send the packets that are whole"))
        }
        _ => Ok(is_auto.then_some(roles)),
    }
}

/// What the first pass found for `--split auto` and `--each-loop clients`, for the report.
pub fn role_note(args: &Args, roles: &HostRoles) -> String {
    let (device, servers) = (&args.device, roles.servers().len());
    let clients = roles.hosts() - servers;
    let other = args.other.as_ref().filter(|_| args.split == Some(SplitChoice::Auto));
    let undecided = match roles.undecided() {
        0 => String::new(),
        count => format!("; {} of hosts without a role for {device}", quantity_of(count, "packet")),
    };
    match other {
        Some(other) if servers > 0 => {
            format!(
                "hosts for {device} (clients): {clients}; hosts for {other} (servers): {servers}{undecided}"
            )
        }
        Some(_) => format!("no host is a server by its connections or ports: all frames are for {device}"),
        None => format!("hosts that move (clients): {clients}; hosts that stay (servers): {servers}"),
    }
}
