//! `wirerate fleet init`: keys, a certificate, and the files of the hub, the agents and the
//! controller.

use fleet::FleetName;
use hub::{KeyPairText, SubjectPermissions, host_permissions, new_certificate, new_key, viewer_permissions};
use program::hub_access::{CONTROLLER_FILE, unusable_hub};
use program::outcome::{Failure, Outcome, Refused};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// File of the hub.
const HUB_FILE: &str = "hub.conf";
/// File of a viewer, who reads hosts and runs.
const VIEWER_FILE: &str = "viewer.toml";
/// Certificate of the hub, which agents and controllers trust.
const CERTIFICATE_FILE: &str = "hub-cert.pem";
/// Its key.
const CERTIFICATE_KEY_FILE: &str = "hub-key.pem";
/// Key of the controller.
const CONTROLLER_KEY: &str = "controller.nk";
/// Key of a viewer.
const VIEWER_KEY: &str = "viewer.nk";
/// Where NATS servers listen.
const HUB_PORT: u16 = 4222;

/// Arguments of `wirerate fleet init`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct InitArgs {
    /// The hosts, such as h1,h2,h3
    #[arg(long, value_name = "HOST,...", value_delimiter = ',', required = true)]
    hosts: Vec<FleetName>,
    /// Address or DNS name of the hub, by which agents and controllers reach it
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    address: String,
    /// Folder for the files
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Ports of each host, such as eth1,eth2
    #[arg(long, value_name = "DEV,...", value_delimiter = ',', default_value = "eth1")]
    ports: Vec<String>,
}

/// Writes all files; none that exists is replaced.
pub(super) fn run(args: &InitArgs) -> Result<Outcome, Failure> {
    let dir = &args.dir;
    fs::create_dir_all(dir).refused(format!("make {}", dir.display()))?;
    let names = |host: &FleetName| (format!("agent-{host}.toml"), format!("{host}.nk"));
    let of_hub = [HUB_FILE, CERTIFICATE_FILE, CERTIFICATE_KEY_FILE];
    let of_people = [CONTROLLER_FILE, CONTROLLER_KEY, VIEWER_FILE, VIEWER_KEY];
    let mut all: Vec<String> = of_hub.into_iter().chain(of_people).map(str::to_owned).collect();
    all.extend(args.hosts.iter().flat_map(|host| <[String; 2]>::from(names(host))));
    if let Some(known) = all.iter().find(|name| dir.join(name).exists()) {
        let why = format!("{} exists, and keys are not replaced", dir.join(known).display());
        return Err(Failure::usage("make a fleet", why).try_this("--dir with a new folder"));
    }
    let port_names = ports(&args.ports)?;
    let certificate = new_certificate(&args.address).map_err(unusable_hub)?;
    write(dir, CERTIFICATE_FILE, &certificate.certificate, false)?;
    write(dir, CERTIFICATE_KEY_FILE, &certificate.key, true)?;
    let url = match args.address.contains(':') {
        true => format!("tls://[{}]:{HUB_PORT}", args.address),
        false => format!("tls://{}:{HUB_PORT}", args.address),
    };
    let all_subjects = SubjectPermissions { publish: vec![">".into()], subscribe: vec![">".into()] };
    let people = [
        (CONTROLLER_FILE, CONTROLLER_KEY, "The holder of controller.nk controls all agents.", all_subjects),
        (VIEWER_FILE, VIEWER_KEY, "The holder of viewer.nk reads hosts and runs.", viewer_permissions()),
    ];
    let mut users = Vec::new();
    for (file, key_file, says, permissions) in people {
        let key = new_key().map_err(unusable_hub)?;
        write(dir, key_file, &key.seed, true)?;
        let text = format!(
            "# Read by `wirerate fleet --hub {file}`. {says}\nhub = \"{url}\"\nca = \"{CERTIFICATE_FILE}\"\nkey = \"{key_file}\"\n"
        );
        write(dir, file, &text, false)?;
        users.push(user(&key, &permissions));
    }
    for host in &args.hosts {
        let key = new_key().map_err(unusable_hub)?;
        let (file, key_file) = names(host);
        write(dir, &key_file, &key.seed, true)?;
        write(dir, &file, &agent_file(host, &url, &key_file, &port_names), false)?;
        users.push(user(&key, &host_permissions(host)));
    }
    write(dir, HUB_FILE, &hub_file(dir, &users)?, false)?;
    let mut text = format!(
        "On the hub ({}), with {HUB_FILE}, {CERTIFICATE_FILE} and {CERTIFICATE_KEY_FILE}:\n  nats-server -c {}\n",
        args.address,
        dir.join(HUB_FILE).display()
    );
    for host in &args.hosts {
        let (file, key_file) = names(host);
        text += &format!(
            "On {host}, with {file}, {key_file} and {CERTIFICATE_FILE}; write its ports and limits into {file}:\n  \
             wirerate agent --config {file}\n"
        );
    }
    text += &format!(
        "Where you control tests, with {CONTROLLER_FILE}, {CONTROLLER_KEY} and {CERTIFICATE_FILE}:\n  wirerate fleet hosts\n\
         Where results are only read, with {VIEWER_FILE}, {VIEWER_KEY} and {CERTIFICATE_FILE}:\n  \
         wirerate fleet list --hub {VIEWER_FILE}\n"
    );
    program::out::text(&text)?;
    Ok(Outcome::Done)
}

/// The names of the ports with their devices.
fn ports(devices: &[String]) -> Result<Vec<(FleetName, &str)>, Failure> {
    let mut ports = Vec::new();
    for device in devices {
        let name = device.replace(['.', ':', '@'], "-");
        let name: FleetName =
            name.parse().map_err(|bad| Failure::usage(format!("name port {device}"), bad))?;
        ports.push((name, device.as_str()));
    }
    Ok(ports)
}

/// Writes a new file, which only its owner reads if it is secret.
fn write(dir: &Path, name: &str, text: &str, is_secret: bool) -> Result<(), Failure> {
    let path = dir.join(name);
    let act = format!("write {}", path.display());
    let mode = if is_secret { 0o600 } else { 0o644 };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path).refused(&act)?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.write_all(if text.ends_with('\n') { b"" } else { b"\n" }))
        .refused(&act)
}

fn user(key: &KeyPairText, permissions: &SubjectPermissions) -> String {
    let list = |subjects: &[String]| {
        subjects.iter().map(|subject| format!("\"{subject}\"")).collect::<Vec<_>>().join(", ")
    };
    format!(
        "    {{\n      nkey: {}\n      permissions: {{\n        publish: {{ allow: [{}] }}\n        \
         subscribe: {{ allow: [{}] }}\n        allow_responses: {{ max: 10, expires: \"5m\" }}\n      }}\n    }}\n",
        key.public,
        list(&permissions.publish),
        list(&permissions.subscribe)
    )
}

fn hub_file(dir: &Path, users: &[String]) -> Result<String, Failure> {
    let dir = fs::canonicalize(dir).refused(format!("find {}", dir.display()))?;
    let file = |name: &str| dir.join(name).display().to_string();
    Ok(format!(
        "# The hub of a fleet, for an unmodified nats-server (2.10 or later): nats-server -c {HUB_FILE}\n\
         # Written by `wirerate fleet init`. Change the paths where the files are elsewhere.\n\
         port: {HUB_PORT}\n\
         jetstream {{\n  store_dir: \"{}\"\n}}\n\
         tls {{\n  cert_file: \"{}\"\n  key_file: \"{}\"\n}}\n\
         authorization {{\n  users = [\n{}  ]\n}}\n",
        file("hub-store"),
        file(CERTIFICATE_FILE),
        file(CERTIFICATE_KEY_FILE),
        users.concat()
    ))
}

fn agent_file(host: &FleetName, url: &str, key_file: &str, ports: &[(FleetName, &str)]) -> String {
    let mut text = format!(
        "# Read by `wirerate agent` on {host}. It decides what a fleet may ask of this host (docs/fleet.md).\n\
         host = \"{host}\"\nhub = \"{url}\"\nca = \"{CERTIFICATE_FILE}\"\nkey = \"{key_file}\"\n"
    );
    for (name, device) in ports {
        text += &format!(
            "\n[[port]]\nname = \"{name}\"\ndevice = \"{device}\"\n# netns = \"lab\"\n\
             # Highest rates of all flows together.\n# max_pps = \"1M\"\n# max_rate = \"1Gbit\"\n\
             # Where frames may go: RFC 2544's addresses and private ones.\n\
             allow_dst = [\"198.18.0.0/15\", \"10.0.0.0/8\", \"172.16.0.0/12\", \"192.168.0.0/16\", \"fc00::/7\", \"fe80::/10\"]\n"
        );
    }
    text
}
