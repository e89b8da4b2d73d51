//! Counts that every view shows: a line of a group has the name, the unit and the meaning of one.
//!
//! A group is a structure of counts. From its lines below are made: fields of JSON documents and
//! their schemas, columns of CSV, rows of reports, label values of metrics, columns of screen and
//! page, fields of fleet messages, and names for `--expect`. To add a count, add a line and count
//! it.

use crate::field::{Field, Kind, Part};
use crate::record::{Described, Record};
use serde::{Deserialize, Serialize};

/// A count of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Its name as a field, a column and a label value, such as `icmp_errors`.
    pub name: &'static str,
    /// What it counts, as Markdown.
    pub meaning: &'static str,
}

impl Fact {
    /// Its name in words, for reports.
    #[must_use]
    pub fn title(&self) -> String {
        self.name.replace('_', " ")
    }

    /// What it counts, for reports.
    #[must_use]
    pub fn remark(&self) -> String {
        self.meaning.replace('`', "")
    }
}

/// A count, or a count that may be unknown.
pub trait CountValue: Copy {
    /// True if it may be unknown, which is `null` in JSON.
    const IS_NULLABLE: bool;

    /// The count; `None` if it is unknown.
    fn known(self) -> Option<u64>;
    /// This many times the count.
    #[must_use]
    fn times(self, times: u64) -> Self;
    /// The sum with another one, which is unknown if one of them is.
    #[must_use]
    fn plus(self, other: Self) -> Self;
}

impl CountValue for u64 {
    const IS_NULLABLE: bool = false;

    fn known(self) -> Option<u64> {
        Some(self)
    }

    fn times(self, times: u64) -> Self {
        self.saturating_mul(times)
    }

    fn plus(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}

impl CountValue for Option<u64> {
    const IS_NULLABLE: bool = true;

    fn known(self) -> Option<u64> {
        self
    }

    fn times(self, times: u64) -> Self {
        self.map(|count| count.times(times))
    }

    fn plus(self, other: Self) -> Self {
        self.zip(other).map(|(own, other)| own.plus(other))
    }
}

macro_rules! groups {
    ($($(#[$doc:meta])* $group:ident ($unit:literal) {
        $($name:ident: $value:ty = $meaning:literal;)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $group {
            $(#[doc = $meaning] #[serde(default)] pub $name: $value,)*
        }

        impl Record for $group {
            const PARTS: &'static [Part] = &[$(Part::Field(Field {
                name: stringify!($name),
                kind: Kind::Count($unit),
                is_nullable: <$value as CountValue>::IS_NULLABLE,
                is_optional: false,
                meaning: $meaning,
            })),*];
        }

        impl Described for $group {
            const KIND: Kind = Kind::Object(Self::PARTS);
        }

        impl $group {
            /// Its counts.
            pub const FACTS: &'static [Fact] =
                &[$(Fact { name: stringify!($name), meaning: $meaning }),*];
            /// Their names.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];
            /// Each count with its value; `None` is unknown.
            pub fn each(&self) -> impl Iterator<Item = (&'static Fact, Option<u64>)> + use<> {
                Self::FACTS.iter().zip([$(self.$name.known()),*])
            }

            /// The counts above 0.
            pub fn present(&self) -> impl Iterator<Item = (&'static Fact, u64)> + use<> {
                self.each().filter_map(|(fact, count)| Some((fact, count.filter(|count| *count > 0)?)))
            }

            /// The count of this name, if it is known.
            pub fn get(&self, name: &str) -> Option<u64> {
                self.each().find_map(|(fact, count)| count.filter(|_| fact.name == name))
            }

            /// The sum of the counts that are known.
            #[inline]
            pub fn total(&self) -> u64 {
                0_u64$(.plus(self.$name.known().unwrap_or(0)))*
            }

            /// This many times its counts.
            #[must_use]
            pub fn times(&self, times: u64) -> Self {
                Self { $($name: self.$name.times(times)),* }
            }

            /// Adds the counts of another one.
            #[inline]
            pub fn add(&mut self, other: &Self) {
                $(self.$name = self.$name.plus(other.$name);)*
            }
        }
    )*};
}

groups! {
    /// Frames that a receiver saw and did not count as received.
    OtherFrames ("frames") {
        stale: u64 = "frames of another run";
        damaged: u64 = "frames with impossible values in the signature";
        foreign: u64 = "frames without a signature, or of flows not counted here";
        icmp_errors: u64 = "ICMP errors about frames with a signature, which did not arrive";
    }

    /// Frames that a receiver counted as received although something about them is unusual.
    UnusualFrames ("frames") {
        moves: u64 = "frames of a flow on another CPU than the frame before; try `--shared-flows`";
        negative: u64 = "frames received before they were sent: the clocks differ";
    }

    /// Frames that were offered to a driver and not sent, by cause.
    SendErrors ("frames") {
        refused: u64 = "the driver refused them";
        not_handed_over: u64 = "the kernel dropped them before the driver saw them";
        qdisc_dropped: u64 = "the qdisc dropped them, or others in their place";
        no_carrier: u64 = "they were due while the device was down or without carrier";
        invalid: u64 = "the kernel found their descriptors invalid";
    }

    /// Frames that reached a device, by what became of them.
    CaptureFrames ("frames") {
        written: u64 = "frames in the file, or counted without one";
        filtered: Option<u64> = "frames that did not match the filter; unknown if the kernel does not count them";
        lost_nic: Option<u64> = "lost in the device; unknown if it does not count them";
        lost_ring: u64 = "lost because a ring was full";
        lost_disk: u64 = "lost because the file could not be written, or not fast enough";
        after_limit: u64 = "received after the limit was reached";
        not_kept: u64 = "left the window of `--keep` before a trigger";
    }

    /// Connections that were not completed.
    ConnectFailures ("connections") {
        refused: u64 = "a reset answered the SYN";
        reset: u64 = "a reset came later";
        timeout: u64 = "no progress for `--timeout`";
        cut_off: u64 = "the server ended the connection within a response";
    }

    /// Segments of connections with a live server that an undisturbed connection does not have.
    UnusualSegments ("segments") {
        syn_resent: u64 = "SYNs sent again after the retransmission time";
        requests_resent: u64 = "requests sent again after it";
        fins_resent: u64 = "FINs sent again after it";
        syn_acks_repeated: u64 = "SYN-ACKs that the server repeated";
        repeated: u64 = "segments of the server whose data had arrived before";
        gaps: u64 = "segments of the server behind a gap";
        keepalive: u64 = "keepalive probes, all answered";
        strays: u64 = "segments that belong to no connection";
        challenged: u64 = "SYNs that the server answered for an earlier connection of their port";
    }

    /// Segments of connections with a server that answers for `accept`.
    ServerSegments ("segments") {
        received: u64 = "all segments for the addresses and ports of the server";
        accepted: u64 = "SYNs answered; a repeated SYN counts again";
        requests: u64 = "segments with data";
        responses: u64 = "their answers";
        closed: u64 = "FINs of clients; a repeated FIN counts again";
        resets: u64 = "resets of clients; a repeated reset counts again";
        not_written: u64 = "answers that did not fit into the frame that they answer; the client asks again";
    }

    /// Packets of capture files that became no frame.
    LeftOutPackets ("packets") {
        not_wanted: u64 = "not selected by `--filter`, `--packets`, `--interface`, `--from` and `--to`";
        cut: u64 = "the file has only their first bytes, and `--cut skip` was given";
        too_long: u64 = "longer than the device accepts";
        link_type: u64 = "their link type has no form on the device";
        damaged: u64 = "their bytes are not what the format or the link type requires";
        after_end: u64 = "read but not sent when the run ended";
    }

    /// Frames of a flow by what they were.
    FlowFrames ("frames") {
        in_order: u64 = "first copies behind all earlier ones";
        reordered: u64 = "first copies behind a later one";
        duplicate: u64 = "further copies";
        too_old: u64 = "frames too old to decide";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::fields_of;

    #[test]
    fn a_line_gives_the_field_its_value_its_row_and_its_sum() {
        let mut frames = CaptureFrames { written: 3, lost_nic: Some(4), ..CaptureFrames::default() };
        frames.add(&CaptureFrames { written: 2, lost_nic: Some(1), filtered: None, ..frames });
        assert_eq!((frames.written, frames.lost_nic, frames.total()), (5, Some(5), 10));
        assert_eq!(frames.filtered, None, "a sum with an unknown count is unknown");
        assert_eq!(
            (frames.get("lost_nic"), frames.get("filtered"), frames.get("lost")),
            (Some(5), None, None)
        );
        let shown: Vec<_> = frames.present().map(|(fact, count)| (fact.title(), count)).collect();
        assert_eq!(shown, [("written".to_owned(), 5), ("lost nic".to_owned(), 5)]);
        assert_eq!(frames.times(3).lost_nic, Some(15));
        let fields = fields_of(CaptureFrames::PARTS);
        assert_eq!(fields.iter().map(|field| field.name).collect::<Vec<_>>(), CaptureFrames::NAMES);
        assert_eq!(fields[..2].iter().map(|field| field.is_nullable).collect::<Vec<_>>(), [false, true]);
        let json = serde_json::to_string(&frames).unwrap();
        assert!(json.starts_with("{\"written\":5,\"filtered\":null,\"lost_nic\":5,"), "{json}");
    }
}
