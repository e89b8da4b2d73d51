//! Capture files to a data set.

use super::args::Args;
use super::data_set::{DataSet, StoreError};
use super::report::Report;
use super::source::Source;
use super::store::Store;
use capture_files::damage::Damages;
use capture_files::input::is_stdin;
use capture_files::losses::{Losses, total};
use capture_files::playlist::{
    FileOrder, odd_notes, open_records, sort_by_first_packets, unread, unreadable,
};
use capture_files::records::{FileInterface, FileRecords, OddPackets};
use columns::{CapturedInterface, PacketRow};
use pcapng::PacketFlags;
use program::outcome::{Failure, Refused};
use program::stop::Stop;
use std::path::Path;

/// Device of packets whose file names none.
const DEVICE_UNKNOWN: &str = "unknown";
/// What messages call this.
const COMMAND: &str = "export -o DIR";

/// Reads all files, also after the output failed: the report says how many packets are not stored.
pub(super) fn run(args: &Args, stop: &Stop) -> Result<Report, Failure> {
    for file in args.files.iter().filter(|file| !is_stdin(file)) {
        let facts = std::fs::metadata(file).map_err(|why| Failure::read(file, why))?;
        // A file of another kind is refused before anything is written.
        if facts.is_file() {
            open_records(file, COMMAND, stop.console())?;
        }
    }
    let mut files = args.files.clone();
    if args.sort {
        sort_by_first_packets(&mut files)?;
    }
    let run = args.run.clone().unwrap_or_else(|| run_name(&args.files[0]));
    let host = args.host.clone().unwrap_or_else(host::machine_name);
    let folder = columns::run_folder(&run);
    let store = Store::open(&args.output, stop).refused(format!("write {}", args.output.display()))?;
    let act = || format!("write {}", store.place(&folder));
    let advice = store.advice();
    if store.has(&folder).map_err(|why| Failure::refused(act(), why).try_this(advice))? {
        return Err(Failure::refused(act(), anyhow::anyhow!("it is there already"))
            .try_this("another --run, or another -o"));
    }
    let mut export = Export {
        data_set: DataSet::new(store, &run, &host, !args.no_bytes).refused("start a thread")?,
        losses: Losses::default(),
        packets: 0,
        failure: None,
        damages: Damages::default(),
        order: FileOrder::default(),
        odd: OddPackets::default(),
        routes: Vec::new(),
        sections: 0,
    };
    for (number, path) in files.iter().enumerate() {
        match open(path, stop) {
            Ok((source, records)) => {
                export.data_set.begin_source(source);
                export.read(records, stop);
            }
            Err(why) if number == 0 => return Err(unreadable(path, why, COMMAND)),
            // What was stored of the files before it is kept.
            Err(why) => export.damages.add("rest_of_file", || unread(path, &why, COMMAND)),
        }
        if stop.is_set() {
            export.damages.add("stopped", || "stopped before the end of the files".to_owned());
            break;
        }
    }
    let rows = std::mem::take(&mut export.losses).rows();
    let lost = total(&rows);
    if export.failure.is_none() {
        export.failure = export.data_set.finish(&rows).err();
    }
    Ok(Report {
        to: args.to,
        output: args.output.display().to_string(),
        packets: export.packets,
        stored: export.data_set.stored,
        lost,
        failure: export.failure.map(anyhow::Error::from),
        advice,
        damages: export.damages,
        notes: export.order.notes().into_iter().chain(odd_notes(export.odd)).collect(),
    })
}

/// The device of an interface.
fn device_of(interface: Option<&FileInterface>) -> &str {
    interface.and_then(FileInterface::device).unwrap_or(DEVICE_UNKNOWN)
}

/// The name of a file without its extensions.
fn run_name(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let stem = name.as_deref().and_then(|name| name.split('.').find(|part| !part.is_empty()));
    match stem {
        Some(stem) if !is_stdin(path) => stem.to_owned(),
        _ => "stdin".to_owned(),
    }
}

/// Opens a file, of which the data set says length and checksum.
fn open(path: &Path, stop: &Stop) -> anyhow::Result<(Source, FileRecords)> {
    Ok((Source::of(path, stop)?, FileRecords::open(path, stop.console())?))
}

/// An export while files are read.
struct Export {
    data_set: DataSet,
    losses: Losses,
    packets: u64,
    failure: Option<StoreError>,
    damages: Damages,
    order: FileOrder,
    odd: OddPackets,
    /// Where packets of each interface of the section at hand go.
    routes: Vec<Option<RecordRoute>>,
    sections: u64,
}

/// What packets of one interface have in common.
struct RecordRoute {
    device: usize,
    /// Its number among the losses.
    losses: usize,
    is_hardware_time: Option<bool>,
}

impl Export {
    fn read(&mut self, mut records: FileRecords, stop: &Stop) {
        self.routes.clear();
        while !stop.is_set() && records.advance() {
            self.packet(&records);
        }
        self.damages.merge(records.take_damages());
        self.odd.add(records.odd_packets());
        for found in records.statistics() {
            self.losses.statistics(device_of(Some(&found.interface)), found);
        }
        self.losses.end_file();
    }

    fn packet(&mut self, records: &FileRecords) {
        self.packets += 1;
        if let Some(time_ns) = records.time_ns() {
            self.order.see(records.path(), time_ns);
        }
        if self.failure.is_some() {
            return;
        }
        if let Err(error) = self.push(records) {
            self.failure = Some(error);
        }
    }

    fn push(&mut self, records: &FileRecords) -> Result<(), StoreError> {
        if records.sections() != self.sections {
            self.routes.clear();
            self.sections = records.sections();
        }
        let (record, extras) = (records.record_with_fcs(self.packets), records.extras());
        let interface = record.interface as usize;
        if self.routes.get(interface).is_none_or(Option::is_none) {
            let route = self.route(records)?;
            self.routes.resize_with(self.routes.len().max(interface + 1), || None);
            self.routes[interface] = Some(route);
        }
        let route = self.routes[interface].as_ref().expect("it is there now");
        self.losses.packet(route.losses, record.time_ns, extras.drop_count);
        let row = PacketRow {
            time_ns: record.time_ns,
            is_hardware_time: route.is_hardware_time,
            interface: record.interface,
            queue: extras.queue,
            direction: extras.flags.and_then(PacketFlags::direction),
            packet_id: extras.packet_id,
            comment: records.comment(),
            cpu: None,
            frame_len: record.frame_len,
            link_type: record.link_type,
            data: record.data,
        };
        self.data_set.push(route.device, &row)
    }

    fn route(&mut self, records: &FileRecords) -> Result<RecordRoute, StoreError> {
        let (record, interface) = (records.record(self.packets), records.interface());
        let name = device_of(interface).to_owned();
        let captured = CapturedInterface {
            number: record.interface,
            name: interface.and_then(|interface| interface.name.clone()),
            link_type: record.link_type,
            snaplen: interface.map_or(0, |interface| interface.snaplen),
            fcs_len: records.extras().fcs_len,
        };
        let device = self.data_set.device(&name, captured)?;
        let is_hardware_time = interface.and_then(|interface| interface.is_hardware_time());
        let losses = self.losses.device(&name);
        Ok(RecordRoute { device, losses, is_hardware_time })
    }
}
